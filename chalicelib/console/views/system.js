/* The System page: the log, its consumers and their lag, the installation. */

import { get } from "../api.js";
import { h, put, redraw } from "../dom.js";
import { idText, number } from "../format.js";
import { facts } from "../parts/event.js";
import { problemNote, waiting } from "../parts/notes.js";
import * as session from "../session.js";
import { badge } from "../states.js";
import { ago, duration, ms, msOfId, whole } from "../time.js";

const AGAIN_MS = 2_000;
const LATE_S = 10;

export function view() {
  const place = h("div", { class: "stack" }, waiting("Loading the system status"));
  let timer = null;
  let closed = false;
  const read = async () => {
    try {
      const system = await get("system");
      if (closed) return;
      redraw(place, shown(system));
      timer = setTimeout(read, AGAIN_MS);
    } catch (problem) {
      if (!closed) put(place, problemNote(problem, read));
    }
  };
  read();
  return {
    title: "System",
    element: h("div", { class: "page" }, h("div", { class: "page-head" }, h("h1", {}, "System")), place),
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
}

function shown(system) {
  return [
    tiles(system),
    h("div", { class: "cards" }, consumers(system.consumers), installation(system), organizations(system)),
  ];
}

function tiles({ head, events, consumers }) {
  const late = Math.max(0, ...consumers.map((one) => one.lagSeconds ?? 0));
  return h(
    "dl",
    { class: "tiles" },
    tile(
      "Last event",
      head?.timestamp ? ago(ms(head.timestamp)) : "none yet",
      head?.timestamp ? whole(ms(head.timestamp)) : "",
    ),
    tile("Commits", number(head?.id?.session ?? 0), head?.id ? `head ${idText(head.id)}, eventId ${head.eventId}` : ""),
    events === null || events === undefined ? null : tile("Events", number(events), "that are kept"),
    tile("Longest lag", duration(late), late > LATE_S ? "a consumer is behind" : "all consumers are up to date"),
  );
}

const tile = (title, value, more) =>
  h(
    "div",
    { class: "tile" },
    h("dt", {}, title),
    h("dd", { class: "tile-value" }, value),
    h("dd", { class: "hint" }, more),
  );

function consumers(list) {
  const heads = [["Consumer"], ["State"], ["Read up to"], ["Commits behind", "number"], ["Lag", "number"]].map(
    ([title, kind]) => h("th", { scope: "col", class: kind }, title),
  );
  const row = (one) =>
    h(
      "tr",
      {},
      h("td", { class: "strong" }, one.name),
      h("td", {}, stateOf(one)),
      h("td", { "data-title": "Read up to" }, one.eventId ? whole(msOfId(one.eventId)) : "nothing yet"),
      h("td", { class: "number", "data-title": "Commits behind" }, number(one.behind ?? 0)),
      h(
        "td",
        { class: "number", "data-title": "Lag" },
        one.lagSeconds === null || one.lagSeconds === undefined ? "–" : duration(one.lagSeconds),
      ),
    );
  return h(
    "section",
    { class: "card card-wide", "aria-label": "Consumers" },
    h("h2", {}, "Consumers"),
    h(
      "div",
      { class: "table-frame" },
      h(
        "table",
        { class: "table table-stacked" },
        h("thead", {}, h("tr", {}, heads)),
        h("tbody", {}, list.map(row)),
      ),
    ),
  );
}

function stateOf({ behind, lagSeconds }) {
  if ((lagSeconds ?? 0) > LATE_S) return badge("behind");
  return badge(behind > 0 ? "catching up" : "up to date");
}

function installation({ version, mode, retention, firstKept, settings = {} }) {
  return h(
    "section",
    { class: "card", "aria-label": "Installation" },
    h("h2", {}, "Installation"),
    facts([
      ["Version", version],
      ["Runs", mode === "aws" ? "on AWS" : "on one machine"],
      ["Keeps events", retention ?? "for ever"],
      ["First kept", firstKept ? whole(msOfId(firstKept)) : null],
      ["Streams", settings.streams ? "yes" : "no, answers are pages"],
      ["Longest poll", settings.longestPollS ? duration(settings.longestPollS) : null],
    ]),
  );
}

function organizations({ organization, organizations: names = [] }) {
  const item = (name) =>
    h(
      "li",
      {},
      name === organization
        ? h("span", { class: "strong" }, name, " ", h("span", { class: "hint" }, "shown now"))
        : h("button", { class: "link", type: "button", id: `org-${name}`, onclick: () => session.choose(name) }, name),
    );
  return h(
    "section",
    { class: "card", "aria-label": "Organizations" },
    h("h2", {}, "Organizations"),
    h("ul", { class: "plain-list" }, names.map(item)),
    h("p", { class: "hint" }, "Each organization has its own log. Your token permits these."),
  );
}
