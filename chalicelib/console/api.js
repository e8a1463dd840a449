/*
 * The API client of the console: JSON requests with the session's token, relative to the page's address. An error response
 * is raised as a Problem with the server's message. A 401 ends the session.
 */

import * as session from "./session.js";

const HERE = new URL(".", location.href.split("#")[0]);

/** An error response, or an unreachable server (status 0). */
export class Problem extends Error {
  constructor(status, title, detail, members = {}) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.members = members;
  }

  /** Whether a retry may succeed. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

let skewMs = 0;

/** The server's time, estimated from its Date header. */
export const serverNow = () => Date.now() - skewMs;

/** The URL of an API path. Parameters may be lists; empty ones are omitted. */
export function address(path, parameters = {}) {
  const url = new URL(path.replace(/^\//, ""), HERE);
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
    }
  }
  return url;
}

/** The base URL of the API for curl commands. */
export const base = () => HERE.href.replace(/\/$/, "");

/** Encode each segment of a path; keep the slashes. */
export const encodedPath = (path) => path.split("/").map(encodeURIComponent).join("/");

export const get = (path, parameters, options) => ask("GET", path, { parameters, ...options });

export const post = (path, body = {}, options) => ask("POST", path, { body, ...options });

/** Send a request and parse the JSON response. */
export async function ask(method, path, { parameters, body, signal, token } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init = { method, headers, signal, token, body: body === undefined ? undefined : JSON.stringify(body) };
  const response = await send(address(path, parameters), init);
  return response.status === 204 ? null : response.json();
}

/** Send a request with the session's headers. Throws a Problem unless the response is OK. */
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
