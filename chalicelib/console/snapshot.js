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
/** The type patterns of the events that change a collection. */
export const TYPES = {
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

/** One collection, filtered by `search`, `state` and `result`. */
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
  results = {};
  isCounted = true;
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
    const { search, state, result } = this.#filter;
    const read = await get(`objects/${this.#collection}`, { brief: "yes", limit: LIMIT, search, state, result });
    if (this.#closed) return;
    // A filtered list of a large collection is not counted.
    this.counts = read.counts ?? {};
    this.results = read.results ?? {};
    this.isCounted = read.counts !== null;
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
    if (before) this.#count(before, -1);
    if (after !== null && (before || this.#isFound(after))) this.#count(after, 1);
    if (this.#objects.size > 2 * LIMIT) this.#objects.delete(this.#objects.keys().next().value);
  }

  #isWanted(object) {
    const { state, result } = this.#filter;
    return (!state || object.state === state) && (!result || object.result === result) && this.#isFound(object);
  }

  #isFound({ path, label }) {
    const search = (this.#filter.search ?? "").toLowerCase();
    return `${path} ${label ?? ""}`.toLowerCase().includes(search);
  }

  #count({ state, result }, by) {
    if (!this.isCounted) return;
    this.counts = changed(this.counts, state, by);
    if (result !== null) this.results = changed(this.results, result, by);
  }

  #again() {
    if (this.#timer !== null || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.load().catch(() => this.#again());
    }, AGAIN_MS);
  }
}

/** The counts without zeros after a change. */
function changed(counts, name, by) {
  const { [name]: before = 0, ...others } = counts;
  return before + by > 0 ? { ...others, [name]: before + by } : others;
}
