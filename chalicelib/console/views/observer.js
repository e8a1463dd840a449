/* The page of one observer: configuration with preview, deliveries, failures, replay. */

import { ask, get, post } from "../api.js";
import { h, put } from "../dom.js";
import { icon } from "../icons.js";
import { confirmed } from "../parts/confirm.js";
import { Failures } from "../parts/failures.js";
import { health } from "../parts/health.js";
import { announce, command, problemNote, waiting } from "../parts/notes.js";
import { ObserverForm } from "../parts/observer-form.js";
import { Preview } from "../parts/preview.js";
import { Replay } from "../parts/replay.js";
import { go, link } from "../router.js";

const AGAIN_MS = 3_000;
/** Other responses have a mask instead of a secret. */
const SECRET_PREFIX = "whsec_";

/** The page of the observer `name`, or of a new one if it is null. */
export function observerView(name) {
  const page = new ObserverPage(name);
  return { title: name ?? "New observer", element: page.element, close: () => page.close() };
}

class ObserverPage {
  #name;
  #parked = 0;
  #form = null;
  #parts = [];
  #timer = null;
  #closed = false;
  #body = h("div", { class: "stack" }, waiting("Loading the observer"));
  #health = h("span");
  #notice = h("div", { class: "observer-notice" });
  #failures = null;

  constructor(name) {
    this.#name = name;
    this.element = h(
      "div",
      { class: "page" },
      h("nav", { class: "crumbs", "aria-label": "Breadcrumbs" }, h("a", { href: link("observers") }, "Observers")),
      h(
        "div",
        { class: "page-head" },
        h("h1", {}, name ?? "New observer"),
        this.#health,
        h("div", { class: "bar-space" }),
        this.#buttons(),
      ),
      this.#notice,
      this.#body,
    );
    this.#begin();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const part of this.#parts) part.close?.();
  }

  get #path() {
    return `observers/${encodeURIComponent(this.#name ?? this.#form.name)}`;
  }

  #buttons() {
    const save = h(
      "button",
      { class: "button button-main", type: "button", id: "save", onclick: () => this.#save() },
      icon("check"),
      "Save",
    );
    if (this.#name === null) return save;
    return [
      h(
        "button",
        { class: "button", type: "button", id: "test", onclick: () => this.#test() },
        icon("send"),
        "Send a test",
      ),
      h(
        "button",
        { class: "button button-bad", type: "button", id: "delete", onclick: () => this.#delete() },
        icon("trash"),
        "Delete",
      ),
      save,
    ];
  }

  async #begin() {
    try {
      const observer = this.#name === null ? null : await get(this.#path);
      if (this.#closed) return;
      const preview = new Preview(() => this.#form);
      this.#form = new ObserverForm(observer, () => preview.changed());
      this.#parts = [preview];
      preview.changed();
      put(
        this.#body,
        h(
          "div",
          { class: "observer-split" },
          h(
            "section",
            { class: "card", "aria-label": "Configuration" },
            h("h2", {}, "Configuration"),
            this.#form.element,
          ),
          preview.element,
        ),
      );
      if (observer !== null) this.#showDeliveries(observer);
    } catch (problem) {
      put(
        this.#body,
        problemNote(problem, () => this.#begin()),
      );
    }
  }

  #showDeliveries(observer) {
    const again = () => this.#watch();
    this.#failures = new Failures(this.#name, again);
    const replay = new Replay(this.#name, again);
    this.#parts.push(replay);
    this.#body.append(this.#failures.element, replay.element);
    this.#drawHealth(observer.deliveries);
    this.#timer = setTimeout(again, AGAIN_MS);
  }

  async #watch() {
    clearTimeout(this.#timer);
    try {
      const { deliveries } = await get(this.#path);
      this.#drawHealth(deliveries);
    } catch {
      // Retried by the next refresh.
    }
    if (!this.#closed) this.#timer = setTimeout(() => this.#watch(), AGAIN_MS);
  }

  #drawHealth(deliveries) {
    put(this.#health, health(deliveries));
    if ((deliveries.parked ?? 0) !== this.#parked) this.#failures.read();
    this.#parked = deliveries.parked ?? 0;
  }

  async #save() {
    if (!this.#form?.checked()) return; // null: it is not loaded yet
    await this.#tried(async () => {
      const { config } = await ask("PUT", this.#path, { body: this.#form.configuration() });
      announce("Saved");
      if (config.secret?.startsWith(SECRET_PREFIX)) put(this.#notice, newSecret(config.secret, this.#form.name));
      else if (this.#name === null) go(link("observers", [this.#form.name]));
    });
  }

  async #test() {
    await this.#tried(async () => {
      const event = this.#parts[0].event;
      await post(`${this.#path}/test`, event ? { event } : {});
      announce("The test was sent");
    });
  }

  async #delete() {
    if (!(await confirmed(`Delete the observer ${this.#name}? Events and messages already sent are kept.`, "Delete"))) return;
    await this.#tried(async () => {
      await ask("DELETE", this.#path);
      announce("Deleted");
      go(link("observers"));
    });
  }

  async #tried(action) {
    put(this.#notice);
    try {
      await action();
    } catch (problem) {
      put(this.#notice, problemNote(problem));
    }
  }
}

/** The only time that a secret is shown that the server has made. */
function newSecret(secret, name) {
  return h(
    "div",
    { class: "card", role: "status" },
    h("p", {}, "Saved. The receiver verifies the signatures with this secret, which is shown only now:"),
    command(secret, "The secret"),
    h("a", { class: "button", href: link("observers", [name]) }, "Continue"),
  );
}
