/* Objects as rows of a list, and the notes for empty lists. */

import { h, put } from "../dom.js";
import { seconds } from "../fold.js";
import { link } from "../router.js";
import { badge } from "../states.js";
import { ago, duration, ms, whole } from "../time.js";
import { emptyNote, publishing } from "./notes.js";
import { COLLECTIONS } from "./tree.js";

export const COLUMNS = [
  ["cell-state", "State"],
  ["cell-name", "Object"],
  ["cell-label", "Label"],
  ["cell-progress", "Progress"],
  ["cell-duration", "Took"],
  ["cell-updated", "Last change"],
];

/** Fill the cells of an object's row. */
export function drawObject([state, name, label, progress, took, updated], object) {
  put(state, badge(object.state, object.result));
  name.textContent = object.path;
  label.textContent = [object.label, object.parent ? `in ${object.parent}` : null].filter(Boolean).join(", ");
  put(progress, object.progress === null ? "" : meter(object.progress));
  took.textContent = Number.isFinite(seconds(object)) ? duration(seconds(object)) : "";
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

/** The note if the filter matches no object. */
export function nothingMatches() {
  return emptyNote(
    "Nothing matches",
    "No object matches this search, state and folder.",
    h("a", { class: "button", href: link("objects") }, "Show all jobs"),
  );
}

/** The note for an empty collection, with the command that publishes a first event. */
export function nothingYet(collection) {
  const [, title, , example] = COLLECTIONS.find(([name]) => name === collection);
  return emptyNote(
    `No ${title.toLowerCase()} yet`,
    "They appear with their first event. Publish one:",
    publishing(example.event, `events/${example.vocabulary}`),
  );
}
