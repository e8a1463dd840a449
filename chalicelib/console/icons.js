/* Icons: strokes on a 20 by 20 grid in the colour of the text around them. They say nothing that words beside them do not. */

import { s } from "./dom.js";

const PATHS = {
  live: "M2 10h3l2.5-6 4.5 12L14.5 10H18",
  objects: "M3 5h5M3 10h5M3 15h5M12 5h5M12 10h5M12 15h5",
  observers: "M10 3a5 5 0 0 0-5 5v3l-1.5 3h13L15 11V8a5 5 0 0 0-5-5ZM8 16.5a2 2 0 0 0 4 0",
  reports: "M4 17V9M8.7 17V4M13.3 17v-6M18 17H2M17.5 17V7",
  system: "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01",
  api: "M7 5l-4 5 4 5M13 5l4 5-4 5M11 4L9 16",
  pause: "M7 4v12M13 4v12",
  play: "M6 4l10 6-10 6z",
  close: "M5 5l10 10M15 5L5 15",
  copy: "M7 7h9v9H7zM4 13V4h9",
  check: "M4 10.5l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM13 13l4 4",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7ZM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  moon: "M16.5 12A7 7 0 0 1 8 3.5 7 7 0 1 0 16.5 12Z",
  keyboard: "M2 5h16v10H2zM5 8h.01M8 8h.01M11 8h.01M14 8h.01M6 12h8",
  out: "M12 4V3H4v14h8v-1M8 10h10M15 7l3 3-3 3",
  up: "M5 12l5-5 5 5",
  down: "M5 8l5 5 5-5",
  right: "M8 5l5 5-5 5",
  left: "M12 5l-5 5 5 5",
  alert: "M10 3L2 17h16zM10 8v4M10 14.5h.01",
  info: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15ZM10 9v5M10 6.3h.01",
  plus: "M10 4v12M4 10h12",
  refresh: "M16 10a6 6 0 1 1-2-4.5M16 3v3.5h-3.5",
  send: "M3 10l14-6-5 13-3-5.5z",
  trash: "M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6",
  clock: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15ZM10 6v4l3 2",
  folder: "M2.5 5h5l2 2h8v8.5h-15z",
  open: "M11 4h5v5M16 4l-7 7M8 5H4v11h11v-4",
  dot: "M10 7a3 3 0 1 0 0 6 3 3 0 0 0 0-6Z",
  ring: "M10 5a5 5 0 1 0 0 10 5 5 0 0 0 0-10Z",
  half: "M10 4.5a5.5 5.5 0 1 0 5.5 5.5",
  wait: "M6 10h.01M10 10h.01M14 10h.01",
  history: "M4 10a6 6 0 1 0 2-4.5M4 3v3.5h3.5M10 7v3l2 1.5",
};

/** An icon, hidden from those who hear the page. */
export function icon(name, size = 16) {
  const path = s("path", { d: PATHS[name] ?? PATHS.dot });
  return s(
    "svg",
    {
      class: `icon icon-${name}`,
      viewBox: "0 0 20 20",
      width: size,
      height: size,
      "aria-hidden": "true",
      focusable: "false",
    },
    path,
  );
}
