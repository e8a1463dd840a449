/*
 * Parser for server-sent events: lines end with CR, LF or both; a blank line ends an event; an `id`
 * without data still moves the position; a comment is a sign of life.
 */

/** Takes chunks of text and returns the completed events. */
export class SseParser {
  #rest = "";
  #data = [];
  #name = "";
  #id = null;
  #begun = false;

  /** The reconnection delay that the server requested, in milliseconds. */
  retry = null;

  /** The events that `piece` completes, as `{id, name, data}`; `data` is null if only the position moved. */
  take(piece) {
    let waiting = this.#rest + piece;
    if (!this.#begun && waiting) {
      waiting = waiting.replace(/^\uFEFF/, "");
      this.#begun = true;
    }
    const found = [];
    // A CR at the end may be half of a CRLF.
    const lines = waiting.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      const event = line === "" ? this.#end() : this.#field(line);
      if (event) found.push(event);
    }
    return found;
  }

  #field(line) {
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#name = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }

  #end() {
    const data = this.#data.length ? this.#data.join("\n") : null;
    const event = { id: this.#id, name: this.#name || "message", data };
    this.#data = [];
    this.#name = "";
    return data === null && this.#id === null ? null : event;
  }
}
