/* Sign in: paste a token. It is tried before it is kept, and kept in this tab only. */

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { command, problemNote } from "../parts/notes.js";
import * as session from "../session.js";

/** The page for those who are not signed in; `problem` is why a link did not work. */
export function signIn(problem = null) {
  const told = h("div", { class: "sign-in-told" });
  const why = session.lastReason();
  if (problem !== null)
    put(
      told,
      problemNote({
        title: "This link does not sign in",
        message: `${problem.message} Each link works once; paste a token instead.`,
      }),
    );
  else if (why !== null) put(told, h("p", { class: "note", role: "alert" }, why));
  const field = h("textarea", {
    id: "token",
    rows: 4,
    required: true,
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    "aria-describedby": "token-help",
    placeholder: "eyJhbGciOi…",
  });
  const button = h("button", { class: "button button-main", type: "submit" }, "Sign in");
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        tried(field, button, told);
      },
    },
    h("label", { for: "token" }, "Token"),
    field,
    h(
      "p",
      { id: "token-help", class: "hint" },
      "A JWT of your organization. It stays in this tab and is forgotten when you close it.",
    ),
    button,
  );
  return h(
    "main",
    { id: "main", class: "alone" },
    h(
      "div",
      { class: "sign-in" },
      h(
        "div",
        { class: "brand brand-large" },
        h("img", { src: "console/icon.svg", width: 36, height: 36, alt: "" }),
        h("h1", {}, "Annals"),
      ),
      told,
      form,
      h(
        "div",
        { class: "sign-in-how" },
        h("h2", {}, "No token at hand?"),
        h("p", {}, "On the machine that runs the server, make one, or open the link that its start line prints:"),
        command("make -s token USER=$USER GROUPS=readers,publishers,admins", "Make a token"),
      ),
    ),
  );
}

async function tried(field, button, told) {
  const pasted = field.value.trim();
  if (!pasted) return field.focus();
  button.disabled = true;
  try {
    const token = pasted.replace(/^Bearer\s+/i, "");
    await get("me", {}, { token });
    session.begin(token);
  } catch (problem) {
    const words =
      problem.status === 401
        ? "The server does not take this token. It may have expired, or belong to another server."
        : problem.message;
    put(told, problemNote({ title: "Not signed in", message: words }));
    button.disabled = false;
    field.focus();
  }
}
