/*
 * A feed delivers every event after a position exactly once and in order, across reconnects. It streams server-sent events
 * over fetch, which can send the token. It resumes after the last event, and falls back to long polls where a proxy
 * buffers streams.
 */

import { Problem, address, send, serverNow } from "./api.js";
import { SseParser } from "./sse.js";

const SILENCE_MS = 40_000;
/* A stream sends a comment every 15 s, and a page ends after 25 s. After a longer silence the connection is dead. */
const MAX_BACKOFF_MS = 10_000;
const BEHIND_MS = 10_000;
const WORK_MS = 10;
/* Maximum time to process events before the page may draw. */
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
  #isConnected = false;

  /** `onEvents` receives lists of events, `onState` the connection state, `onTorn` the start of the log after a retention gap. */
  constructor({ parameters = {}, after, onEvents, onState = () => {}, onTorn = () => {} }) {
    this.#options = { onEvents, onState, onTorn };
    this.#parameters = parameters;
    this.#after = after;
  }

  /** The position of the last event. */
  get after() {
    return this.#after;
  }

  /** Start, or resume after `hold`. */
  start() {
    this.#isHeld = false;
    this.#isConnected = false;
    this.#abort = new AbortController();
    addEventListener("online", this.#hurry);
    addEventListener("offline", this.#breakOff);
    this.#run(this.#abort.signal);
    return this;
  }

  /** Close permanently. */
  stop() {
    removeEventListener("online", this.#hurry);
    removeEventListener("offline", this.#breakOff);
    clearTimeout(this.#caughtUp);
    this.#abort.abort();
  }

  /** Disconnect until `start`; the server keeps the events. */
  hold() {
    this.stop();
    this.#isHeld = true;
    this.#setState("held", "Paused");
  }

  #hurry = () => this.#wake?.();
  #breakOff = () => this.#connection.abort();

  async #run(signal) {
    this.#setState("connecting", "Connecting");
    while (!signal.aborted) {
      try {
        if (!this.#isConnected && !this.#polls) await this.#probe(signal);
        await (this.#polls ? this.#poll(signal) : this.#stream(signal));
      } catch (failure) {
        if (signal.aborted) return;
        if (failure instanceof Problem && !failure.isPassing) return this.#setState("refused", failure.message);
        await this.#pause(signal);
      }
    }
  }

  /** Without streaming, as on AWS, the first response takes as long as a page. A short request shows the connection at once. */
  async #probe(signal) {
    const connection = this.#opened(signal);
    const url = address("events", { ...this.#parameters, timeout: "0s", limit: 1, after: this.#after });
    await (await send(url, { headers: { Accept: "application/json" }, signal: connection.signal })).text();
    this.#connected();
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

  /** The first poll returns at once and proves that the server is reachable. */
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

  /** A signal that aborts when the feed closes or the browser goes offline. */
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

  /** Deliver new events. A response may repeat events from before a disconnect. */
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
    this.#setState("behind", `Catching up, ${Math.round(behind / 1000)} s behind`);
    this.#caughtUp = setTimeout(() => this.#connected(), SETTLED_MS);
  }

  #torn(eventId) {
    const before = this.#after;
    this.#after = Math.max(this.#after, eventId);
    this.#options.onTorn(before, eventId);
    this.#setState("torn", "Some events have been deleted by retention");
  }

  #connected() {
    this.#isConnected = true;
    this.#setState("connected", this.#polls ? "Connected, by long poll" : "Connected");
  }

  /** Exponential backoff with jitter. */
  async #pause(signal) {
    this.#failures += 1;
    this.#isConnected = false;
    const most = Math.min(MAX_BACKOFF_MS, 250 * 2 ** this.#failures);
    this.#setState("reconnecting", `Reconnecting, attempt ${this.#failures}`);
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

  #setState(name, words) {
    this.#options.onState({ name, words, by: this.#polls ? "poll" : "stream" });
  }
}
