/* How states look: a tone, a shape and a word, so that no information is in colour alone. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

const LOOKS = [
  ["good", "check", ["success", "succeeded", "complete", "active", "sent", "up to date", "would be sent"]],
  [
    "bad",
    "cross",
    [
      "failure",
      "failed",
      "crashed",
      "error",
      "quorum_failed",
      "timed_out",
      "aborted",
      "parked",
      "nacked",
      "stopped",
      "blacklisted",
    ],
  ],
  [
    "warn",
    "alert",
    [
      "cleaned",
      "suspended",
      "setback",
      "unavailable",
      "was_ready",
      "waiting",
      "waitingforresource",
      "behind",
      "would not be sent",
    ],
  ],
  [
    "busy",
    "half",
    ["running", "started", "intaskprocess", "waitingintask", "inprogress", "loaded", "starting", "run", "catching up"],
  ],
  ["vote", "ring", ["voting", "ready", "quorum", "planned", "due"]],
  ["idle", "dot", ["finished", "closed", "ended"]],
];
const BY_NAME = new Map(LOOKS.flatMap(([tone, shape, names]) => names.map((name) => [name, { tone, shape }])));
const UNKNOWN = { tone: "idle", shape: "ring" };

/** Tone and shape of a state; an ended object uses its result. */
export function look(state, result = null) {
  if (hasEnded(state) && result !== null) return BY_NAME.get(result);
  return BY_NAME.get(String(state ?? "").toLowerCase()) ?? UNKNOWN;
}

const WORDS = {
  cleaned: "timed out",
  nacked: "refused to run",
  quorum: "enough nodes agreed",
  quorum_failed: "too few nodes agreed",
};

/** The state in words: `cleaned` reads "timed out", `WaitingForResource` "waiting for resource". */
export function stateWords(state) {
  if (state === null || state === undefined || state === "") return "no state";
  if (state in WORDS) return WORDS[state];
  return String(state)
    .replace(/_/g, " ")
    .replace(/([a-z])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`)
    .replace(/^[A-Z](?=[a-z])/, (a) => a.toLowerCase());
}

/** The state in words, or the result of an object that has ended. */
export function said(state, result) {
  if (!hasEnded(state) || result === null) return stateWords(state);
  if (state === "complete") return result === "failure" ? "complete, nodes failed" : "complete";
  if (result === "failure") return "failed";
  return state === "finished" || state === "NotPlanned" ? "succeeded" : stateWords(state);
}

/** The state as a badge. */
export function badge(state, result = null) {
  const { tone, shape } = look(state, result);
  return h(
    "span",
    { class: `badge tone-${tone}` },
    icon(shape, 13),
    h("span", { class: "badge-text" }, said(state, result)),
  );
}

/* JobScheduler calls a finished order NotPlanned. */
const hasEnded = (state) => ["finished", "closed", "ended", "complete", "NotPlanned"].includes(state);
