/* Replays past events to an observer, in parts; each part reports its progress. */

import { post } from "../api.js";
import { h, put, text } from "../dom.js";
import { plural } from "../format.js";
import { icon } from "../icons.js";
import { day, msOfId } from "../time.js";
import { problemNote } from "./notes.js";

/** A card that replays the observer `name`; calls `done()` at the end. */
export class Replay {
  #name;
  #done;
  #stopped = true;
  #since = h("input", { id: "replay-since", type: "datetime-local", step: 1, required: true });
  #bar = h("progress", { max: 1, value: 0, "aria-label": "Replay" });
  #words = h("p", { class: "hint", role: "status" });
  #problem = h("div");
  #button = h("button", { class: "button", type: "submit" });

  constructor(name, done) {
    this.#name = name;
    this.#done = done;
    this.#since.value = local(Date.now() - 24 * 3600 * 1000);
    this.#bar.hidden = true;
    const form = h(
      "form",
      { class: "replay", onsubmit: (event) => this.#pressed(event) },
      h("div", { class: "form-row" }, h("label", { for: "replay-since" }, "Since"), this.#since),
      this.#button,
    );
    this.element = h(
      "section",
      { class: "card", "aria-label": "Replay" },
      h("h2", {}, "Replay"),
      h(
        "p",
        { class: "hint" },
        "Notifies the observer again of all events since then. Repeating a part sends nothing twice.",
      ),
      form,
      this.#bar,
      this.#words,
      this.#problem,
    );
    this.#draw();
  }

  close() {
    this.#stopped = true;
  }

  #pressed(event) {
    event.preventDefault();
    if (this.#stopped) this.#run(new Date(this.#since.value).toISOString());
    else this.#stopped = true;
    this.#draw();
  }

  async #run(since) {
    this.#stopped = false;
    this.#bar.hidden = false;
    put(this.#problem);
    const first = Date.parse(since) * 1000;
    let deliveries = 0;
    let body = { since };
    try {
      for (;;) {
        const part = await post(`observers/${encodeURIComponent(this.#name)}/replay`, body);
        deliveries += part.deliveries;
        this.#bar.value = part.done ? 1 : Math.max(0, Math.min(1, (part.eventId - first) / (part.until - first)));
        text(
          this.#words,
          `${plural(deliveries, "delivery", "deliveries")}, up to ${day(msOfId(part.done ? part.until : part.eventId))}${part.done ? ". Done." : ""}`,
        );
        if (part.done || this.#stopped) break;
        body = { after: part.eventId, until: part.until, replay: part.replay };
      }
    } catch (problem) {
      put(this.#problem, problemNote(problem));
    }
    this.#stopped = true;
    this.#draw();
    this.#done();
  }

  #draw() {
    put(this.#button, icon(this.#stopped ? "history" : "pause"), this.#stopped ? "Replay" : "Stop");
  }
}

function local(at) {
  const shifted = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}
