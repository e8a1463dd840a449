/*
 * The API as the console uses it: JSON with the session's token, relative to the page's own address. What the server
 * refuses is raised as a Problem with its own words; a token that is no longer taken ends the session.
 */

import * as session from "./session.js";

const HERE = new URL(".", location.href.split("#")[0]);

/** A refusal, or a server that cannot be reached (status 0), in words. */
export class Problem extends Error {
  constructor(status, title, detail, members = {}) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.members = members;
  }

  /** Whether it may work a little later. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

let skewMs = 0;

/** The time by the server's clock, as far as it tells. */
export const serverNow = () => Date.now() - skewMs;

/** The address of a path of the API; parameters may be lists, and are left out where they are empty. */
export function address(path, parameters = {}) {
  const url = new URL(path.replace(/^\//, ""), HERE);
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
    }
  }
  return url;
}

/** Where the API is, as a curl line needs it. */
export const base = () => HERE.href.replace(/\/$/, "");

/** A path of the API with each of its parts encoded, slashes kept. */
export const encodedPath = (path) => path.split("/").map(encodeURIComponent).join("/");

/** GET some JSON. */
export const get = (path, parameters, options) => ask("GET", path, { parameters, ...options });

/** POST some JSON. */
export const post = (path, body = {}, options) => ask("POST", path, { body, ...options });

/** One request; its answer as JSON. */
export async function ask(method, path, { parameters, body, signal, token } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init = { method, headers, signal, token, body: body === undefined ? undefined : JSON.stringify(body) };
  const response = await send(address(path, parameters), init);
  return response.status === 204 ? null : response.json();
}

/** One request with the session's headers; raises a Problem unless it went well. */
export async function send(url, { token, ...init }) {
  const used = token ?? session.token();
  const headers = { ...init.headers };
  if (used !== null) headers.Authorization = `Bearer ${used}`;
  if (session.organization() !== null) headers["X-Organization"] = session.organization();
  const response = await reached(url, { ...init, headers, cache: "no-store", credentials: "omit" });
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (Number.isFinite(date)) skewMs = Date.now() - date;
  if (response.ok) return response;
  const problem = await refused(response);
  if (response.status === 401 && used === session.token()) {
    session.end("Your session has ended: the token is no longer valid. Sign in with a new one.");
  }
  throw problem;
}

async function reached(url, init) {
  try {
    return await fetch(url, init);
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Problem(
      0,
      "No connection",
      "The server cannot be reached. It may be restarting, or the network is down.",
    );
  }
}

async function refused(response) {
  try {
    const said = await response.json();
    const detail = said.detail ?? said.message ?? said.Message;
    return new Problem(response.status, said.title ?? response.statusText, detail, said);
  } catch {
    return new Problem(
      response.status,
      response.statusText,
      `The server answered ${response.status} ${response.statusText}.`,
    );
  }
}
