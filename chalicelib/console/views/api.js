/* The API page: `/openapi.json` rendered by subject, with curl commands to copy. */

import { get } from "../api.js";
import { h } from "../dom.js";
import { command } from "../parts/notes.js";
import { marked, schemaTable } from "../parts/schema.js";
import { curl, resolved } from "../parts/curl.js";
import { link } from "../router.js";

const METHODS = ["get", "post", "put", "delete", "patch"];
let read = null;

/** The page of one subject. */
export async function view({ rest }) {
  read ??= get("openapi.json").catch((problem) => {
    read = null;
    throw problem;
  });
  const document = await read;
  const operations = listed(document);
  const tags = (document.tags ?? []).filter(({ name }) => operations.some((one) => one.tag === name));
  const chosen = tags.find(({ name }) => name === rest[0]) ?? tags.find(({ name }) => name === "events") ?? tags[0];
  const shown = operations.filter((one) => one.tag === chosen.name);
  return {
    title: "API",
    element: h(
      "div",
      { class: "page page-full objects api" },
      h(
        "nav",
        { class: "tree", "aria-label": "Subjects of the API" },
        h("h2", { class: "tree-group" }, `Annals ${document.info.version}`),
        h(
          "ul",
          {},
          tags.map((tag) => subject(tag.name, chosen.name)),
        ),
      ),
      h(
        "div",
        { class: "api-main", tabindex: "-1" },
        h("h1", {}, upper(chosen.name)),
        h("p", { class: "api-words" }, marked(chosen.description ?? "")),
        contents(shown),
        shown.map((one) => article(document, one)),
      ),
    ),
  };
}

function listed(document) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => method in item).map((method) => ({
      path,
      method,
      operation: item[method],
      shared: item.parameters ?? [],
      tag: item[method].tags?.[0] ?? "other",
    })),
  );
}

function subject(name, chosen) {
  return h(
    "li",
    {},
    h(
      "a",
      { class: "tree-link", href: link("api", [name]), "aria-current": name === chosen ? "page" : null },
      upper(name),
    ),
  );
}

function contents(shown) {
  const row = (one) =>
    h(
      "tr",
      {},
      h("td", {}, method(one.method)),
      h(
        "td",
        { class: "mono" },
        h(
          "button",
          { class: "link", type: "button", onclick: () => document.getElementById(anchor(one))?.scrollIntoView() },
          one.path,
        ),
      ),
      h("td", {}, one.operation.summary ?? ""),
    );
  const heads = ["Method", "Path", "Summary"].map((title) => h("th", { scope: "col" }, title));
  return h(
    "div",
    { class: "table-frame" },
    h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, shown.map(row))),
  );
}

function article(document, one) {
  const { operation } = one;
  const parameters = [...one.shared, ...(operation.parameters ?? [])].map((parameter) => resolved(document, parameter));
  const body = resolved(document, operation.requestBody);
  const content = body?.content?.["application/json"];
  return h(
    "article",
    { class: "card operation", id: anchor(one) },
    h("h2", {}, method(one.method), " ", h("code", {}, one.path)),
    h("p", {}, marked(operation.summary ?? "")),
    operation.description ? h("p", { class: "api-words" }, marked(operation.description)) : null,
    command(curl(document, one, parameters, content), `${one.method.toUpperCase()} ${one.path}`),
    parameters.length ? [h("h3", {}, "Parameters"), parameterTable(parameters)] : null,
    content ? h("details", {}, h("summary", {}, "Body"), schemaTable(document, content.schema)) : null,
    h("h3", {}, "Answers"),
    answers(document, operation.responses ?? {}),
  );
}

function parameterTable(parameters) {
  const heads = ["Name", "In", "Meaning"].map((title) => h("th", { scope: "col" }, title));
  const row = (one) =>
    h(
      "tr",
      {},
      h("td", { class: "mono" }, one.name, one.required ? h("span", { class: "hint" }, " required") : null),
      h("td", { class: "short" }, one.in),
      h("td", {}, marked(one.description ?? "")),
    );
  return h(
    "div",
    { class: "table-frame" },
    h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, parameters.map(row))),
  );
}

function answers(document, responses) {
  const heads = ["Status", "Meaning"].map((title) => h("th", { scope: "col" }, title));
  const row = ([status, response]) => {
    const known = resolved(document, response);
    const content = known.content?.["application/json"];
    return h(
      "tr",
      {},
      h("td", { class: `mono status-${status[0]}` }, status),
      h(
        "td",
        {},
        marked(known.description ?? ""),
        content?.schema && status < 300
          ? h("details", {}, h("summary", {}, "Its JSON"), schemaTable(document, content.schema))
          : null,
      ),
    );
  };
  return h(
    "div",
    { class: "table-frame" },
    h(
      "table",
      { class: "table" },
      h("thead", {}, h("tr", {}, heads)),
      h("tbody", {}, Object.entries(responses).map(row)),
    ),
  );
}

const method = (name) => h("span", { class: `method method-${name}` }, name.toUpperCase());
const anchor = (one) => `op-${one.method}-${one.path.replace(/\W+/g, "-")}`;
const upper = (name) => (name === "api" ? "API" : name[0].toUpperCase() + name.slice(1));
