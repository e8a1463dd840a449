/* Formats times for people. An eventId is microseconds since 1970; all other times are ISO 8601 text. */

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });
const ZONE = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const WHOLE = new Intl.DateTimeFormat("en-GB", {
  ...{ day: "numeric", month: "short", year: "numeric" },
  ...{ hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
});
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

/** 18:09:27.626 today, 16 Nov 18:09:27 this year, 2025-11-16 18:09 before. */
export function moment(at, now = Date.now()) {
  const [then, today] = [DATE.format(at), DATE.format(now)];
  if (then === today) return clock(at);
  return then.slice(0, 4) === today.slice(0, 4) ? day(at) : `${then} ${CLOCK.format(at).slice(0, 5)}`;
}

/** The browser's time zone: CET, UTC or GMT-5 */
export const zone = (at = Date.now()) =>
  ZONE.formatToParts(at).find((part) => part.type === "timeZoneName").value;

/** 16 Nov 18:09:27 */
export const day = (at) => (Number.isFinite(at) ? `${DAY.format(at)} ${CLOCK.format(at)}` : "–");

/** 16 Nov 2026, 18:09:27 CET */
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
