/* A JSON schema as a table: each member, its type, its meaning; nested members are indented. */

import { h } from "../dom.js";
import { resolved } from "./curl.js";

const DEEPEST = 4;

/** A table of the members of a schema. */
export function schemaTable(document, schema) {
  const rows = [...members(document, schema, 0, "", [])];
  if (rows.length === 0) return h("p", { class: "hint" }, kind(document, schema));
  const heads = ["Member", "Kind", "Meaning"].map((title) => h("th", { scope: "col" }, title));
  return h(
    "div",
    { class: "table-frame" },
    h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)),
  );
}

/** Text with `code` in backquotes. */
export function marked(words) {
  return words.split(/`([^`]+)`/).map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

function* members(document, schema, depth, before, seen) {
  const known = resolved(document, schema);
  if (!known || depth > DEEPEST || seen.includes(known)) return;
  const within = [...seen, known];
  for (const part of [...(known.allOf ?? []), ...(known.oneOf ?? []), ...(known.anyOf ?? [])])
    yield* members(document, part, depth, before, within);
  if (known.items) yield* members(document, known.items, depth, `${before}[]`, within);
  for (const [name, member] of Object.entries(known.properties ?? {})) {
    const place = before ? `${before}.${name}` : name;
    const required = known.required?.includes(name) ? h("span", { class: "hint" }, " required") : null;
    const meaning = member.description ?? resolved(document, member)?.description ?? "";
    yield h(
      "tr",
      {},
      h("td", { class: "mono" }, place, required),
      h("td", {}, kind(document, member)),
      h("td", {}, marked(meaning)),
    );
    yield* members(document, member, depth + 1, place, within);
  }
}

function kind(document, schema) {
  const known = resolved(document, schema) ?? {};
  if (typeof known === "boolean") return known ? "anything" : "nothing";
  if (known.enum) return known.enum.map((one) => JSON.stringify(one)).join(" or ");
  if ("const" in known) return JSON.stringify(known.const);
  const choices = known.oneOf ?? known.anyOf;
  if (choices) return [...new Set(choices.map((one) => kind(document, one)))].join(" or ");
  if (known.type === "array") return `list of ${kind(document, known.items ?? {})}`;
  return [known.type ?? "anything"].flat().join(" or ");
}
