/* Keyboard shortcuts: `?` shows all, `g` and a letter opens a page; the open view adds its own. */

import { h } from "./dom.js";
import { PAGES, go, link } from "./router.js";

const own = new Map();
let goes = false;

/** Add the keys of a view, `{key: [label, action]}`. Returns a function that removes them. */
export function shortcuts(keys) {
  for (const [key, entry] of Object.entries(keys)) own.set(key, entry);
  return () => {
    for (const key of Object.keys(keys)) own.delete(key);
  };
}

/** Handle keys that no input field uses. */
export function listen() {
  addEventListener("keydown", (event) => {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      isTyping(event.target) ||
      document.querySelector("dialog[open]")
    )
      return;
    if (taken(event.key)) event.preventDefault();
  });
}

/** Show the list of shortcuts. */
export function help() {
  const rows = [
    ...PAGES.map(([, title, key]) => [["g", key], `Go to ${title}`]),
    ...[...own].map(([key, [words]]) => [[key], words]),
    [["↑", "↓"], "Move in a list"],
    [["Enter"], "Open the selected row"],
    [["?"], "These shortcuts"],
  ];
  const close = h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Close");
  const table = h(
    "table",
    { class: "table keys" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Action"))),
    h(
      "tbody",
      {},
      rows.map(([keys, words]) =>
        h(
          "tr",
          {},
          h(
            "td",
            {},
            keys.map((key) => h("kbd", {}, key)),
          ),
          h("td", {}, words),
        ),
      ),
    ),
  );
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-label": "Keyboard shortcuts", onclose: () => dialog.remove() },
    h("h2", {}, "Keyboard shortcuts"),
    table,
    close,
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** Run the action of a key. Returns whether there is one. */
function taken(key) {
  const page = goes ? PAGES.find((one) => one[2] === key) : undefined;
  const action = page ? () => go(link(page[0])) : key === "?" ? help : own.get(key)?.[1];
  goes = key === "g";
  action?.();
  return goes || action !== undefined;
}

function isTyping(target) {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}
