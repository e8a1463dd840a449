/*
 * Routes. All navigation state is in the address, `#/objects/job/117?at=…`, so that it can be shared and reloaded. Links in
 * messages also name the organization, `?org=…`.
 */

/** Each page with its title and its shortcut key after `g`. */
export const PAGES = [
  ["live", "Live", "l"],
  ["objects", "Objects", "o"],
  ["observers", "Observers", "b"],
  ["reports", "Reports", "r"],
  ["system", "System", "s"],
  ["api", "API", "a"],
];

/** The page, the rest of its path, and its parameters. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return { page: page || "live", rest: rest.map(decoded), parameters: new URLSearchParams(query) };
}

/** The address of a page; empty parameters are omitted. */
export function link(page, rest = [], parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  const path = [page, ...rest.map(encodeURIComponent)].join("/");
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

/** Go to an address. */
export function go(hash) {
  location.hash = hash;
}

/** Replace the parameters in the address without navigation or a history entry. */
export function note(parameters) {
  const { page, rest, parameters: before } = here();
  history.replaceState(null, "", link(page, rest, { ...parameters, org: before.get("org") }));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
