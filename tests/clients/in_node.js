// npm's eventsource. The feeds are the argument; what they get are lines of JSON.
import { EventSource } from "eventsource";
import { follow } from "./with_event_source.js";

const tell = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);

for (const errand of JSON.parse(process.argv[2])) {
  const authorized = (url, init) =>
    fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${errand.token}` } });
  follow(EventSource, { fetch: authorized }, errand, tell);
}
