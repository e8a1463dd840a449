// Follow a feed with fetch() and a streaming reader, as pages do because EventSource cannot send the token.
// Reports like with_event_source.js. It has to reconnect and resume itself.
const RETRY_MS = 1000;

export async function follow(createParser, { feed, url, token, last }, report) {
  let retryMs = RETRY_MS;
  let lastId = null;
  let isOver = false;
  const onRetry = (ms) => (retryMs = ms);
  const onEvent = ({ event = "message", id, data }) => {
    if (isOver) return;
    lastId = id ?? lastId;
    report({ feed, event, id, data });
    isOver = event === last;
  };
  while (!isOver) {
    try {
      const headers = { Accept: "text/event-stream", Authorization: `Bearer ${token}` };
      if (lastId !== null) headers["Last-Event-ID"] = lastId;
      const response = await fetch(url, { headers, cache: "no-store" });
      if (response.status !== 200) return report({ feed, gaveUp: `${response.status} ${await response.text()}` });
      report({ feed, open: true });
      const parser = createParser({ onEvent, onRetry });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) parser.feed(part.value);
      if (!isOver) report({ feed, lost: "the response ended" });
    } catch (error) {
      if (!isOver) report({ feed, lost: String(error) });
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}
