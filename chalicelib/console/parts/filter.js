/* The filter of the Live page: a type pattern, a key, a vocabulary. The server applies it as far as it can; the page does the rest. */

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { VOCABULARIES, vocabularyOf } from "../vocabularies.js";

const PAUSE_MS = 350;

/** A row of fields; calls `changed(filter)` after a pause in typing. */
export function liveFilter(parameters, changed) {
  const types = h("input", {
    id: "filter-types",
    type: "search",
    class: "mono",
    value: parameters.get("types") ?? "",
    placeholder: "job/?/n1/*",
    spellcheck: "false",
    autocomplete: "off",
  });
  const key = h("input", {
    id: "filter-key",
    type: "search",
    class: "mono",
    value: parameters.get("key") ?? "",
    placeholder: "/job/117 or /job/*",
    spellcheck: "false",
    autocomplete: "off",
  });
  const options = [["", "All sources"], ...VOCABULARIES, ["other", "Others"]].map(([name, title]) =>
    h("option", { value: name }, title),
  );
  const vocabulary = h("select", { id: "filter-vocabulary" }, options);
  vocabulary.value = parameters.get("vocabulary") ?? "";
  const filter = new Filter(types, key, vocabulary);
  let timer = null;
  let last = JSON.stringify(filter.parameters);
  const onInput = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const now = JSON.stringify(filter.parameters);
      if (now !== last) changed(filter);
      last = now;
    }, PAUSE_MS);
  };
  for (const field of [types, key, vocabulary]) field.addEventListener("input", onInput);
  filter.element = h(
    "form",
    { class: "filter", role: "search", "aria-label": "Filter events", onsubmit: (event) => event.preventDefault() },
    labelled("Type", types, "search"),
    labelled("Key", key),
    labelled("Source", vocabulary),
  );
  return filter;
}

class Filter {
  constructor(types, key, vocabulary) {
    this.fields = { types, key, vocabulary };
  }

  /** The filter as address parameters. */
  get parameters() {
    const { types, key, vocabulary } = this.fields;
    return { types: types.value.trim(), key: key.value.trim(), vocabulary: vocabulary.value };
  }

  /** The filter as query parameters of the API. */
  get query() {
    const { types, key, vocabulary } = this.parameters;
    const known = VOCABULARIES.find(([name]) => name === vocabulary)?.[2] ?? [];
    const root = /^\/(job|jobset|push)\/.*\*$/.exec(key)?.[1];
    const patterns = types ? types.split(/[\s,]+/) : known.length || !root ? known : [`${root}/*`];
    return { types: patterns, keys: key && !key.endsWith("*") ? [key] : [] };
  }

  /** Whether the server applies only a part of the filter. */
  get isLocal() {
    const { types, key, vocabulary } = this.parameters;
    return key.endsWith("*") || (vocabulary !== "" && (types !== "" || vocabulary === "other"));
  }

  get isOn() {
    return Object.values(this.parameters).some(Boolean);
  }

  /** Whether an event passes the part of the filter that the server does not apply. */
  holds(event) {
    const { key, vocabulary } = this.parameters;
    const isKey = !key.endsWith("*") || (event.key ?? "").startsWith(key.slice(0, -1));
    return isKey && (!vocabulary || vocabularyOf(event.type) === vocabulary);
  }

  focus() {
    this.fields.types.focus();
  }
}

function labelled(words, field, mark = null) {
  return h("label", { class: "field" }, h("span", {}, words), mark ? icon(mark, 14) : null, field);
}
