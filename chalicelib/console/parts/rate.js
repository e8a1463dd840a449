/* The event rate: a bar for each of the last 60 seconds, and the latest value. */

import { h, s, text } from "../dom.js";
import { number } from "../format.js";

const SECONDS = 60;
const BAR = 3;
const HEIGHT = 28;

/** A sparkline; call `count` for new events. */
export class Rate {
  #counts = new Array(SECONDS).fill(0);
  #now = 0;
  #bars = s("path", { class: "rate-bars" });
  #value = h("span", { class: "rate-value" }, "0/s");
  #most = h("span", { class: "rate-most" }, "");
  #timer = setInterval(() => this.#tick(), 1000);

  constructor() {
    const chart = s(
      "svg",
      {
        class: "rate-chart",
        viewBox: `0 0 ${SECONDS * BAR} ${HEIGHT}`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      this.#bars,
    );
    this.element = h(
      "div",
      { class: "rate", title: "Events per second over the last minute" },
      chart,
      h("div", { class: "rate-words" }, this.#value, this.#most),
    );
    this.#draw();
  }

  /** Add to the current second. */
  count(events) {
    this.#now += events;
  }

  close() {
    clearInterval(this.#timer);
  }

  #tick() {
    this.#counts.shift();
    this.#counts.push(this.#now);
    this.#now = 0;
    this.#draw();
  }

  #draw() {
    const most = Math.max(1, ...this.#counts);
    const bar = (count, index) => {
      const height = count === 0 ? 1 : Math.max(2, (count / most) * HEIGHT);
      return `M${index * BAR} ${HEIGHT}v${-height.toFixed(1)}h${BAR - 1}v${height.toFixed(1)}z`;
    };
    this.#bars.setAttribute("d", this.#counts.map(bar).join(""));
    text(this.#value, `${number(this.#counts.at(-1))}/s`);
    text(this.#most, `peak ${number(Math.max(...this.#counts))}/s`);
  }
}
