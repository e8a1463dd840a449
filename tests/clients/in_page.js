// A page of the server's own origin. What its feeds get is kept in `told` until somebody asks.
async ({ modules, errands, byFetch }) => {
  const module = (text) => import(`data:text/javascript,${encodeURIComponent(text)}`);
  const [parsing, withEventSource, withFetch] = await Promise.all(modules.map(module));
  globalThis.told = [];
  const tell = (one) => globalThis.told.push(one);
  for (const errand of errands) {
    if (byFetch) withFetch.follow(parsing.createParser, errand, tell);
    else withEventSource.follow(EventSource, undefined, errand, tell);
  }
}
