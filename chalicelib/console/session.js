/*
 * The session: who is signed in, and for which organization. The token is kept in session storage only, so it ends with
 * the tab; it is never in the address bar for longer than it takes to read it.
 */

const TOKEN = "annals.token";
const ORGANIZATION = "annals.organization";
const listeners = new Set();

let reason = null;

/** The token, or null. */
export const token = () => sessionStorage.getItem(TOKEN);

/** The organization that was chosen, or null: the token's first. */
export const organization = () => sessionStorage.getItem(ORGANIZATION);

/** Why the last session ended, told once. */
export function lastReason() {
  const told = reason;
  reason = null;
  return told;
}

/** Hear of sign-in, sign-out, and another organization. */
export const onChange = (listener) => listeners.add(listener);

/** Begin a session. */
export function begin(newToken) {
  sessionStorage.setItem(TOKEN, newToken);
  sessionStorage.removeItem(ORGANIZATION);
  tell();
}

/** End it; `why` is shown on the sign-in page. */
export function end(why = null) {
  if (token() === null) return;
  reason = why;
  sessionStorage.removeItem(TOKEN);
  sessionStorage.removeItem(ORGANIZATION);
  tell();
}

/** Look at another organization. */
export function choose(name) {
  sessionStorage.setItem(ORGANIZATION, name);
  tell();
}

/** The code in `#code=…`, which the start line of the server prints; it leaves the address bar at once. */
export function takeCode() {
  const found = /^#code=([^&]+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return decodeURIComponent(found[1]);
}

function tell() {
  for (const listener of listeners) listener();
}
