// Follow a feed with fetch() and a streaming reader, as pages do whose EventSource could not send the token.
// It tells the same as an EventSource; coming back and resuming is its own business.
const RETRY_MS = 1000;

export async function follow(createParser, { feed, url, token, last }, tell) {
  let retryMs = RETRY_MS;
  let lastId = null;
  let isOver = false;
  const onRetry = (ms) => (retryMs = ms);
  const onEvent = ({ event = "message", id, data }) => {
    if (isOver) return;
    lastId = id ?? lastId;
    tell({ feed, event, id, data });
    isOver = event === last;
  };
  while (!isOver) {
    try {
      const headers = { Accept: "text/event-stream", Authorization: `Bearer ${token}` };
      if (lastId !== null) headers["Last-Event-ID"] = lastId;
      const answer = await fetch(url, { headers, cache: "no-store" });
      if (answer.status !== 200) return tell({ feed, gaveUp: `${answer.status} ${await answer.text()}` });
      tell({ feed, open: true });
      const parser = createParser({ onEvent, onRetry });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) parser.feed(part.value);
      if (!isOver) tell({ feed, lost: "the answer ended" });
    } catch (error) {
      if (!isOver) tell({ feed, lost: String(error) });
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}
