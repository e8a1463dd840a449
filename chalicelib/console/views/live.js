/* The Live page: events as they arrive, newest first. Pausing loses nothing: the server keeps the events. */

import { get } from "../api.js";
import { h, put, text } from "../dom.js";
import { Feed } from "../feed.js";
import { gist, number, plural, typeText } from "../format.js";
import { icon } from "../icons.js";
import { eventPanel } from "../parts/event.js";
import { liveFilter } from "../parts/filter.js";
import { SEARCHED, nothingMatches, nothingYet } from "../parts/live-notes.js";
import { problemNote, waiting } from "../parts/notes.js";
import { Rate } from "../parts/rate.js";
import { Ring } from "../parts/ring.js";
import { Rows } from "../parts/rows.js";
import { statusOf } from "../parts/status.js";
import { note } from "../router.js";
import { shortcuts } from "../shortcuts.js";
import { moment, msOfId, whole, zone } from "../time.js";
import { vocabularyOf } from "../vocabularies.js";

const KEPT = 5_000;
const FIRST = 300;
const COLUMNS = [
  ["cell-time", `Time, ${zone()}`],
  ["cell-type", "Type"],
  ["cell-key", "Key"],
  ["cell-gist", "Payload"],
];

export function view({ parameters }) {
  const live = new Live(parameters);
  return { title: "Live", element: live.element, close: () => live.close() };
}

class Live {
  #ring = new Ring(KEPT);
  #waiting = [];
  #isPaused = false;
  #feed = null;
  #rate = new Rate();
  #status = statusOf();
  #filter;
  #turn = 0;
  #seen = 0;
  #searched = null;
  #rows = new Rows({
    items: this.#ring,
    columns: COLUMNS,
    draw: drawEvent,
    open: (event) => this.#open(event),
    label: "Events, newest first",
    scrolled: (isAtTop) => (this.#top.hidden = isAtTop),
  });
  #top = h(
    "button",
    { class: "button live-top", type: "button", hidden: true, onclick: () => this.#rows.toTop() },
    icon("up"),
    "Jump to newest",
  );
  #list = h("div", { class: "live-list" });
  #side = h("div", { class: "live-side" });
  #notice = h("div", { class: "live-notice" });
  #count = h("span", { class: "live-count" });
  #pause = h("button", { class: "button", type: "button", id: "pause", onclick: () => this.#toggle() });

  constructor(parameters) {
    this.#filter = liveFilter(parameters, (filter) => {
      note(filter.parameters);
      this.#begin();
    });
    this.element = h(
      "div",
      { class: "page page-full live" },
      h(
        "div",
        { class: "page-head" },
        h("h1", {}, "Live"),
        this.#count,
        h("div", { class: "bar-space" }),
        this.#rate.element,
        this.#pause,
      ),
      this.#filter.element,
      this.#notice,
      h("div", { class: "live-split" }, this.#list, this.#side),
    );
    this.#keys = shortcuts({
      p: ["Pause or resume", () => this.#toggle()],
      "/": ["Filter", () => this.#filter.focus()],
      t: ["Jump to newest", () => this.#rows.toTop()],
    });
    this.#begin();
  }

  #keys;

  close() {
    this.#turn += 1;
    this.#feed?.stop();
    this.#rate.close();
    this.#rows.close();
    this.#status.close();
    this.#keys();
  }

  /** Show the latest matching events and follow from there. */
  async #begin() {
    const mine = ++this.#turn;
    this.#feed?.stop();
    this.#waiting = [];
    this.#seen = 0;
    this.#isPaused = false;
    put(this.#notice);
    put(this.#list, waiting("Loading the latest events"));
    this.#drawPause();
    try {
      const { events, eventId } = await this.#latest();
      if (mine !== this.#turn) return;
      this.#ring.clear();
      this.#add(events);
      this.#follow(eventId);
    } catch (problem) {
      if (mine === this.#turn)
        put(
          this.#list,
          problemNote(problem, () => this.#begin()),
        );
    }
  }

  /** The latest events that pass the filter, oldest first. The page applies the part that the server cannot. */
  async #latest() {
    const { query, isLocal } = this.#filter;
    const seq = await get("events", { ...query, limit: isLocal ? -SEARCHED : -FIRST });
    const newest = seq.eventSnapshots ?? [];
    this.#searched = isLocal && newest.length >= SEARCHED ? newest.at(-1).eventId : null;
    const found = newest.filter((event) => this.#filter.holds(event)).slice(0, FIRST);
    return { events: found.reverse(), eventId: seq.eventId };
  }

  #follow(after) {
    this.#feed = new Feed({
      parameters: this.#filter.query,
      after,
      onEvents: (events) => this.#take(events),
      onState: (state) => this.#status.show(state),
      onTorn: (before, from) => this.#torn(before, from),
    }).start();
    this.#drawList();
  }

  #take(events) {
    const wanted = events.filter((event) => this.#filter.holds(event));
    this.#rate.count(wanted.length);
    this.#seen += wanted.length;
    if (!this.#isPaused) return this.#add(wanted);
    this.#waiting.push(...wanted);
    if (this.#waiting.length >= KEPT) this.#feed.hold();
    this.#drawPause();
  }

  #add(events) {
    const wasEmpty = this.#ring.length === 0;
    this.#ring.add(events);
    if (wasEmpty && events.length > 0) this.#drawList();
    this.#rows.grown(Math.min(events.length, KEPT));
    this.element.dataset.seen = this.#seen;
    const since = this.#seen ? `, ${number(this.#seen)} since you opened it` : "";
    text(this.#count, `Last ${plural(this.#ring.length, "event")}${since}`);
  }

  #drawList() {
    const isEmpty = this.#ring.length === 0;
    if (isEmpty) put(this.#list, this.#filter.isOn ? nothingMatches(this.#searched) : nothingYet());
    else if (!this.#rows.element.isConnected) put(this.#list, this.#rows.element, this.#top);
    this.#rows.changed();
  }

  #toggle() {
    this.#isPaused = !this.#isPaused;
    if (!this.#isPaused) {
      const held = this.#waiting.length >= KEPT;
      this.#add(this.#waiting.splice(0));
      if (held) this.#feed.start();
      this.#rows.toTop();
    }
    this.#drawPause();
  }

  #drawPause() {
    const more = this.#waiting.length >= KEPT ? "+" : "";
    const words = this.#isPaused ? `Resume (${number(this.#waiting.length)}${more} new)` : "Pause";
    put(this.#pause, icon(this.#isPaused ? "play" : "pause"), h("span", {}, words));
    this.#pause.setAttribute("aria-pressed", this.#isPaused);
    this.#pause.classList.toggle("button-main", this.#isPaused);
  }

  #torn(before, from) {
    const dismiss = h("button", { class: "button", type: "button", onclick: () => put(this.#notice) }, "Dismiss");
    const words = `Between ${whole(msOfId(before))} and ${whole(msOfId(from))} events were deleted by retention. The list continues after the gap.`;
    put(
      this.#notice,
      h(
        "div",
        { class: "note note-problem", role: "alert" },
        icon("alert", 20),
        h("div", {}, h("strong", {}, "Gap: some events have been deleted by retention"), h("p", {}, words), dismiss),
      ),
    );
  }

  #open(event) {
    const close = () => {
      put(this.#side);
      this.element.classList.remove("has-side");
      this.#rows.element.focus();
    };
    put(
      this.#side,
      eventPanel(event, close, (other) => this.#open(other)),
    );
    this.element.classList.add("has-side");
  }
}

function drawEvent([time, type, key, summary], event, row) {
  row.dataset.vocabulary = vocabularyOf(event.type);
  const at = msOfId(event.eventId);
  time.textContent = moment(at);
  time.title = whole(at);
  type.textContent = typeText(event.type);
  key.textContent = event.key ?? "";
  summary.textContent = gist(event.payload).slice(0, 300);
}
