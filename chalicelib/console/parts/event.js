/* One event in full, and its position in the log with the events before and after it. */

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { idText, jsonBlock, number, typeText } from "../format.js";
import { icon } from "../icons.js";
import { link } from "../router.js";
import { ago, clock, ms, msOfId, whole } from "../time.js";
import { objectOf } from "../vocabularies.js";
import { problemNote, waiting } from "./notes.js";

const BESIDE = 3;

/** A panel for `event`; `close` closes it, `open` shows another event. */
export function eventPanel(event, close, open) {
  const neighbours = h("div", { class: "neighbours" }, waiting("Loading the events before and after"));
  showNeighbours(neighbours, event, open);
  const object = objectOf(event);
  const button = h(
    "button",
    { class: "icon-button", type: "button", title: "Close (Esc)", "aria-label": "Close", onclick: close },
    icon("close"),
  );
  const panel = h(
    "section",
    {
      class: "panel",
      "aria-label": "Event",
      tabindex: "-1",
      onkeydown: (pressed) => pressed.key === "Escape" && close(),
    },
    h("div", { class: "panel-head" }, h("h2", { class: "mono" }, typeText(event.type)), button),
    h("h3", {}, "Position in the log"),
    facts([
      ["Event ID", h("code", {}, event.eventId)],
      ["Id", h("code", {}, idText(event.id))],
      ["Commit", `commit ${number(event.id.session)}, event ${number(event.id.instance)}`],
      ["Time", `${whole(msOfId(event.eventId))} (${ago(msOfId(event.eventId))})`],
      ["Source time", event.sourceTimestamp ? whole(ms(event.sourceTimestamp)) : null],
      ["Key", event.key ? h("a", { class: "mono", href: link("live", [], { key: event.key }) }, event.key) : null],
      ["Object", object ? h("a", { class: "mono", href: objectLink(...object) }, `${object[0]} ${object[1]}`) : null],
    ]),
    h("h3", {}, "Neighbours"),
    neighbours,
    h("h3", {}, "Event"),
    jsonBlock(event, "The event as JSON"),
  );
  queueMicrotask(() => panel.focus());
  return panel;
}

/** The address of an object's page. */
export const objectLink = (collection, path, parameters) =>
  link("objects", [collection, ...path.slice(1).split("/")], parameters);

/** A list of names and values; names without a value are omitted. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    known.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

async function showNeighbours(place, event, open) {
  try {
    const [before, after] = await Promise.all([
      get("events/server", { ...earlier(event), maxResults: 1000 }),
      get("events", { after: event.eventId, limit: BESIDE }),
    ]);
    const older = before.events.filter((one) => one.eventId < event.eventId).slice(-BESIDE);
    const all = [...older, event, ...(after.eventSnapshots ?? [])];
    put(
      place,
      h(
        "ol",
        {},
        all.map((one) => neighbour(one, event, open)),
      ),
    );
  } catch (problem) {
    put(place, problemNote(problem));
  }
}

/** A position a few events before this one. */
function earlier({ id }) {
  return {
    lastEventId:
      id.instance > BESIDE
        ? `${id.server}.${id.session}.${id.instance - BESIDE - 1}`
        : `${id.server}.${Math.max(0, id.session - BESIDE)}.0`,
  };
}

function neighbour(one, event, open) {
  const words = [
    h("span", { class: "mono" }, idText(one.id)),
    h("span", {}, clock(msOfId(one.eventId))),
    h("span", { class: "mono neighbour-type" }, typeText(one.type)),
  ];
  if (one.eventId === event.eventId) return h("li", { class: "neighbour-this", "aria-current": "true" }, words);
  return h("li", {}, h("button", { type: "button", onclick: () => open(one) }, words));
}
