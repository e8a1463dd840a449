// Follow a feed with an EventSource of Node or the browser, which reconnects and resumes automatically.
// Reports are `{feed, open}`, `{feed, lost}` and `{feed, gaveUp}` for connections, and `{feed, event, id, data}`.
export function follow(EventSource, options, { feed, url, names, last }, report) {
  const source = new EventSource(url, options);
  source.addEventListener("open", () => report({ feed, open: true }));
  source.addEventListener("error", ({ message }) =>
    report({ feed, [source.readyState === 2 ? "gaveUp" : "lost"]: message ?? "" }),
  );
  for (const name of names) {
    source.addEventListener(name, ({ type, lastEventId, data }) => {
      report({ feed, event: type, id: lastEventId, data });
      if (type === last) source.close();
    });
  }
}
