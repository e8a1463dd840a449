/* A ring buffer of the latest events, newest first. */

/** Holds at most `most` events. */
export class Ring {
  #kept = [];
  #end = 0;
  #most;

  constructor(most) {
    this.#most = most;
  }

  get length() {
    return this.#kept.length;
  }

  /** The event at `index`, counted from the newest. */
  at(index) {
    return this.#kept[(this.#end - 1 - index + 2 * this.#kept.length) % this.#kept.length];
  }

  keyOf(event) {
    return event.eventId;
  }

  /** Add events in order of arrival. */
  add(events) {
    for (const event of events) {
      if (this.#kept.length < this.#most) this.#kept.push(event);
      else this.#kept[this.#end % this.#most] = event;
      this.#end = (this.#end % this.#most) + 1;
    }
  }

  clear() {
    this.#kept = [];
    this.#end = 0;
  }
}
