/*
 * A virtual list: only visible rows are in the page. All rows have the same height. An item keeps its
 * element while it is visible, so new rows at the top only move the others. Draws at most once a frame, ten times a second.
 */

import { attribute, h } from "../dom.js";

const BEYOND = 6;
/* Rows drawn above and below the visible ones. */
const PAUSE_MS = 100;
const HEAD = 33;
/* The height of the fixed column titles. */
let lists = 0;

/**
 * @typedef {{length: number, at: (index: number) => any, keyOf: (item: any) => any}} Items  in display order
 */
export class Rows {
  #items;
  #columns;
  #draw;
  #open;
  #shown = new Map();
  #free = [];
  #body;
  #height;
  #active = null;
  #planned = false;
  #drawnAt = 0;
  #name = `rows-${++lists}`;
  #count = 0;

  /** `columns` are `[class, title]`; `draw(cells, item)` fills one row's cells; `open(item)` handles a click or Enter, `scrolled(isAtTop)` a change of the scroll position. */
  constructor({ items, columns, draw, open, label, height = 30, scrolled = () => {} }) {
    this.#items = items;
    this.#columns = columns;
    this.#draw = draw;
    this.#open = open;
    this.#height = height;
    this.#body = h("div", { class: "rows-body", role: "presentation" });
    const head = h("div", { class: "rows-row rows-head", role: "row", "aria-rowindex": 1 });
    head.append(...columns.map(([name, title]) => h("div", { class: `cell ${name}`, role: "columnheader" }, title)));
    const view = h("div", { class: "rows-view", role: "rowgroup" }, this.#body);
    this.element = h(
      "div",
      { class: "rows", role: "grid", tabindex: "0", "aria-label": label },
      h("div", { class: "rows-top", role: "rowgroup" }, head),
      view,
    );
    this.element.addEventListener("scroll", () => {
      this.#now();
      scrolled(this.isAtTop);
    });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.#watched = new ResizeObserver(() => this.#now());
    this.#watched.observe(this.element);
  }

  #watched;

  /** Whether the newest row is visible. */
  get isAtTop() {
    return this.element.scrollTop < this.#height / 2;
  }

  /** Stop drawing. */
  close() {
    this.#watched.disconnect();
  }

  /** Scroll to the first row. */
  toTop() {
    this.element.scrollTop = 0;
    this.changed();
  }

  /** `count` items were added at the top; a scrolled list keeps its visible rows. */
  grown(count) {
    if (!this.isAtTop) this.element.scrollTop += count * this.#height;
    this.changed();
  }

  /** The items have changed; schedule a redraw. */
  changed() {
    if (this.#planned) return;
    this.#planned = true;
    const wait = Math.max(0, PAUSE_MS - (performance.now() - this.#drawnAt));
    setTimeout(() => requestAnimationFrame(() => this.#now()), wait);
  }

  #now() {
    this.#planned = false;
    this.#drawnAt = performance.now();
    const { length } = this.#items;
    this.#body.style.height = `${length * this.#height}px`;
    attribute(this.element, "aria-rowcount", length + 1);
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.#height) - BEYOND);
    const last = Math.min(
      length,
      Math.ceil((this.element.scrollTop + this.element.clientHeight) / this.#height) + BEYOND,
    );
    const wanted = new Map();
    for (let index = first; index < last; index += 1) {
      const item = this.#items.at(index);
      wanted.set(this.#items.keyOf(item), [item, index]);
    }
    this.#release(wanted);
    for (const [key, [item, index]] of wanted) this.#place(key, item, index);
    while (this.#free.length > 0) this.#free.pop().element.remove();
  }

  #release(wanted) {
    for (const [key, row] of this.#shown) {
      if (wanted.has(key)) continue;
      this.#shown.delete(key);
      this.#free.push(row);
    }
  }

  #place(key, item, index) {
    const row = this.#shown.get(key) ?? this.#free.pop() ?? this.#made();
    this.#shown.set(key, row);
    if (row.item !== item) this.#draw(row.cells, item, row.element);
    row.item = item;
    if (row.index !== index) {
      row.index = index;
      row.element.style.transform = `translateY(${index * this.#height}px)`;
      row.element.setAttribute("aria-rowindex", index + 2);
    }
    const isActive = key === this.#active;
    row.element.classList.toggle("rows-active", isActive);
    row.element.setAttribute("aria-selected", isActive);
    if (isActive) this.element.setAttribute("aria-activedescendant", row.element.id);
  }

  #made() {
    const cells = this.#columns.map(([name]) => h("div", { class: `cell ${name}`, role: "gridcell" }));
    const row = { cells, item: null, index: -1 };
    row.element = h(
      "div",
      {
        class: "rows-row",
        role: "row",
        id: `${this.#name}-${++this.#count}`,
        onclick: () => this.#chosen(row.item),
      },
      cells,
    );
    this.#body.append(row.element);
    return row;
  }

  #chosen(item) {
    this.#active = this.#items.keyOf(item);
    this.#open(item);
    this.#now();
  }

  #key(event) {
    if (event.target !== this.element) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - HEAD) / this.#height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.#move(steps[event.key]);
    else if (event.key === "Enter" && this.#index() >= 0) this.#open(this.#items.at(this.#index()));
    else return;
    event.preventDefault();
  }

  #index() {
    const row = this.#shown.get(this.#active);
    if (row) return row.index;
    for (let index = 0; index < this.#items.length; index += 1) {
      if (this.#items.keyOf(this.#items.at(index)) === this.#active) return index;
    }
    return -1;
  }

  #move(step) {
    if (this.#items.length === 0) return;
    const index = Math.min(this.#items.length - 1, Math.max(0, this.#index() + step));
    this.#active = this.#items.keyOf(this.#items.at(index));
    const top = index * this.#height;
    const { scrollTop } = this.element;
    const seen = this.element.clientHeight - HEAD;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.#height > scrollTop + seen) this.element.scrollTop = top + this.#height - seen;
    this.#now();
  }
}
