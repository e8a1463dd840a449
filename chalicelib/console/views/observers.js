/* The Observers page: a list of observers and their deliveries. Each observer has its own page. */

import { base, get } from "../api.js";
import { h, put, redraw } from "../dom.js";
import { typeText } from "../format.js";
import { icon } from "../icons.js";
import { command, emptyNote, problemNote, waiting } from "../parts/notes.js";
import { health } from "../parts/health.js";
import { link } from "../router.js";
import { observerView } from "./observer.js";

const AGAIN_MS = 5_000;

/** The list, one observer, or the form for a new one. */
export function view({ rest, parameters }) {
  if (rest[0] || parameters.get("new")) return observerView(rest[0] || null);
  const list = new Observers();
  return { title: "Observers", element: list.element, close: () => list.close() };
}

class Observers {
  #list = h("div", {}, waiting("Loading the observers"));
  #timer = null;
  #closed = false;

  constructor() {
    this.element = h(
      "div",
      { class: "page" },
      h(
        "div",
        { class: "page-head" },
        h("h1", {}, "Observers"),
        h("div", { class: "bar-space" }),
        h(
          "a",
          { class: "button button-main", href: link("observers", [], { new: "yes" }) },
          icon("plus"),
          "New observer",
        ),
      ),
      this.#list,
    );
    this.#read();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  async #read() {
    try {
      const [{ observers }, { may }] = await Promise.all([get("observers"), get("me")]);
      if (this.#closed) return;
      redraw(this.#list, observers.length ? table(observers) : emptyList(may.administer), may.administer ? null : onlyOwn());
      this.#timer = setTimeout(() => this.#read(), AGAIN_MS);
    } catch (problem) {
      if (!this.#closed)
        put(
          this.#list,
          problemNote(problem, () => this.#read()),
        );
    }
  }
}

function table(observers) {
  const heads = ["Observer", "Channel", "Scope", "Events", "Deliveries"].map((title) =>
    h("th", { scope: "col" }, title),
  );
  return h(
    "div",
    { class: "table-frame" },
    h("table", { class: "table table-stacked" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, observers.map(row))),
  );
}

function row(observer) {
  return h(
    "tr",
    {},
    h("td", {}, h("a", { href: link("observers", [observer.name]), class: "strong" }, observer.name)),
    h("td", { "data-title": "Channel" }, observer.channel),
    h("td", { "data-title": "Scope" }, observer.scope === "private" ? `private, ${observer.user ?? ""}` : "global"),
    h("td", { class: "mono", "data-title": "Events" }, wanted(observer)),
    h("td", {}, health(observer.deliveries)),
  );
}

/** The patterns and filter of an observer as text. */
function wanted({ types, events, nodes, filter }) {
  const about = types
    ? types.map((type) => (Array.isArray(type) ? typeText(type) : type)).join(", ")
    : [events ?? "all events", nodes ? `of ${nodes}` : ""].join(" ");
  return filter ? `${about}, if ${filter}` : about;
}

/** Other readers do not see global observers, so an empty list does not mean that there are none. */
function onlyOwn() {
  return h("p", { class: "hint" }, "Only your own observers are listed. Administrators also see global ones.");
}

/** Only administrators may create global observers. */
function emptyList(isAdministrator) {
  const [name, observer] = isAdministrator
    ? ["ops", { channel: "mail", types: ["job/finish/*"], config: { from: "annals@example.org", to: "ops@example.org" } }]
    : ["my-jobs", { scope: "private", channel: "app", events: "finish" }];
  return emptyNote(
    "No observers to show",
    "An observer notifies people of events by mail, Slack, webhook or in the app. Create one here or with the API:",
    h("a", { class: "button button-main", href: link("observers", [], { new: "yes" }) }, icon("plus"), "New observer"),
    command(
      `curl -X PUT ${base()}/observers/${name} \\\n  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(observer)}'`,
      "Create an observer",
    ),
  );
}
