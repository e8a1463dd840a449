/* The Objects page: a live list of objects. Each object has its own page. */

import { get } from "../api.js";
import { h, put, redraw, text } from "../dom.js";
import { number, plural } from "../format.js";
import { icon } from "../icons.js";
import { objectLink } from "../parts/event.js";
import { problemNote, waiting } from "../parts/notes.js";
import { COLUMNS, chip, drawObject, nothingMatches, nothingNow, unknownCollection } from "../parts/object-rows.js";
import { Rows } from "../parts/rows.js";
import { statusOf } from "../parts/status.js";
import { COLLECTIONS, folders, titleOf, tree } from "../parts/tree.js";
import { go, note } from "../router.js";
import { shortcuts } from "../shortcuts.js";
import { LIMIT, Snapshot } from "../snapshot.js";
import { stateWords } from "../states.js";
import { objectView } from "./object.js";

const STATISTICS_MS = 2_000;

/** The list, or one object. */
export function view(place) {
  const [collection = "job", ...path] = place.rest;
  if (!COLLECTIONS.some(([name]) => name === collection)) return unknownCollection(collection);
  if (path.join("") !== "") return objectView(collection, `/${path.join("/")}`, place.parameters);
  const list = new Objects(collection, place.parameters);
  return { title: "Objects", element: list.element, close: () => list.close() };
}

class Objects {
  #collection;
  #search;
  #state;
  #result;
  #folder;
  #snapshot = null;
  #shown = [];
  #status = statusOf();
  #list = h("div", { class: "objects-list" });
  #tree = h("nav", { class: "tree", "aria-label": "Collections and folders" });
  #chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  #statistics = h("div", { class: "statistics" });
  #count = h("span", { class: "live-count" });
  #asked = -Infinity;
  #drawn = false;
  #drawnTree = null;
  #items = { at: (index) => this.#shown[index], keyOf: (object) => object.path };
  #rows;
  #keys;
  #clock = setInterval(() => this.#redrawTimes(), 15_000);

  constructor(collection, parameters) {
    this.#collection = collection;
    this.#state = parameters.get("state") ?? "";
    this.#result = parameters.get("result") ?? "";
    this.#folder = parameters.get("folder") ?? "";
    Object.defineProperty(this.#items, "length", { get: () => this.#shown.length });
    this.#rows = new Rows({
      items: this.#items,
      columns: COLUMNS,
      draw: drawObject,
      open: (object) => go(objectLink(collection, object.path)),
      label: "Objects, most recently changed first",
    });
    this.#search = h("input", {
      type: "search",
      id: "search",
      value: parameters.get("search") ?? "",
      placeholder: "Search by path or label",
      "aria-label": "Search",
      spellcheck: "false",
    });
    let timer = null;
    this.#search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#begin(), 300);
    });
    const title = titleOf(collection);
    this.element = h(
      "div",
      { class: "page page-full objects" },
      this.#tree,
      h(
        "div",
        { class: "objects-main" },
        h(
          "div",
          { class: "page-head" },
          h("h1", {}, title),
          this.#count,
          h("div", { class: "bar-space" }),
          h("label", { class: "field" }, icon("search", 14), this.#search),
        ),
        this.#statistics,
        this.#chips,
        this.#list,
      ),
    );
    this.#keys = shortcuts({ "/": ["Search", () => this.#search.focus()] });
    this.#begin();
  }

  close() {
    this.#snapshot?.close();
    this.#status.close();
    this.#rows.close();
    this.#keys();
    clearInterval(this.#clock);
  }

  async #begin() {
    this.#snapshot?.close();
    const search = this.#search.value.trim();
    note({ search, state: this.#state, result: this.#result, folder: this.#folder });
    put(this.#list, waiting("Loading the objects"));
    this.#drawTree([]);
    const snapshot = new Snapshot(
      this.#collection,
      { search, state: this.#state, result: this.#result },
      { onChange: () => this.#draw(), onState: (state) => this.#status.show(state) },
    );
    this.#snapshot = snapshot;
    try {
      await snapshot.load();
      if (this.#snapshot === snapshot && this.#state === "failed" && !("failed" in snapshot.counts)) {
        // Failed objects have a result and no state of that name.
        this.#choose("", "failure");
      }
    } catch (problem) {
      if (this.#snapshot === snapshot)
        put(
          this.#list,
          problemNote(problem, () => this.#begin()),
        );
    }
  }

  /** Draw at most once per frame. */
  #draw() {
    if (this.#drawn) return;
    this.#drawn = true;
    setTimeout(
      () =>
        requestAnimationFrame(() => {
          this.#drawn = false;
          this.#drawNow();
        }),
      150,
    );
  }

  #drawNow() {
    // A draw that an earlier snapshot requested: the new one is still loading.
    if (this.#snapshot.eventId === null) return;
    const { objects, moreFollows } = this.#snapshot;
    this.#shown = objects.filter((object) => object.path.startsWith(this.#folder));
    this.#drawTree(folders(this.#collection, objects), moreFollows);
    this.#drawChips();
    text(this.#count, this.#countWords());
    if (this.#shown.length === 0)
      put(this.#list, this.#isFiltered ? nothingMatches(this.#collection) : nothingNow(this.#collection));
    else if (!this.#rows.element.isConnected) put(this.#list, this.#rows.element);
    this.#rows.changed();
    if (this.#collection === "order") this.#drawStatistics();
  }

  #countWords() {
    const { counts, results, total, moreFollows, isCounted } = this.#snapshot;
    const chosen = this.#result ? (results[this.#result] ?? 0) : this.#state ? (counts[this.#state] ?? 0) : total;
    const noun = titleOf(this.#collection).toLowerCase().replace(/s$/, "");
    if (!isCounted) return moreFollows ? "the most recent matches" : plural(this.#shown.length, noun);
    const cut = moreFollows ? `, showing the ${number(LIMIT)} most recent` : "";
    return `${chosen === total ? "" : `${number(chosen)} of `}${plural(total, noun)}${cut}`;
  }

  /** Redraw only on change: a link that is replaced while it is pressed loses the click. */
  #drawTree(found, isCut = false) {
    const now = JSON.stringify([isCut, found.map(counted)]);
    if (now !== this.#drawnTree) redraw(this.#tree, tree(this.#collection, this.#folder, found, isCut));
    this.#drawnTree = now;
  }

  get #isFiltered() {
    return Boolean(this.#search.value.trim() || this.#state || this.#result || this.#folder);
  }

  #redrawTimes() {
    this.#shown = this.#shown.map((object) => ({ ...object }));
    this.#rows.changed();
  }

  #drawChips() {
    const { counts, results } = this.#snapshot;
    const known = Object.entries(counts).sort(([, a], [, b]) => b - a);
    if (this.#state && !(this.#state in counts)) known.push([this.#state, 0]);
    const failed = results.failure ?? 0;
    redraw(
      this.#chips,
      failed || this.#result === "failure" ? this.#failedChip(failed) : null,
      known.map(([state, count]) => this.#chip(state, count)),
    );
  }

  /** A chip that selects the objects that failed, whatever their state. */
  #failedChip(count) {
    const isOn = this.#result === "failure";
    return chip("failure", "failed", count, isOn, () => this.#choose("", isOn ? "" : "failure"));
  }

  #chip(state, count) {
    const isOn = this.#state === state;
    return chip(state, stateWords(state), count, isOn, () => this.#choose(isOn ? "" : state, ""));
  }

  #choose(state, result) {
    this.#state = state;
    this.#result = result;
    this.#begin();
  }

  async #drawStatistics() {
    if (performance.now() - this.#asked < STATISTICS_MS) return;
    this.#asked = performance.now();
    try {
      const { eventId, ...counts } = await get("jobscheduler/master/api/order/", { return: "OrderStatistics" });
      const pairs = Object.entries(counts).filter(([name, count]) => name === "total" || count > 0);
      put(
        this.#statistics,
        h(
          "dl",
          { "aria-label": "OrderStatistics", title: `OrderStatistics at ${eventId}` },
          pairs.map(([name, count]) => h("div", {}, h("dt", {}, stateWords(name)), h("dd", {}, number(count)))),
        ),
      );
    } catch {
      put(this.#statistics);
    }
  }
}

const counted = ({ path, count, folders: within }) => [path, count, [...within.values()].map(counted)];
