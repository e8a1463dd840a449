// Follow a feed with an EventSource, Node's or the browser's: it comes back and resumes by itself.
// Told is `{feed, open}`, `{feed, lost}` and `{feed, gaveUp}` of connections, and `{feed, event, id, data}`.
export function follow(EventSource, options, { feed, url, names, last }, tell) {
  const source = new EventSource(url, options);
  source.addEventListener("open", () => tell({ feed, open: true }));
  source.addEventListener("error", ({ message }) =>
    tell({ feed, [source.readyState === 2 ? "gaveUp" : "lost"]: message ?? "" }),
  );
  for (const name of names) {
    source.addEventListener(name, ({ type, lastEventId, data }) => {
      tell({ feed, event: type, id: lastEventId, data });
      if (type === last) source.close();
    });
  }
}
