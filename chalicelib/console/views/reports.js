/* The Reports page: pages that Spark made from the history, each in a sandboxed frame. */

import { get, post } from "../api.js";
import { h, put } from "../dom.js";
import { icon } from "../icons.js";
import { command, emptyNote, problemNote, waiting } from "../parts/notes.js";
import { link } from "../router.js";
import { ago, ms, whole } from "../time.js";

/** The list, or one report. */
export function view({ rest }) {
  return rest[0] ? oneReport(rest[0]) : list();
}

function list() {
  const place = h("div", {}, waiting("Loading the reports"));
  const read = async () => {
    try {
      const { reports } = await get("reports");
      put(place, reports.length ? table(reports) : none());
    } catch (problem) {
      put(place, problemNote(problem, read));
    }
  };
  read();
  return {
    title: "Reports",
    element: h("div", { class: "page" }, h("div", { class: "page-head" }, h("h1", {}, "Reports")), place),
  };
}

function table(reports) {
  const heads = ["Report", "Created", "Up to event", ""].map((title) =>
    h("th", { scope: "col" }, title || h("span", { class: "hidden-label" }, "Open")),
  );
  const seen = new Set();
  const row = (report) => {
    const isLast = !seen.has(report.name);
    seen.add(report.name);
    const open = isLast
      ? h("a", { class: "button", href: link("reports", [report.name]) }, icon("open"), "Open")
      : h("span", { class: "hint" }, "replaced by a later one");
    return h(
      "tr",
      {},
      h("td", { class: "strong" }, report.name),
      h("td", {}, `${whole(ms(report.at))} (${ago(ms(report.at))})`),
      h("td", { class: "mono" }, report.eventId),
      h("td", {}, open),
    );
  };
  return h(
    "div",
    { class: "table-frame" },
    h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, reports.map(row))),
  );
}

function none() {
  return emptyNote(
    "No reports yet",
    "A report shows durations, failures and load over the whole history. Create one on the machine that runs the server:",
    command("make report", "Create a report"),
    h("p", { class: "hint" }, "On AWS reports are created on a schedule."),
  );
}

function oneReport(name) {
  const place = h("div", { class: "report-place" }, waiting("Opening the report"));
  const tab = h("span");
  const open = async () => {
    try {
      const address = new URL(
        (await post(`reports/${encodeURIComponent(name)}/link`)).link,
        location.href.split("#")[0],
      );
      if (!/^https?:$/.test(address.protocol))
        throw new Error(`The report is at ${address.href}, which is not a web address.`);
      put(
        tab,
        h(
          "a",
          { class: "button", href: address.href, target: "_blank", rel: "noopener noreferrer" },
          icon("open"),
          "Open in a new tab",
        ),
      );
      put(
        place,
        address.origin === location.origin
          ? framed(name, address)
          : h("p", { class: "note" }, `The report is at ${address.host}, which this page does not show in a frame.`),
      );
    } catch (problem) {
      put(place, problemNote(problem, open));
    }
  };
  open();
  const head = h("div", { class: "page-head" }, h("h1", {}, name), h("div", { class: "bar-space" }), tab);
  return {
    title: name,
    element: h(
      "div",
      { class: "page page-full" },
      h("nav", { class: "crumbs", "aria-label": "Where" }, h("a", { href: link("reports") }, "Reports")),
      head,
      place,
    ),
  };
}

function framed(name, address) {
  return h("iframe", {
    class: "report-frame",
    title: `The report ${name}`,
    sandbox: "allow-popups",
    src: address.href,
  });
}
