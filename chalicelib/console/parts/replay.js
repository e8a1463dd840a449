/* Replays past events to an observer, in parts; each part reports its progress. */

import { post } from "../api.js";
import { h, put, text } from "../dom.js";
import { plural } from "../format.js";
import { icon } from "../icons.js";
import { msOfId, whole } from "../time.js";
import { confirmed } from "./confirm.js";
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
        "Sends notifications again for all events since then. It counts and asks first.",
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
    if (this.#stopped) this.#start(new Date(this.#since.value).toISOString());
    else this.#stopped = true;
    this.#draw();
  }

  /** Count the messages, ask, then send them. */
  async #start(since) {
    this.#stopped = false;
    put(this.#problem);
    this.#bar.hidden = false;
    this.#draw();
    try {
      const [count, until] = await this.#run({ since }, true);
      if (this.#stopped) return;
      const question = `Send up to ${plural(count, "message")} again, about all matching events since ${whole(Date.parse(since))}? Events that the filter excludes are not sent.`;
      if (count === 0) text(this.#words, "No event since then matches this observer.");
      else if (await confirmed(question, "Replay")) await this.#run({ since, until }, false);
      else text(this.#words, "Nothing was sent.");
    } catch (problem) {
      put(this.#problem, problemNote(problem));
    } finally {
      this.#stopped = true;
      this.#draw();
      this.#done();
    }
  }

  /** Run all parts, or only count their deliveries. Returns the number of deliveries and the last position. */
  async #run(start, isDryRun) {
    const first = Date.parse(start.since) * 1000;
    let deliveries = 0;
    let body = start;
    for (;;) {
      const options = isDryRun ? { ...body, dryRun: true } : body;
      const part = await post(`observers/${encodeURIComponent(this.#name)}/replay`, options);
      deliveries += part.deliveries;
      this.#bar.value = part.done ? 1 : Math.max(0, Math.min(1, (part.eventId - first) / (part.until - first)));
      const reached = whole(msOfId(part.done ? part.until : part.eventId));
      const counted = isDryRun ? `Counting: ${plural(deliveries, "message")}` : plural(deliveries, "delivery", "deliveries");
      text(this.#words, `${counted}, up to ${reached}${part.done && !isDryRun ? ". Done." : ""}`);
      if (part.done || this.#stopped) return [deliveries, part.until];
      body = { after: part.eventId, until: part.until, replay: part.replay };
    }
  }

  #draw() {
    put(this.#button, icon(this.#stopped ? "history" : "pause"), this.#stopped ? "Replay" : "Stop");
  }
}

function local(at) {
  const shifted = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}
