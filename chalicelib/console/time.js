/* Formats times for people. An eventId is microseconds since 1970; all other times are ISO 8601 text. */

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const WHOLE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const STEPS = [
  [1, "s", 60],
  [60, "min", 60],
  [3600, "h", 24],
  [86400, "d", 365],
  [31536000, "y", Infinity],
];

/** Milliseconds of an ISO time, also with a space instead of T; NaN without a time. */
export const ms = (iso) => (iso ? Date.parse(iso.replace(" ", "T")) : NaN);

/** Milliseconds of an eventId. */
export const msOfId = (eventId) => eventId / 1000;

/** 18:09:27.626 */
export function clock(at) {
  const whole = Math.floor(at);
  return `${CLOCK.format(whole)}.${String(whole % 1000).padStart(3, "0")}`;
}

/** 16 Nov 18:09:27 */
export const day = (at) => (Number.isFinite(at) ? `${DAY.format(at)} ${CLOCK.format(at)}` : "–");

/** 16 Nov 2026, 18:09:27 */
export const whole = (at) => (Number.isFinite(at) ? WHOLE.format(at) : "–");

/** 3 min ago */
export function ago(at, now = Date.now()) {
  if (!Number.isFinite(at)) return "–";
  const seconds = (now - at) / 1000;
  return Math.abs(seconds) < 1.5 ? "just now" : seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`;
}

/** 740 ms, 12 s, 3 min, 2.5 h: the largest unit that fits, with at most two significant digits. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const [size, unit] = STEPS.find(([from, , most]) => seconds < from * most);
  const value = seconds / size;
  return `${value < 9.95 && size > 1 ? trimmed(value) : Math.round(value)} ${unit}`;
}

const trimmed = (value) => value.toFixed(1).replace(/\.0$/, "");
