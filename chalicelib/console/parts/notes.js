/* What the console says besides data: that it waits, that something failed and what to do, that there is nothing yet. */

import { base } from "../api.js";
import { h, put } from "../dom.js";
import { icon } from "../icons.js";

const TOLD_MS = 6_000;
const region = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
document.body.append(region);

/** Say something in passing, also to those who hear the page. */
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

/** Something takes a while. */
export function waiting(words) {
  return h("div", { class: "waiting", role: "status" }, h("span", { class: "spinner" }), h("span", {}, `${words} …`));
}

/** What went wrong, in the server's words, and a way to try again. */
export function problemNote(problem, again = null) {
  const title = problem.title
    ? `${problem.title}${problem.status ? ` (${problem.status})` : ""}`
    : "Something went wrong in the page";
  return h(
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
}

/** There is nothing here yet, and what to do about it. */
export function emptyNote(title, words, ...more) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, words), more);
}

/** A command to copy; the token is never in it. */
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
      worked ? "Copied" : "The browser does not let this page copy; mark the text instead",
      worked ? "info" : "problem",
    );
    setTimeout(() => put(button, icon("copy")), 1500);
  });
  return h("div", { class: "command" }, h("pre", { tabindex: "0", role: "region", "aria-label": label }, text), button);
}

/** The command that publishes an event, for this very server. */
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
