/* The history of an object: all its events, and then each new one. */

import { get } from "./api.js";
import { Feed } from "./feed.js";

const PAGE = 1000;
const MOST = 10_000;
const MOST_KEYS = 100;
/* So many keys fit into an address. */

/** The events that `query` finds, the oldest first, and the position up to which they are known. */
export async function past(query, signal) {
  const parts = inParts(query);
  const found = await Promise.all(parts.map((part) => read(part, signal)));
  const events = found.flatMap((one) => one.events).sort((a, b) => a.eventId - b.eventId);
  return { events, eventId: Math.min(...found.map((one) => one.eventId)), isCut: found.some((one) => one.isCut) };
}

/** Follow what comes after; more keys than fit are followed by their first. */
export function future(query, after, onEvents, onState) {
  return new Feed({ parameters: inParts(query)[0], after, onEvents, onState }).start();
}

function inParts({ types = [], keys = [] }) {
  if (keys.length <= MOST_KEYS) return [{ types, keys }];
  const count = Math.ceil(keys.length / MOST_KEYS);
  return Array.from({ length: count }, (_, index) => ({
    types,
    keys: keys.slice(index * MOST_KEYS, (index + 1) * MOST_KEYS),
  }));
}

async function read(query, signal) {
  const events = [];
  let after = 0;
  while (events.length < MOST) {
    const seq = await get("events", { ...query, after, limit: PAGE }, { signal });
    after = seq.eventId;
    if (seq.TYPE === "Empty") return { events, eventId: after, isCut: false };
    events.push(...(seq.eventSnapshots ?? []));
  }
  return { events, eventId: after, isCut: true };
}
