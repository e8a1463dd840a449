/* Formats values for people, and JSON with syntax colours. */

import { h } from "./dom.js";

const WHOLE = new Intl.NumberFormat("en-GB");
const LARGEST_COLOURED = 100_000;
const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

/** 12,345 */
export const number = (value) => WHOLE.format(value);

/** 1 event, 2 events */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** An event type as text, as in patterns. */
export const typeText = (type) => type.join("/");

/** An event id as text, as in API parameters. */
export const idText = (id) => `${id.server}.${id.session}.${id.instance}`;

/** A one-line summary of a payload. */
export function gist(payload) {
  if (payload === null || payload === undefined) return "";
  if (payload.type === "binary") return `${payload.name}: ${number(Math.floor((payload.data.length * 3) / 4))} bytes`;
  const data = payload.data;
  if (data === null || typeof data !== "object") return JSON.stringify(data);
  const parts = Object.entries(data).filter(([name, value]) => !["props", "params"].includes(name) && !isEmpty(value));
  return (parts.length ? parts : Object.entries(data).filter(([, value]) => !isEmpty(value)))
    .map(([name, value]) => `${name}: ${short(value)}`)
    .join("   ");
}

/** Formatted JSON with syntax colours. */
export function jsonBlock(value, label) {
  const written = JSON.stringify(value, null, 2);
  const block = h("pre", { class: "json", tabindex: "0", role: "region", "aria-label": label });
  if (written.length > LARGEST_COLOURED) block.append(written);
  else block.append(...coloured(written));
  return block;
}

function* coloured(written) {
  let end = 0;
  for (const found of written.matchAll(TOKENS)) {
    if (found.index > end) yield document.createTextNode(written.slice(end, found.index));
    const [all, string, colon, word] = found;
    const kind = colon ? "key" : string ? "string" : word ? "word" : "number";
    yield h("span", { class: `json-${kind}` }, all);
    end = found.index + all.length;
  }
  yield document.createTextNode(written.slice(end));
}

const isEmpty = (value) => value !== null && typeof value === "object" && Object.keys(value).length === 0;

function short(value) {
  if (typeof value === "string") return value;
  if (value !== null && typeof value === "object" && "message" in value) return String(value.message);
  return JSON.stringify(value);
}
