/*
 * The session: the signed-in user and organization. The token is kept in session storage only, so it ends with
 * the tab. The sign-in code is removed from the address bar at once.
 */

const TOKEN = "annals.token";
const ORGANIZATION = "annals.organization";
const listeners = new Set();

let reason = null;

/** The token, or null. */
export const token = () => sessionStorage.getItem(TOKEN);

/** The selected organization, or null for the first in the token. */
export const organization = () => sessionStorage.getItem(ORGANIZATION);

/** The reason why the last session ended; returned once. */
export function lastReason() {
  const last = reason;
  reason = null;
  return last;
}

/** Subscribe to sign-in, sign-out and change of organization. */
export const onChange = (listener) => listeners.add(listener);

/** Start a session. */
export function begin(newToken) {
  sessionStorage.setItem(TOKEN, newToken);
  sessionStorage.removeItem(ORGANIZATION);
  notify();
}

/** End the session; `why` is shown on the sign-in page. */
export function end(why = null) {
  if (token() === null) return;
  reason = why;
  sessionStorage.removeItem(TOKEN);
  sessionStorage.removeItem(ORGANIZATION);
  notify();
}

/** Switch to another organization. It replaces the one that the address may name. */
export function choose(name) {
  const [path, query = ""] = location.hash.split("?");
  const parameters = new URLSearchParams(query);
  parameters.delete("org");
  history.replaceState(null, "", parameters.size ? `${path}?${parameters}` : path || location.pathname);
  sessionStorage.setItem(ORGANIZATION, name);
  notify();
}

/** Use the organization that the address names. Returns whether this is a change. */
export function follow(name) {
  if (name === null || name === organization()) return false;
  sessionStorage.setItem(ORGANIZATION, name);
  return true;
}

/** Take the sign-in code out of `#code=…` in the address. */
export function takeCode() {
  const found = /^#code=([^&]+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return decodeURIComponent(found[1]);
}

function notify() {
  for (const listener of listeners) listener();
}
