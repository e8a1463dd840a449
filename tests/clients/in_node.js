// The npm package eventsource. The argument lists the feeds. Prints one JSON report per line.
import { EventSource } from "eventsource";
import { follow } from "./with_event_source.js";

const report = (entry) => process.stdout.write(`${JSON.stringify(entry)}\n`);

for (const task of JSON.parse(process.argv[2])) {
  const authorized = (url, init) =>
    fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${task.token}` } });
  follow(EventSource, { fetch: authorized }, task, report);
}
