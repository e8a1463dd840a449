/* A timeline drawn to scale: one lane per object, time from left to right. */

import { h, put, redraw, s } from "../dom.js";
import { look, said, stateWords } from "../states.js";
import { clock, duration, whole } from "../time.js";
import { objectLink } from "./event.js";

const LANE = 26;
const AXIS = 26;
const NAME = 132;
const RIGHT = 16;
const LETTER = 7;
const MAX_LANES = 400;
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3,
  7200e3, 14400e3, 21600e3, 43200e3, 86400e3, 172800e3, 604800e3, 2592000e3,
];

/** A figure; `show(lanes, from, to, at)` draws it, a click calls `pick` with the time. */
export class Timeline {
  #frame = h("div", {
    class: "timeline-frame",
    tabindex: "0",
    role: "group",
    "aria-label": "Timeline, drawn to scale",
  });
  #words = h("figcaption", { class: "hint" });
  #shown = null;
  #pick;
  #watched = new ResizeObserver(() => this.#draw());

  constructor(pick) {
    this.#pick = pick;
    this.element = h("figure", { class: "timeline" }, this.#frame, this.#words);
    this.#watched.observe(this.#frame);
  }

  show(lanes, from, to, at = null) {
    this.#shown = { lanes: lanes.slice(0, MAX_LANES), from, to: Math.max(to, from + 1), at };
    const more = lanes.length > MAX_LANES ? ` The first ${MAX_LANES} of ${lanes.length} lanes are drawn.` : "";
    put(this.#words, `${whole(from)} to ${whole(to)}, ${duration((to - from) / 1000)}.${more}`);
    this.#draw();
  }

  close() {
    this.#watched.disconnect();
  }

  #draw() {
    if (this.#shown === null || this.#frame.clientWidth === 0) return;
    const { lanes, from, to, at } = this.#shown;
    const width = Math.max(300, this.#frame.clientWidth - 2);
    const name = width < 520 ? 84 : NAME;
    const x = (time) => name + ((time - from) / (to - from)) * (width - name - RIGHT);
    const height = AXIS + lanes.length * LANE + 4;
    const pick = (event) => {
      const left = event.offsetX ?? 0;
      if (left > name) this.#pick(from + ((left - name) / (width - name - RIGHT)) * (to - from));
    };
    const drawing = s("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": spoken(lanes),
      onclick: pick,
    });
    drawing.append(
      ...axis(from, to, x, height, width),
      ...lanes.flatMap((lane, index) => drawnLane(lane, AXIS + index * LANE, x, name, width)),
    );
    if (at !== null) drawing.append(...past(at, x, width, height));
    redraw(this.#frame, drawing);
  }
}

function axis(from, to, x, height, width) {
  const wanted = (to - from) / Math.max(2, Math.floor((width - NAME) / 110));
  const step = STEPS_MS.find((one) => one >= wanted) ?? STEPS_MS.at(-1);
  const ticks = [];
  for (let time = 0; time <= to - from; time += step) ticks.push(time);
  return ticks.flatMap((time) => [
    s("line", { class: "timeline-grid", x1: x(from + time), x2: x(from + time), y1: AXIS - 6, y2: height }),
    s(
      "text",
      { class: "timeline-tick", x: x(from + time), y: 14, "text-anchor": time === 0 ? "start" : "middle" },
      time === 0 ? clock(from).slice(0, 8) : `+${offset(time, step)}`,
    ),
  ]);
}

const offset = (time, step) => (step < 1000 && time >= 1000 ? `${time / 1000} s` : duration(time / 1000));

function drawnLane(lane, top, x, name, width) {
  const words = s("text", { class: "timeline-name", x: 4, y: top + 17 }, cut(lane.name, name - 8));
  words.append(s("title", {}, lane.name));
  const title = lane.object ? s("a", { href: objectLink(...lane.object), class: "timeline-link" }, words) : words;
  const base = s("line", {
    class: "timeline-base",
    x1: name,
    x2: width - RIGHT,
    y1: top + LANE - 0.5,
    y2: top + LANE - 0.5,
  });
  return [
    base,
    title,
    ...lane.spans.flatMap((span) => drawnSpan(span, top, x)),
    ...lane.marks.map((mark) => drawnMark(mark, top, x)),
  ];
}

function drawnSpan({ from, to, state, result }, top, x) {
  const { tone } = look(state, result);
  const width = Math.max(4, x(to) - x(from));
  const words = said(state, result);
  const bar = s(
    "rect",
    { class: `span span-${tone}`, x: x(from), y: top + 4, width, height: LANE - 9, rx: 3 },
    s("title", {}, `${words}: ${duration((to - from) / 1000)} from ${clock(from)}`),
  );
  const fits = width > words.length * LETTER + 10;
  return fits
    ? [bar, s("text", { class: `span-words span-words-${tone}`, x: x(from) + 6, y: top + 17 }, words)]
    : [bar];
}

function drawnMark({ at, words }, top, x) {
  return s(
    "line",
    { class: "timeline-mark", x1: x(at), x2: x(at), y1: top + 5, y2: top + LANE - 6 },
    s("title", {}, `${clock(at)} ${words}`),
  );
}

/** Marks the selected time and dims everything after it. */
function past(at, x, width, height) {
  const left = Math.max(NAME / 2, x(at));
  return [
    s("rect", {
      class: "timeline-veil",
      x: left,
      y: AXIS - 6,
      width: Math.max(0, width - left),
      height: height - AXIS + 6,
    }),
    s("line", { class: "timeline-at", x1: left, x2: left, y1: AXIS - 10, y2: height }),
  ];
}

const cut = (words, width) =>
  words.length * LETTER <= width ? words : `${words.slice(0, Math.floor(width / LETTER) - 1)}…`;
const spoken = (lanes) =>
  lanes
    .slice(0, 20)
    .map(
      (lane) =>
        `${lane.name}: ${lane.spans.map((span) => stateWords(span.state)).join(", then ") || `${lane.marks.length} entries`}`,
    )
    .join(". ");
