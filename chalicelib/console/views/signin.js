/* The sign-in page: paste a token. It is verified first and kept in this tab only. */

import { get } from "../api.js";
import { h, put } from "../dom.js";
import { command, problemNote } from "../parts/notes.js";
import * as session from "../session.js";

/** The page for visitors who are not signed in; `problem` is the error of a sign-in link. */
export function signIn(problem = null) {
  const notice = h("div", { class: "sign-in-notice" });
  const why = session.lastReason();
  if (problem !== null)
    put(
      notice,
      problemNote({
        title: "This link does not sign in",
        message: "Each link works once and only until the server restarts. Restart the server for a new link, or paste a token.",
      }),
    );
  else if (why !== null) put(notice, h("p", { class: "note", role: "alert" }, why));
  const field = h("textarea", {
    id: "token",
    rows: 4,
    required: true,
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    "aria-describedby": "token-help",
    placeholder: "eyJhbGciOi…",
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      form.requestSubmit();
    },
  });
  const button = h("button", { class: "button button-main", type: "submit" }, "Sign in");
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        submit(field, button, notice);
      },
    },
    h("label", { for: "token" }, "Token"),
    field,
    h(
      "p",
      { id: "token-help", class: "hint" },
      "A token (JWT) for your organization. It stays in this tab until you close it.",
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
      notice,
      form,
      h(
        "div",
        { class: "sign-in-how" },
        h("h2", {}, "No token yet?"),
        h("p", {}, "On the machine that runs the server, create one, or open the link that the server prints at start:"),
        command("make -s token USER=$USER GROUPS=readers,publishers,admins", "Create a token"),
      ),
    ),
  );
}

async function submit(field, button, notice) {
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
        ? "The server does not accept this token. It may have expired or belong to another server."
        : problem.message;
    put(notice, problemNote({ title: "Not signed in", message: words }));
    button.disabled = false;
    field.focus();
  }
}
