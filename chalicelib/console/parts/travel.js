/* Time travel: a slider over the events of an object. Its right end is the present and follows new events. */

import { h, put, text } from "../dom.js";
import { number, typeText } from "../format.js";
import { icon } from "../icons.js";
import { clock, day, msOfId } from "../time.js";

/** A slider; calls `go(eventId)` with the chosen event, or null for the present. */
export class Travel {
  #events = [];
  #go;
  #slider = h("input", {
    type: "range",
    id: "travel",
    min: 0,
    max: 0,
    step: 1,
    "aria-label": "Time travel: state after event",
  });
  #words = h("output", { class: "travel-words", for: "travel" });
  #now = h("button", { class: "button", type: "button", onclick: () => this.#chosen(this.#events.length) });

  constructor(go) {
    this.#go = go;
    this.#slider.addEventListener("input", () => this.#chosen(Number(this.#slider.value)));
    const step = (by, name, label) =>
      h(
        "button",
        {
          class: "icon-button",
          type: "button",
          title: label,
          "aria-label": label,
          onclick: () => this.#chosen(this.#index() + by),
        },
        icon(name),
      );
    put(this.#now, icon("clock"), "Now");
    this.element = h(
      "div",
      { class: "travel" },
      step(-1, "left", "Event before"),
      this.#slider,
      step(1, "right", "Event after"),
      this.#now,
      this.#words,
    );
  }

  /** Set the events; `at` is the selected position, null for the present. */
  show(events, at) {
    this.#events = events;
    this.#slider.max = events.length;
    const index = at === null ? events.length : events.findLastIndex((event) => event.eventId <= at);
    this.#slider.value = Math.max(0, index);
    this.#updateLabel();
  }

  #index() {
    return Number(this.#slider.value);
  }

  #chosen(index) {
    this.#slider.value = Math.min(Math.max(0, index), this.#events.length);
    this.#updateLabel();
    this.#go(this.#events[this.#index()]?.eventId ?? null);
  }

  #updateLabel() {
    const event = this.#events[this.#index()];
    const words = event
      ? `After event ${number(this.#index() + 1)} of ${number(this.#events.length)}: ${typeText(event.type)}, ${day(msOfId(event.eventId)).slice(0, -9)} ${clock(msOfId(event.eventId))}`
      : "Now, live";
    text(this.#words, words);
    this.#slider.setAttribute("aria-valuetext", words);
    this.#now.disabled = !event;
    this.element.classList.toggle("travel-past", Boolean(event));
  }
}
