/*
 * A feed: every event after a position exactly once and in order, whatever happens to the connection. It streams
 * (server-sent events over fetch, which can send the token), goes on after the last event it has, and asks by long poll
 * where an answer does not get through before it ends.
 */

import { Problem, address, send, serverNow } from "./api.js";
import { SseParser } from "./sse.js";

const SILENCE_MS = 40_000;
/* A stream says something every 15 s, an answer that cannot stream ends after 25 s: who is silent for longer is not there. */
const LONGEST_PAUSE_MS = 10_000;
const BEHIND_MS = 10_000;
const WORK_MS = 10;
/* So long are events taken in before the page may draw. */
const SETTLED_MS = 1_500;
const POLL_TIMEOUT = "20s";
const POLL_LIMIT = 1000;

/**
 * @typedef {{name: "connecting"|"connected"|"behind"|"reconnecting"|"torn"|"refused"|"held", by: string, words: string}} State
 */
export class Feed {
  #options;
  #after;
  #parameters;
  #abort = new AbortController();
  #connection = new AbortController();
  #polls = false;
  #hasPolled = false;
  #failures = 0;
  #caughtUp = null;
  #wake = null;
  #isHeld = false;

  /** `onEvents` gets lists of events, `onState` how it is going, `onTorn` where the log begins if it forgot something. */
  constructor({ parameters = {}, after, onEvents, onState = () => {}, onTorn = () => {} }) {
    this.#options = { onEvents, onState, onTorn };
    this.#parameters = parameters;
    this.#after = after;
  }

  /** The last position that was seen. */
  get after() {
    return this.#after;
  }

  /** Begin, or go on after `hold`. */
  start() {
    this.#isHeld = false;
    this.#abort = new AbortController();
    addEventListener("online", this.#hurry);
    addEventListener("offline", this.#breakOff);
    this.#run(this.#abort.signal);
    return this;
  }

  /** End for good. */
  stop() {
    removeEventListener("online", this.#hurry);
    removeEventListener("offline", this.#breakOff);
    clearTimeout(this.#caughtUp);
    this.#abort.abort();
  }

  /** Let the server keep what comes, until `start`. */
  hold() {
    this.stop();
    this.#isHeld = true;
    this.#tell("held", "The server keeps what comes");
  }

  #hurry = () => this.#wake?.();
  #breakOff = () => this.#connection.abort();

  async #run(signal) {
    this.#tell("connecting", "Connecting");
    while (!signal.aborted) {
      try {
        await (this.#polls ? this.#poll(signal) : this.#stream(signal));
      } catch (failure) {
        if (signal.aborted) return;
        if (failure instanceof Problem && !failure.isPassing) return this.#tell("refused", failure.message);
        await this.#pause(signal);
      }
    }
  }

  async #stream(signal) {
    const connection = this.#opened(signal);
    let heard = false;
    let silence = null;
    const listen = () => {
      clearTimeout(silence);
      silence = setTimeout(() => {
        this.#polls ||= !heard;
        connection.abort();
      }, SILENCE_MS);
    };
    listen();
    try {
      const headers = { Accept: "text/event-stream", "Last-Event-ID": String(this.#after) };
      const response = await send(address("events", this.#parameters), { headers, signal: connection.signal });
      const parser = new SseParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      this.#connected();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        if (signal.aborted) return;
        heard = true;
        this.#failures = 0;
        listen();
        await this.#takeAll(parser.take(part.value), signal);
      }
      if (parser.retry === null) throw new Error("the stream ended");
      await this.#sleep(parser.retry, signal);
    } finally {
      clearTimeout(silence);
    }
  }

  /** The first answer comes at once, and so shows that somebody is there. */
  async #poll(signal) {
    const connection = this.#opened(signal);
    const timeout = this.#hasPolled ? POLL_TIMEOUT : "0s";
    this.#hasPolled = false;
    const url = address("events", { ...this.#parameters, timeout, limit: POLL_LIMIT, after: this.#after });
    const response = await send(url, { headers: { Accept: "application/json" }, signal: connection.signal });
    const seq = await response.json();
    this.#hasPolled = true;
    this.#failures = 0;
    this.#connected();
    if (seq.TYPE === "Torn") this.#torn(seq.eventId);
    else this.#give(seq.eventSnapshots ?? []);
    this.#after = Math.max(this.#after, seq.eventId);
  }

  /** What ends with the feed, and when the browser loses its network. */
  #opened(signal) {
    const connection = new AbortController();
    signal.addEventListener("abort", () => connection.abort(), { once: true, signal: connection.signal });
    this.#connection = connection;
    return connection;
  }

  async #takeAll(frames, signal) {
    let events = [];
    let began = performance.now();
    for (const frame of frames) {
      if (frame.name === "Torn") this.#torn(Number(frame.id));
      else if (frame.data !== null) events.push(JSON.parse(frame.data));
      else this.#after = Math.max(this.#after, Number(frame.id));
      if (performance.now() - began > WORK_MS) {
        this.#give(events);
        events = [];
        await new Promise((resolve) => setTimeout(resolve));
        if (signal.aborted) return;
        began = performance.now();
      }
    }
    this.#give(events);
  }

  /** Hand on what is new: an answer may repeat what was there when the connection broke. */
  #give(events) {
    const news = events.filter((event) => event.eventId > this.#after);
    if (news.length === 0 || this.#isHeld) return;
    this.#after = news.at(-1).eventId;
    this.#options.onEvents(news);
    if (!this.#isHeld) this.#judge();
  }

  #judge() {
    const behind = serverNow() - this.#after / 1000;
    clearTimeout(this.#caughtUp);
    if (behind < BEHIND_MS) return this.#connected();
    this.#tell("behind", `Catching up, ${Math.round(behind / 1000)} s behind`);
    this.#caughtUp = setTimeout(() => this.#connected(), SETTLED_MS);
  }

  #torn(eventId) {
    const before = this.#after;
    this.#after = Math.max(this.#after, eventId);
    this.#options.onTorn(before, eventId);
    this.#tell("torn", "Some events are no longer kept");
  }

  #connected() {
    this.#tell("connected", this.#polls ? "Connected, by long poll" : "Connected");
  }

  /** Longer after each failure, by chance a little more or less, so that not all come back at once. */
  async #pause(signal) {
    this.#failures += 1;
    const most = Math.min(LONGEST_PAUSE_MS, 250 * 2 ** this.#failures);
    this.#tell("reconnecting", `Reconnecting, try ${this.#failures}`);
    await this.#sleep(most / 2 + (Math.random() * most) / 2, signal);
  }

  #sleep(forMs, signal) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, forMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
      signal.addEventListener("abort", this.#wake, { once: true });
    });
  }

  #tell(name, words) {
    this.#options.onState({ name, words, by: this.#polls ? "poll" : "stream" });
  }
}
