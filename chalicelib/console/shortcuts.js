/* Keys: `?` shows them all, `g` and a letter goes somewhere; a view adds its own for as long as it is open. */

import { h } from "./dom.js";
import { PAGES, go, link } from "./router.js";

const own = new Map();
let goes = false;

/** Add the keys of a view, `{key: [words, action]}`; gives how to take them away. */
export function shortcuts(keys) {
  for (const [key, entry] of Object.entries(keys)) own.set(key, entry);
  return () => {
    for (const key of Object.keys(keys)) own.delete(key);
  };
}

/** Hear keys that nobody else wants. */
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

/** Show all keys. */
export function help() {
  const rows = [
    ...PAGES.map(([, title, key]) => [["g", key], `Go to ${title}`]),
    ...[...own].map(([key, [words]]) => [[key], words]),
    [["↑", "↓"], "Move in a list"],
    [["Enter"], "Open what is marked in a list"],
    [["?"], "These shortcuts"],
  ];
  const close = h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Close");
  const table = h(
    "table",
    { class: "table keys" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Does"))),
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

/** Do what the key means; tell whether it means anything. */
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
