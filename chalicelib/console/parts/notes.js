/* Notes: loading, errors with their remedy, empty pages. */

import { base } from "../api.js";
import { h, put } from "../dom.js";
import { icon } from "../icons.js";

const TOLD_MS = 6_000;
const AGAIN_MS = 3_000;
const region = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
document.body.append(region);

/** Show a short message, also for screen readers. */
export function announce(words, kind = "info") {
  const toast = h(
    "div",
    { class: `toast toast-${kind}` },
    icon(kind === "problem" ? "alert" : "check"),
    h("span", {}, words),
  );
  region.append(toast);
  setTimeout(() => toast.remove(), TOLD_MS);
}

/** A loading note. */
export function waiting(words) {
  return h("div", { class: "waiting", role: "status" }, h("span", { class: "spinner" }), h("span", {}, `${words} …`));
}

/** An error with the server's message and a retry button. While the server is unreachable it retries by itself. */
export function problemNote(problem, again = null) {
  const title = problem.title
    ? `${problem.title}${problem.status ? ` (${problem.status})` : ""}`
    : "The page has an internal error";
  const note = h(
    "div",
    { class: "note note-problem", role: "alert" },
    icon("alert", 20),
    h(
      "div",
      {},
      h("strong", {}, title),
      h("p", {}, problem.message),
      again
        ? h("button", { class: "button", type: "button", onclick: () => again() }, icon("refresh"), "Try again")
        : null,
    ),
  );
  if (again && problem.status === 0) setTimeout(() => note.isConnected && again(), AGAIN_MS);
  return note;
}

/** An empty page with a hint. */
export function emptyNote(title, words, ...more) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, words), more);
}

/** A command to copy; it never contains the token. */
export function command(text, label = "Command") {
  const button = h(
    "button",
    { class: "icon-button copy", type: "button", title: "Copy", "aria-label": `Copy: ${label}` },
    icon("copy"),
  );
  button.addEventListener("click", async () => {
    const worked = await copied(text);
    put(button, icon(worked ? "check" : "cross"));
    announce(
      worked ? "Copied" : "The browser does not permit copying; select the text instead",
      worked ? "info" : "problem",
    );
    setTimeout(() => put(button, icon("copy")), 1500);
  });
  return h("div", { class: "command" }, h("pre", { tabindex: "0", role: "region", "aria-label": label }, text), button);
}

/** The command that publishes an event to this server. */
export function publishing(event, path = "events") {
  const body = JSON.stringify({ events: [event] });
  return command(
    `curl ${base()}/${path} \\\n  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\\n  -d '${body}'`,
    "Publish an event",
  );
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
