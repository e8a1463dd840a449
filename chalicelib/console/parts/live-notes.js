/* The notes of the Live page for a log without events, and for a filter that matches none. */

import { h } from "../dom.js";
import { number } from "../format.js";
import { msOfId, whole } from "../time.js";
import { emptyNote, publishing } from "./notes.js";

/** How many of the latest events are examined for a filter that the server cannot apply. */
export const SEARCHED = 5_000;

export function nothingYet() {
  return emptyNote(
    "No events yet",
    "This log is empty. Publish a first event and it will appear here at once:",
    publishing({ type: ["hello", "world"], key: "/greeting", payload: { type: "json", data: { text: "Hi" } } }),
    h("p", { class: "hint" }, "$TOKEN is a token of this organization whose groups include publishers."),
  );
}

/** `searched` is the oldest examined event if the filter was not applied to the whole log. */
export function nothingMatches(searched) {
  const words =
    searched === null
      ? "No event in this log matches the filter."
      : `None of the latest ${number(SEARCHED)} events matches the filter. Events before ${whole(msOfId(searched))} were not searched; a type pattern searches the whole log.`;
  return emptyNote("Nothing matches", `${words} New events that match will appear here.`);
}
