/*
 * A live snapshot: the object summaries of a collection at its eventId, with every later event folded in. Objects that
 * cannot be folded are reloaded.
 */

import { get } from "./api.js";
import { Feed } from "./feed.js";
import { fold } from "./fold.js";
import { objectOf } from "./vocabularies.js";

export const LIMIT = 2000;
const AGAIN_MS = 5_000;
const TYPES = {
  job: ["job/*"],
  jobset: ["jobset/*", "job/*"],
  order: ["scheduler/OrderEvent/*", "scheduler/FileBasedEvent/*"],
  jobChain: ["scheduler/JobChainEvent/*", "scheduler/FileBasedEvent/*"],
  schedulerJob: ["scheduler/JobEvent/*", "scheduler/FileBasedEvent/*"],
  task: ["scheduler/TaskEvent/*"],
  fileBased: ["scheduler/FileBasedEvent/*"],
  scheduler: ["scheduler/SchedulerEvent/*"],
  pushJob: ["push/*"],
};

/** One collection, filtered by `search` and `state`. */
export class Snapshot {
  #collection;
  #filter;
  #changed;
  #state;
  #feed = null;
  #objects = new Map();
  #timer = null;
  #closed = false;

  counts = {};
  moreFollows = false;
  eventId = null;

  constructor(collection, filter, { onChange, onState }) {
    this.#collection = collection;
    this.#filter = filter;
    this.#changed = onChange;
    this.#state = onState;
  }

  /** The objects, most recently changed first. */
  get objects() {
    return [...this.#objects.values()].reverse();
  }

  /** The number of objects in all states. */
  get total() {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0);
  }

  /** Load the snapshot and follow from its eventId. */
  async load() {
    const { search, state } = this.#filter;
    const read = await get(`objects/${this.#collection}`, { brief: "yes", limit: LIMIT, search, state });
    if (this.#closed) return;
    this.counts = read.counts;
    this.moreFollows = read.moreFollows;
    this.eventId = read.eventId;
    this.#objects = new Map(read.elements.toReversed().map((object) => [object.path, object]));
    this.#feed?.stop();
    this.#feed = new Feed({
      parameters: { types: TYPES[this.#collection] },
      after: read.eventId,
      onEvents: (events) => this.#take(events),
      onState: this.#state,
      onTorn: () => this.#again(),
    }).start();
    this.#changed();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#feed?.stop();
  }

  #take(events) {
    for (const event of events) this.#fold(event);
    this.eventId = events.at(-1).eventId;
    this.#changed();
  }

  #fold(event) {
    const [collection, path] = objectOf(event) ?? [];
    if (collection !== this.#collection) {
      const concerns =
        this.#collection === "jobset"
          ? event.payload?.data?.jobset !== undefined
          : collection === "fileBased" && this.#collection !== "fileBased";
      return concerns ? this.#again() : undefined;
    }
    const before = this.#objects.get(path);
    const after = fold(collection, path, before, event);
    if (after === undefined) return this.#again();
    this.#objects.delete(path);
    if (after !== null && this.#isWanted(after)) this.#objects.set(path, after);
    if (before) this.#count(before.state, -1);
    if (after !== null && (before || this.#isFound(after))) this.#count(after.state, 1);
    if (this.#objects.size > 2 * LIMIT) this.#objects.delete(this.#objects.keys().next().value);
  }

  #isWanted(object) {
    return (!this.#filter.state || object.state === this.#filter.state) && this.#isFound(object);
  }

  #isFound({ path, label }) {
    const search = (this.#filter.search ?? "").toLowerCase();
    return `${path} ${label ?? ""}`.toLowerCase().includes(search);
  }

  #count(state, by) {
    this.counts = { ...this.counts, [state]: Math.max(0, (this.counts[state] ?? 0) + by) };
    if (this.counts[state] === 0) delete this.counts[state];
  }

  #again() {
    if (this.#timer !== null || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.load().catch(() => this.#again());
    }, AGAIN_MS);
  }
}
