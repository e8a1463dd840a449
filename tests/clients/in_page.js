// Runs in a page with the origin of the server. Collects the reports in `reports`, which the test polls.
async ({ modules, tasks, byFetch }) => {
  const module = (text) => import(`data:text/javascript,${encodeURIComponent(text)}`);
  const [parsing, withEventSource, withFetch] = await Promise.all(modules.map(module));
  globalThis.reports = [];
  const report = (entry) => globalThis.reports.push(entry);
  for (const task of tasks) {
    if (byFetch) withFetch.follow(parsing.createParser, task, report);
    else withEventSource.follow(EventSource, undefined, task, report);
  }
}
