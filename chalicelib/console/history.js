/* The history of an object: all its events, and then each new one. */

import { get } from "./api.js";
import { Feed } from "./feed.js";

const PAGE = 1000;
const MAX_EVENTS = 10_000;
/* More keys do not fit into a URL. */
const MAX_KEYS = 100;

/** The events that match `query`, oldest first, and the position up to which they were read. */
export async function past(query, signal) {
  const parts = inParts(query);
  const found = await Promise.all(parts.map((part) => read(part, signal)));
  const events = found.flatMap((one) => one.events).sort((a, b) => a.eventId - b.eventId);
  return { events, eventId: Math.min(...found.map((one) => one.eventId)), isCut: found.some((one) => one.isCut) };
}

/** Follow later events. Beyond the maximum only the first keys are followed. */
export function future(query, after, onEvents, onState) {
  return new Feed({ parameters: inParts(query)[0], after, onEvents, onState }).start();
}

function inParts({ types = [], keys = [] }) {
  if (keys.length <= MAX_KEYS) return [{ types, keys }];
  const count = Math.ceil(keys.length / MAX_KEYS);
  return Array.from({ length: count }, (_, index) => ({
    types,
    keys: keys.slice(index * MAX_KEYS, (index + 1) * MAX_KEYS),
  }));
}

async function read(query, signal) {
  const events = [];
  let after = 0;
  while (events.length < MAX_EVENTS) {
    const seq = await get("events", { ...query, after, limit: PAGE }, { signal });
    after = seq.eventId;
    if (seq.TYPE === "Empty") return { events, eventId: after, isCut: false };
    events.push(...(seq.eventSnapshots ?? []));
  }
  return { events, eventId: after, isCut: true };
}
