/* The form of an observer: fields for the common settings, JSON for the others. */

import { h, put } from "../dom.js";
import { typeText } from "../format.js";

const FIELDS = {
  mail: [
    ["to", "To", "ops@example.org, night@example.org"],
    ["from", "From", "annals@example.org"],
    ["title", "Title", ""],
    ["time_zone", "Time zone", "Europe/Berlin"],
    ["time_format", "Time format", ""],
  ],
  slack: [["url", "Webhook URL", "https://hooks.slack.com/services/…"]],
  app: [["to", "Users", "anna, bela"]],
  webhook: [
    ["url", "URL", "https://example.org/hooks/annals"],
    ["secret", "Secret", "empty: the server makes one"],
  ],
  apprise: [["urls", "Apprise URLs, one per line", "ntfys://topic"]],
  eventbridge: [["bus", "Event bus", "default"]],
};
/** Fields with a list, which is written in lines. */
const LINES = ["urls"];
/** Fields that the form does not show. Saving it keeps them. */
const KEPT_FIELDS = ["when", "group_by", "digest", "throttle", "quiet", "time_zone"];
const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,99}";
const NAME_RULE = "Use 1 to 100 letters, digits, dots, hyphens and underscores; begin with a letter or digit.";

/** A form for `observer`, null for a new one; calls `changed()` after every change. */
export class ObserverForm {
  #observer;
  #fields = {};
  #shown = new Map();
  #channelFields = h("div", { class: "form-part" });

  constructor(observer, changed) {
    this.#observer = observer ?? { channel: "app", scope: "private", config: {} };
    const known = this.#observer;
    this.#fields.name = h("input", {
      id: "observer-name",
      value: known.name ?? "",
      required: true,
      pattern: NAME,
      autocomplete: "off",
      disabled: observer !== null,
      placeholder: "ops",
      oninput: (event) => event.target.setCustomValidity(""),
      oninvalid: (event) => event.target.setCustomValidity(NAME_RULE),
    });
    this.#fields.scope = select("observer-scope", ["global", "private"], known.scope);
    this.#fields.channel = select("observer-channel", Object.keys(FIELDS), known.channel);
    this.#fields.types = h("textarea", {
      id: "observer-types",
      rows: 3,
      value: patternsText(known.types),
      placeholder: "job/finish/*\njob/clean/*",
      spellcheck: "false",
    });
    this.#fields.events = h("input", {
      id: "observer-events",
      value: listText(known.events),
      placeholder: "create, finish",
    });
    this.#fields.nodes = h("input", { id: "observer-nodes", value: listText(known.nodes), placeholder: "n1, n2" });
    this.#fields.filter = h("input", {
      id: "observer-filter",
      class: "mono",
      value: known.filter ?? "",
      placeholder: 'event.success != "1"',
      spellcheck: "false",
      autocomplete: "off",
    });
    this.#fields.more = h("textarea", { id: "observer-more", rows: 2, spellcheck: "false", placeholder: "{}" });
    for (const field of Object.values(this.#fields)) this.#shown.set(field, field.value);
    for (const name of ["channel", "scope"]) this.#fields[name].addEventListener("input", () => this.#drawChannel());
    this.element = h(
      "form",
      { class: "form", oninput: changed, onsubmit: (event) => event.preventDefault() },
      row("Name", this.#fields.name),
      h("div", { class: "form-pair" }, row("Scope", this.#fields.scope), row("Channel", this.#fields.channel)),
      row(
        "Types",
        this.#fields.types,
        "One pattern per line; ? matches one subtype, a final * any number. Leave empty for all events.",
      ),
      h(
        "div",
        { class: "form-pair" },
        row("or job events", this.#fields.events),
        row("of nodes", this.#fields.nodes),
      ),
      row("Filter", this.#fields.filter, "Optional. Only events for which this Jinja2 expression is true are sent."),
      this.#channelFields,
      row("More configuration, as JSON", this.#fields.more),
    );
    this.#drawChannel();
  }

  get name() {
    return this.#fields.name.value.trim();
  }

  /** Whether the name is valid; otherwise its field shows the error. */
  checked() {
    return this.element.reportValidity();
  }

  /** The configuration for PUT. Throws an Error if the JSON is invalid. */
  configuration() {
    const known = this.#observer;
    const { scope, channel, types, events, nodes, filter } = this.#fields;
    const made = { scope: scope.value, channel: channel.value, config: this.#config() };
    made.types = this.#saved(types, known.types, parsedPatterns);
    made.events = this.#saved(events, known.events);
    made.nodes = this.#saved(nodes, known.nodes);
    made.filter = this.#saved(filter, known.filter);
    if (made.scope === "private" && known.user) made.user = known.user;
    for (const name of KEPT_FIELDS) if (known[name] !== undefined) made[name] = known[name];
    return made;
  }

  /** The value of `field` for PUT. An unchanged field keeps the value `known`, also if the field shows it differently. */
  #saved(field, known, parse = (written) => written.trim() || undefined) {
    return field.value === this.#shown.get(field) ? known : parse(field.value);
  }

  #config() {
    const known = this.#observer.config ?? {};
    const config = {};
    for (const [name] of FIELDS[this.#fields.channel.value]) {
      const field = this.#fields[`config-${name}`];
      if (!field.isConnected) continue;
      config[name] = this.#saved(field, known[name], LINES.includes(name) ? lines : undefined);
    }
    const { progress } = this.#fields;
    if (progress) {
      const isKnown = progress.checked === mailsProgress(known);
      config.mail_progress = isKnown ? known.mail_progress : progress.checked ? "1" : undefined;
    }
    return { ...config, ...parsed(this.#fields.more.value) };
  }

  #drawChannel() {
    const channel = this.#fields.channel.value;
    const config = this.#observer.config ?? {};
    const isOwn = channel === "app" && this.#fields.scope.value === "private";
    const named = FIELDS[channel].map(([name]) => name);
    const rows = FIELDS[channel].map(([name, title, example]) => {
      const isList = LINES.includes(name);
      this.#fields[`config-${name}`] = h(isList ? "textarea" : "input", {
        id: `config-${name}`,
        value: isList ? [config[name] ?? []].flat().join("\n") : plainText(config[name]),
        placeholder: example,
        autocomplete: "off",
      });
      this.#shown.set(this.#fields[`config-${name}`], this.#fields[`config-${name}`].value);
      return row(title, this.#fields[`config-${name}`]);
    });
    this.#fields.progress =
      channel === "mail"
        ? h("input", {
            type: "checkbox",
            id: "config-progress",
            checked: mailsProgress(config),
          })
        : null;
    put(
      this.#channelFields,
      isOwn ? h("p", { class: "hint" }, "Goes to your own inbox.") : rows,
      this.#fields.progress ? h("label", { class: "check" }, this.#fields.progress, "Also mail progress") : null,
    );
    const rest = Object.entries(config).filter(([name]) => !named.includes(name) && name !== "mail_progress");
    this.#fields.more.value = rest.length ? JSON.stringify(Object.fromEntries(rest)) : "";
  }
}

/** As text, because the fields of a configuration can have any JSON value. */
const plainText = (value) => String(value ?? "");

const lines = (written) => written.split(/[\r\n]/).map((line) => line.trim()).filter(Boolean);

/** An empty list of job events or nodes means all of them. Without a list the observer also gets other events. */
const listText = (list) => (list === "" ? "all" : plainText(list));

const mailsProgress = (config) => !["", "0", "false", false, 0, null, undefined].includes(config.mail_progress);

/** One pattern per line, or JSON if lines cannot express the patterns. */
function patternsText(patterns) {
  if (!patterns) return "";
  const lines = patterns.map(typeText).join("\n");
  const isExact = !lines.startsWith("[") && JSON.stringify(parsedPatterns(lines)) === JSON.stringify(patterns);
  return isExact ? lines : JSON.stringify(patterns);
}

/** The patterns in `written`, or undefined if there are none. */
function parsedPatterns(written) {
  if (written.trim().startsWith("[")) return parsedPatternList(written);
  const lines = written.split(/[\r\n]/).map((line) => line.trim());
  const patterns = lines.filter(Boolean).map((line) => line.split("/"));
  return patterns.length ? patterns : undefined;
}

function parsedPatternList(written) {
  try {
    return JSON.parse(written);
  } catch {
    throw new Error('Types: this is not a JSON list. Write it like [["job", "finish", "*"]].');
  }
}

function row(title, field, hint = null) {
  const help = hint ? h("span", { class: "hint", id: `${field.id}-hint` }, hint) : null;
  if (hint) field.setAttribute("aria-describedby", `${field.id}-hint`);
  return h("div", { class: "form-row" }, h("label", { for: field.id }, title), field, help);
}

function select(id, names, chosen) {
  const field = h(
    "select",
    { id },
    names.map((name) => h("option", { value: name }, name)),
  );
  field.value = chosen;
  return field;
}

function parsed(written) {
  if (!written.trim()) return {};
  try {
    const value = JSON.parse(written);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value;
  } catch {
    // Reported below.
  }
  throw new Error('More configuration: this is not a JSON object. Write it like {"label": "Nightly"}.');
}
