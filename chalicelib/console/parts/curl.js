/* Builds curl commands from the OpenAPI document and its examples. */

import { base } from "../api.js";

/** Resolve a $ref of the OpenAPI document. */
export function resolved(document, thing) {
  if (!thing?.$ref) return thing;
  return thing.$ref
    .slice(2)
    .split("/")
    .reduce((place, name) => place[name.replaceAll("~1", "/").replaceAll("~0", "~")], document);
}

/** The curl command of an operation, with its first example. */
export function curl(document, { path, method, operation }, parameters, content) {
  const given = parameters
    .map((one) => [one, exampleOf(one)])
    .filter(([one, value]) => one.required || value !== undefined);
  const filled = given
    .filter(([one]) => one.in === "path")
    .reduce(
      (text, [one, value]) => text.replace(`{${one.name}}`, value === undefined ? one.name.toUpperCase() : value),
      path,
    );
  const query = given
    .filter(([one, value]) => one.in === "query" && value !== undefined)
    .flatMap(([one, value]) => [value].flat().map((item) => `${one.name}=${encoded(item)}`));
  const target = `${base()}${filled}${query.length ? `?${query.join("&")}` : ""}`;
  const lines = [
    `curl ${method === "get" ? "" : method === "post" && content ? "" : `-X ${method.toUpperCase()} `}${quoted(target)}`,
  ];
  if ((operation.security ?? document.security ?? []).some((one) => Object.keys(one).length))
    lines.push('-H "Authorization: Bearer $TOKEN"');
  if (onlyStream(operation)) lines.push("-N -H 'Accept: text/event-stream'");
  if (content) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(bodyOf(content) ?? {}))}`);
  return lines.join(" \\\n  ");
}

function exampleOf(parameter) {
  const named =
    parameter.examples?.["1"] ?? (parameter.required ? Object.values(parameter.examples ?? {})[0] : undefined);
  return named?.value ?? parameter.example;
}

function bodyOf(content) {
  return Object.values(content.examples ?? {})[0]?.value ?? content.example ?? content.schema?.examples?.[0];
}

function onlyStream({ responses }) {
  const types = Object.keys(responses?.["200"]?.content ?? {});
  return types.length > 0 && types.every((type) => type === "text/event-stream");
}

const encoded = (value) =>
  encodeURIComponent(String(value))
    .replaceAll("%2F", "/")
    .replaceAll("%3A", ":")
    .replaceAll("%2C", ",")
    .replaceAll("%3F", "?");
const quoted = (value) => (/^[\w:/.,-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);
