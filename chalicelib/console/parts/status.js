/* The feed status of the open view: a pill with a colour, a shape and a label. */

import { h, put, text } from "../dom.js";
import { icon } from "../icons.js";

const LOOKS = {
  connecting: ["half", "Connecting"],
  connected: ["dot", "Connected"],
  behind: ["clock", "Behind"],
  reconnecting: ["refresh", "Reconnecting"],
  torn: ["alert", "Gap"],
  refused: ["cross", "Refused"],
  held: ["pause", "Paused"],
  none: ["ring", "Not following"],
};

const shape = h("span", { class: "status-shape" });
const label = h("span", { class: "status-label" });
const pill = h("div", { class: "status", id: "feed-status", role: "status", "data-state": "none" }, shape, label);
let drawn = null;
let owner = null;

/** The single status pill. */
export function statusPill() {
  if (drawn === null) draw({ name: "none", words: "This page follows no feed" });
  return pill;
}

/** A handle through which a view shows its feed status; only the latest handle is active. */
export function statusOf() {
  const mine = Symbol("view");
  owner = mine;
  draw({ name: "connecting", words: "Connecting" });
  return {
    show: (state) => owner === mine && draw(state),
    close: () => owner === mine && draw({ name: "none", words: "This page follows no feed" }),
  };
}

function draw(state) {
  if (drawn !== state.name) {
    put(shape, icon(LOOKS[state.name][0], 14));
    pill.dataset.state = state.name;
    text(label, LOOKS[state.name][1]);
  }
  drawn = state.name;
  pill.title = state.words;
}
