/* The page of one object: its state now or at an earlier event, its timeline, and its events. It is live. */

import { encodedPath, get } from "../api.js";
import { h, put, redraw } from "../dom.js";
import { gist, number, plural, typeText } from "../format.js";
import { future, past } from "../history.js";
import { isOver, lanesOf } from "../lanes.js";
import { eventPanel } from "../parts/event.js";
import { problemNote, waiting } from "../parts/notes.js";
import { unknownObject } from "../parts/object-rows.js";
import { details, failedNodes, stateOf } from "../parts/details.js";
import { statusOf } from "../parts/status.js";
import { Timeline } from "../parts/timeline.js";
import { Travel } from "../parts/travel.js";
import { COLLECTIONS } from "../parts/tree.js";
import { link, note } from "../router.js";
import { badge } from "../states.js";
import { day, msOfId, whole, zone } from "../time.js";
import { eventsOf } from "../vocabularies.js";

const LISTED = 300;
const SETTLE_MS = 250;
const MAX_EVENTS = 20_000;
const GOING_MS = 60;
/* While the slider is dragged, load only the position where it rests. */

/** The page of one object; `?at=` shows a past state. */
export function objectView(collection, path, parameters) {
  const page = new ObjectPage(collection, path, Number(parameters.get("at")) || null);
  return { title: path, element: page.element, close: () => page.close() };
}

class ObjectPage {
  #collection;
  #path;
  #events = [];
  #at;
  #feed = null;
  #ends = new AbortController();
  #status = statusOf();
  #timer = null;
  #going = null;
  #turn = 0;
  #known = new Map();
  #ticks = null;
  #head = h("span", { class: "object-state" });
  #state = h("div", { class: "object-details" }, waiting("Loading the object"));
  #list = h("div");
  #side = h("div", { class: "object-event" });
  #timeline = new Timeline((time) => this.#pick(time));
  #travel = new Travel((eventId) => this.#go(eventId));

  constructor(collection, path, at) {
    this.#collection = collection;
    this.#path = path;
    this.#at = at;
    const title = COLLECTIONS.find(([name]) => name === collection)[1];
    this.element = h(
      "div",
      { class: "page object" },
      h("nav", { class: "crumbs", "aria-label": "Where" }, h("a", { href: link("objects", [collection]) }, title)),
      h("div", { class: "page-head" }, h("h1", { class: "mono object-path" }, path), this.#head),
      h(
        "section",
        { class: "card", "aria-label": "Timeline" },
        h("div", { class: "card-head" }, h("h2", {}, "Timeline")),
        this.#travel.element,
        this.#timeline.element,
      ),
      this.#state,
      h(
        "section",
        { class: "card", "aria-label": "Events" },
        h("h2", {}, "Events"),
        h("div", { class: "object-events" }, this.#list, this.#side),
      ),
    );
    this.#begin();
  }

  close() {
    this.#ends.abort();
    this.#feed?.stop();
    clearTimeout(this.#timer);
    clearTimeout(this.#going);
    clearInterval(this.#ticks);
    this.#timeline.close();
    this.#status.close();
  }

  async #begin() {
    try {
      const state = await this.#read(this.#at);
      const query = this.#query(state);
      const { events, eventId } = await past(query, this.#ends.signal);
      this.#events = events;
      this.#feed = future(
        query,
        eventId,
        (news) => this.#take(news),
        (state) => this.#status.show(state),
      );
      this.#ticks = setInterval(() => this.#drawTimeline(), 1000);
      this.#draw(state);
    } catch (problem) {
      if (this.#ends.signal.aborted) return;
      if (problem.status === 404) this.#showUnknown(problem);
      else
        put(
          this.#state,
          problemNote(problem, () => this.#begin()),
        );
    }
  }

  /** Without an object there is no timeline, no list of events and nothing to follow. */
  #showUnknown(problem) {
    for (const card of this.element.querySelectorAll(":scope > .card")) card.remove();
    this.#status.close();
    put(this.#state, this.#at === null ? unknownObject(this.#collection) : problemNote(problem));
  }

  /** The events of a job set include those of its jobs. */
  #query(state) {
    const query = eventsOf(this.#collection, this.#path);
    const jobs = this.#collection === "jobset" ? (state.jobs ?? []).filter((job) => "id" in job) : [];
    return { ...query, keys: [...(query.keys ?? []), ...jobs.map((job) => `/job/${job.id}`)] };
  }

  #read(at) {
    return get(`objects/${this.#collection}${encodedPath(this.#path)}`, { at }, { signal: this.#ends.signal });
  }

  #take(news) {
    this.#events.push(...news);
    if (this.#events.length > MAX_EVENTS) this.#events.splice(0, this.#events.length - MAX_EVENTS);
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#refresh();
    }, SETTLE_MS);
  }

  /** Show the present state, or the state at the chosen event. Past states never change and are cached. */
  async #refresh() {
    const mine = ++this.#turn;
    try {
      const state = this.#known.get(this.#at) ?? (await this.#read(this.#at));
      if (this.#at !== null) this.#known.set(this.#at, state);
      if (mine === this.#turn) this.#draw(state);
    } catch (problem) {
      if (mine === this.#turn && !this.#ends.signal.aborted) this.#gone(problem);
    }
  }

  #go(eventId) {
    this.#at = eventId;
    note({ at: eventId });
    this.#drawTimeline();
    clearTimeout(this.#going);
    this.#going = setTimeout(() => this.#refresh(), GOING_MS);
  }

  #pick(time) {
    const before = this.#events.filter((event) => msOfId(event.eventId) <= time);
    this.#go((before.at(-1) ?? this.#events[0]).eventId);
    this.#travel.show(this.#events, this.#at);
  }

  #draw(state) {
    const [name, result] = stateOf(this.#collection, state);
    const failed = this.#collection === "pushJob" ? failedNodes(state) : "";
    put(this.#head, badge(name, result), failed ? h("span", { class: "hint" }, failed) : null);
    put(this.#state, details(this.#collection, state));
    this.#travel.show(this.#events, this.#at);
    this.#drawTimeline();
    this.#drawList();
  }

  #gone(problem) {
    put(this.#head, badge(problem.status === 404 ? "gone" : "unknown"));
    put(
      this.#state,
      problem.status === 404
        ? h("p", { class: "note" }, "The object did not exist then, or it has been removed. Its events are still here.")
        : problemNote(problem, () => this.#refresh()),
    );
    this.#travel.show(this.#events, this.#at);
    this.#drawTimeline();
    this.#drawList();
  }

  #drawTimeline() {
    if (this.#events.length === 0) return;
    const [first, last] = [msOfId(this.#events[0].eventId), msOfId(this.#events.at(-1).eventId)];
    const end = isOver(lanesOf(this.#collection, this.#events, last)) ? last : Math.max(last, Date.now());
    this.#timeline.show(
      lanesOf(this.#collection, this.#events, end),
      first,
      end,
      this.#at === null ? null : msOfId(this.#at),
    );
    if (end === last) clearInterval(this.#ticks);
  }

  #drawList() {
    const shown = this.#events.slice(-LISTED).reverse();
    const cut =
      this.#events.length > LISTED
        ? h("p", { class: "hint" }, `The last ${number(LISTED)} of ${plural(this.#events.length, "event")}.`)
        : null;
    const heads = [`Time, ${zone()}`, "Type", "Payload"].map((title) => h("th", { scope: "col" }, title));
    const rows = shown.map((event) =>
      h(
        "tr",
        { class: this.#at !== null && event.eventId > this.#at ? "later" : null },
        h("td", { class: "mono", title: whole(msOfId(event.eventId)) }, day(msOfId(event.eventId))),
        h(
          "td",
          {},
          h(
            "button",
            { class: "link", type: "button", id: `event-${event.eventId}`, onclick: () => this.#open(event) },
            typeText(event.type),
          ),
        ),
        h("td", { class: "object-gist" }, gist(event.payload).slice(0, 200)),
      ),
    );
    redraw(
      this.#list,
      h(
        "div",
        { class: "table-frame", tabindex: "0", role: "group", "aria-label": "Events of the object" },
        h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)),
      ),
      cut,
    );
  }

  #open(event) {
    put(
      this.#side,
      eventPanel(
        event,
        () => put(this.#side),
        (other) => this.#open(other),
      ),
    );
  }
}
