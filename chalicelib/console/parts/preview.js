/* The preview of an observer: its message for a real event, rendered by the server from the form's current values. */

import { post } from "../api.js";
import { h, put } from "../dom.js";
import { idText, jsonBlock, typeText } from "../format.js";
import { badge } from "../states.js";
import { day, msOfId } from "../time.js";
import { facts } from "./event.js";
import { mailFrame } from "./mail.js";
import { problemNote, waiting } from "./notes.js";

const SETTLE_MS = 350;

/** A panel that follows the form. */
export class Preview {
  #form;
  #timer = null;
  #turn = 0;
  #shown = h("div", { class: "preview-shown" });
  #event = h("input", {
    id: "preview-event",
    class: "mono",
    placeholder: "the latest that would be sent",
    autocomplete: "off",
    spellcheck: "false",
  });

  constructor(form) {
    this.#form = form;
    this.#event.addEventListener("input", () => this.changed());
    const choice = h(
      "div",
      { class: "form-row" },
      h("label", { for: "preview-event" }, "For the event with this id"),
      this.#event,
      h("span", { class: "hint" }, "server.session.instance, as Live shows it"),
    );
    this.element = h(
      "section",
      { class: "card preview", "aria-label": "Preview" },
      h("h2", {}, "Preview"),
      choice,
      this.#shown,
    );
  }

  /** The chosen event, or null for the latest. */
  get event() {
    return this.#event.value.trim() || null;
  }

  /** Render again after a pause in typing. */
  changed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#now(), SETTLE_MS);
  }

  close() {
    this.#turn += 1;
    clearTimeout(this.#timer);
  }

  async #now() {
    const mine = ++this.#turn;
    if (!this.#shown.hasChildNodes()) put(this.#shown, waiting("Rendering"));
    try {
      const body = { configuration: this.#form().configuration() };
      if (this.event) body.event = this.event;
      const answer = await post(`observers/${encodeURIComponent(this.#form().name || "new")}/preview`, body);
      if (mine === this.#turn) put(this.#shown, rendered(answer));
    } catch (problem) {
      if (mine === this.#turn)
        put(
          this.#shown,
          problemNote(problem.status === undefined ? { title: "Not yet", message: problem.message } : problem),
        );
    }
  }
}

function rendered({ event, wouldTell, why, message }) {
  return [
    h(
      "p",
      { class: "preview-event" },
      badge(wouldTell ? "would be sent" : "would not be sent"),
      wouldTell ? null : h("span", {}, why ?? "it is not addressed to this observer"),
    ),
    event
      ? h(
          "p",
          { class: "hint mono" },
          `${idText(event.id)} ${typeText(event.type)} ${event.key ?? ""}, ${day(msOfId(event.eventId))}`,
        )
      : null,
    message ? shownMessage(message) : null,
  ];
}

function shownMessage(message) {
  if ("json" in message) return jsonBlock(message.json, "The message as JSON");
  const people = message.to ?? message.users ?? [];
  return [
    facts([
      ["To", people.join(", ")],
      ["Subject", h("strong", { class: "preview-subject" }, message.subject)],
    ]),
    message.html ? mailFrame(message.html) : null,
    h(
      "pre",
      { class: "json preview-text", tabindex: "0", role: "region", "aria-label": "The message as text" },
      message.text ?? message.body ?? "",
    ),
  ];
}
