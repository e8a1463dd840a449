/* The number of sent, waiting and parked deliveries of an observer. */

import { h } from "../dom.js";
import { number } from "../format.js";
import { icon } from "../icons.js";

const KINDS = [
  ["sent", "good", "check"],
  ["waiting", "busy", "wait"],
  ["parked", "bad", "alert"],
];

/** The three counts; zeros are muted. */
export function health(deliveries = {}) {
  return h(
    "ul",
    { class: "health" },
    KINDS.map(([name, tone, shape]) => {
      const count = deliveries[name] ?? 0;
      return h(
        "li",
        { class: `badge tone-${count ? tone : "idle"}`, "data-kind": name },
        icon(shape, 13),
        h("span", {}, `${number(count)} ${name}`),
      );
    }),
  );
}
