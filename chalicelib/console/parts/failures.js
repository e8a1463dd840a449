/* Parked deliveries with their errors and attempts; retry one or all. */

import { get, post } from "../api.js";
import { h, put } from "../dom.js";
import { idText, number, plural } from "../format.js";
import { icon } from "../icons.js";
import { ago, ms, whole } from "../time.js";
import { announce, problemNote, waiting } from "./notes.js";

const LISTED = 100;

/** A card with the failures of the observer `name`; `done()` is called after a retry. */
export class Failures {
  #path;
  #done;
  #list = h("div", {}, waiting("Loading failed deliveries"));
  #all = h(
    "button",
    { class: "button", type: "button", onclick: () => this.#retry(null) },
    icon("refresh"),
    "Retry all",
  );

  constructor(name, done) {
    this.#path = `observers/${encodeURIComponent(name)}`;
    this.#done = done;
    this.element = h(
      "section",
      { class: "card", "aria-label": "Parked deliveries" },
      h("div", { class: "card-head" }, h("h2", {}, "Parked deliveries"), this.#all),
      this.#list,
    );
    this.read();
  }

  async read() {
    try {
      const { failures } = await get(`${this.#path}/failures`, { limit: LISTED });
      this.#all.hidden = failures.length === 0;
      put(
        this.#list,
        failures.length
          ? this.#table(failures)
          : h(
              "p",
              { class: "hint" },
              "None. A delivery that is refused or keeps failing is parked here with its error.",
            ),
      );
    } catch (problem) {
      put(
        this.#list,
        problemNote(problem, () => this.read()),
      );
    }
  }

  #table(failures) {
    const heads = ["Event", "Key", "To", "Tries", "Error", "When", ""].map((title) =>
      h("th", { scope: "col" }, title || h("span", { class: "hidden-label" }, "Retry")),
    );
    const row = (one) =>
      h(
        "tr",
        {},
        h("td", { class: "mono" }, idText(one.event)),
        h("td", { class: "mono" }, one.key ?? ""),
        h("td", {}, one.address ?? ""),
        h("td", { class: "number" }, number(one.tries)),
        h("td", { class: "failure-error" }, one.error),
        h("td", { title: whole(ms(one.at)) }, ago(ms(one.at))),
        h(
          "td",
          {},
          h(
            "button",
            { class: "button", type: "button", "aria-label": `Retry ${one.id}`, onclick: () => this.#retry([one.id]) },
            "Retry",
          ),
        ),
      );
    const cut =
      failures.length === LISTED
        ? h("p", { class: "hint" }, `The first ${LISTED} are listed; "Retry all" retries all.`)
        : null;
    return [
      h(
        "div",
        { class: "table-frame" },
        h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, failures.map(row))),
      ),
      cut,
    ];
  }

  async #retry(ids) {
    try {
      const { retried } = await post(`${this.#path}/retry`, ids === null ? {} : { ids });
      announce(`${plural(retried, "delivery", "deliveries")} will be retried`);
      await this.read();
      this.#done();
    } catch (problem) {
      announce(problem.message, "problem");
    }
  }
}
