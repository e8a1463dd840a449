/* Objects as rows of a list, and the notes for empty lists. */

import { get, serverNow } from "../api.js";
import { h, put } from "../dom.js";
import { seconds } from "../fold.js";
import { number } from "../format.js";
import { icon } from "../icons.js";
import { link } from "../router.js";
import { TYPES } from "../snapshot.js";
import { badge, look } from "../states.js";
import { ago, duration, ms, msOfId, whole } from "../time.js";
import { emptyNote, problemNote, publishing, waiting } from "./notes.js";
import { COLLECTIONS, titleOf } from "./tree.js";

export const COLUMNS = [
  ["cell-state", "State"],
  ["cell-label", "Name"],
  ["cell-name", "Id"],
  ["cell-progress", "Progress"],
  ["cell-duration", "Took"],
  ["cell-updated", "Last change"],
];

/** Fill the cells of an object's row. */
export function drawObject([state, label, name, progress, took, updated], object) {
  put(state, badge(object.state, object.result));
  name.textContent = object.path;
  label.textContent = [object.label, object.parent ? `in ${object.parent}` : null].filter(Boolean).join(", ");
  put(progress, object.progress === null ? "" : meter(object.progress));
  const lasted = seconds(object, serverNow());
  took.textContent = Number.isFinite(lasted) ? duration(Math.max(0, lasted)) : "";
  updated.textContent = ago(ms(object.updatedAt));
  updated.title = whole(ms(object.updatedAt));
}

function meter(share) {
  const percent = `${Math.round(share * 100)}%`;
  return h(
    "span",
    { class: "meter" },
    h("span", { class: "meter-bar" }, h("span", { style: { width: percent } })),
    percent,
  );
}

/** The note for an object that does not exist. Links lead here too: an order may name a chain without events. */
export function unknownObject(collection) {
  const title = titleOf(collection).toLowerCase();
  return emptyNote(
    `No such ${title.replace(/s$/, "")}`,
    "It has no events yet, or it has been removed.",
    h("a", { class: "button", href: link("objects", [collection]) }, `Show all ${title}`),
  );
}

/** The note if the filter matches no object. */
export function nothingMatches(collection) {
  return emptyNote(
    "Nothing matches",
    "No object matches this search, state and folder.",
    h("a", { class: "button", href: link("objects", [collection]) }, `Show all ${titleOf(collection).toLowerCase()}`),
  );
}

/** The note for an empty collection: its objects have been removed, or there has never been one. */
export function nothingNow(collection) {
  const place = h("div", {}, waiting("Looking for earlier events"));
  const fill = async () => {
    const [types] = TYPES[collection];
    try {
      const { eventSnapshots = [] } = await get("events", { types, limit: -1 });
      put(place, eventSnapshots.length ? nothingLeft(collection, types, eventSnapshots[0]) : nothingYet(collection));
    } catch (problem) {
      put(place, problemNote(problem, fill));
    }
  };
  fill();
  return place;
}

function nothingLeft(collection, types, last) {
  const title = titleOf(collection).toLowerCase();
  return emptyNote(
    `No ${title} at present`,
    `All ${title} have been removed; the last event about one was on ${whole(msOfId(last.eventId))}. Their events are still in the log.`,
    h("a", { class: "button", href: link("live", [], { types }) }, "Show their events"),
  );
}

/** The note for a collection without events, with the command that publishes a first one. */
function nothingYet(collection) {
  const [, title, , example] = COLLECTIONS.find(([name]) => name === collection);
  return emptyNote(
    `No ${title.toLowerCase()} yet`,
    "They appear with their first event. Publish one:",
    publishing(example.event, `events/${example.vocabulary}`),
  );
}

/** The page for an address with an unknown collection. */
export function unknownCollection(name) {
  const known = COLLECTIONS.map(([collection, title]) =>
    h("a", { class: "button", href: link("objects", [collection]) }, title),
  );
  const words = `Unknown collection "${name}". Choose one of these:`;
  return {
    title: "No such page",
    element: h("div", { class: "page" }, emptyNote("No such page", words, h("div", { class: "choices" }, known))),
  };
}

/** A button that filters a list by a state. */
export function chip(state, words, count, isOn, pressed) {
  const { tone, shape } = look(state);
  return h(
    "button",
    { class: `chip tone-${tone}`, type: "button", "aria-pressed": String(isOn), "data-state": state, onclick: pressed },
    icon(shape, 13),
    h("span", {}, words),
    h("strong", {}, number(count)),
  );
}
