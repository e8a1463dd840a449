/* The details of an object: facts, result, logs, nodes or jobs, depending on its collection. */

import { h } from "../dom.js";
import { share } from "../fold.js";
import { jsonBlock, number, plural } from "../format.js";
import { badge } from "../states.js";
import { ago, day, duration, ms, msOfId, whole } from "../time.js";
import { facts, objectLink } from "./event.js";

const LOGS = 1000;
const OWN = [
  "eventId",
  "logs",
  "durationS",
  "logCount",
  "jobs",
  "nodes",
  "out_of_order",
  "TYPE",
  "params",
  "props",
  "result",
  "redirects",
  "data",
  "timestamp",
];

const FAILED_NODES = ["nacked", "failed", "crashed", "timed_out", "aborted"];

/** Name of the state, and the result if there is one, as in lists. */
export function stateOf(collection, state) {
  if (collection === "pushJob") return [state.status, failedNodes(state) ? "failure" : null];
  if (collection === "order") return orderState(state);
  if (collection === "jobset") return [state.state, jobsetResult(state)];
  if (collection === "task")
    return [state.state, state.returnCode === undefined ? null : state.returnCode === 0 ? "success" : "failure"];
  const result = state.result ? (state.result.success === "1" ? "success" : "failure") : null;
  return [state.state ?? state.fileBasedState, result];
}

/** How many nodes failed or refused to run, in words; empty if none did. */
export function failedNodes({ nodes, node_count: count }) {
  const failed = FAILED_NODES.reduce((sum, name) => sum + (nodes?.[name]?.length ?? 0), 0);
  return failed ? `${number(failed)} of ${plural(Math.max(count ?? 0, failed), "node")} failed or refused` : "";
}

function orderState({ obstacles, orderProcessingState: processing, finishedAt, lastTransition }) {
  if (obstacles?.length) return [obstacles[0].TYPE, null];
  const isOver = finishedAt !== undefined && processing?.TYPE === "NotPlanned";
  return [processing?.TYPE, isOver ? (lastTransition === "Error" ? "failure" : "success") : null];
}

function jobsetResult({ state, finishedAt, jobs, failed }) {
  if (state !== "finished" || finishedAt === undefined) return null;
  const isGood = jobs ? jobs.every((job) => job.success === "1") : !failed;
  return isGood ? "success" : "failure";
}

const SPECIAL = { job: logsCard, jobset: jobsCard, pushJob: nodesCard };

export function details(collection, state) {
  return [
    h(
      "div",
      { class: "cards" },
      factsCard(state),
      h("div", { class: "stack" }, resultCard(state), SPECIAL[collection]?.(state)),
    ),
    state.out_of_order?.length
      ? card(
          "Out of order",
          h(
            "ul",
            {},
            state.out_of_order.map((one) =>
              h("li", {}, `${one.event}${one.node ? ` of ${one.node}` : ""}: ${one.reason}`),
            ),
          ),
        )
      : null,
    h(
      "details",
      { class: "card raw" },
      h("summary", {}, "The whole object as JSON"),
      jsonBlock(state, "The object as JSON"),
    ),
  ];
}

const card = (title, ...content) => h("section", { class: "card", "aria-label": title }, h("h2", {}, title), content);

function factsCard(state) {
  const plain = Object.entries(state).filter(([name]) => !OWN.includes(name));
  const json = ["params", "props", "data"].filter((name) => state[name] && Object.keys(state[name]).length);
  return card(
    "Facts",
    facts([
      ...plain.map(([name, value]) => [title(name), shown(name, value)]),
      ["As of", `${whole(msOfId(state.eventId))}`],
    ]),
    json.map((name) => [h("h3", { class: "card-part" }, title(name)), jsonBlock(state[name], name)]),
  );
}

function shown(name, value) {
  if (value === null || value === undefined) return null;
  if (name === "jobset") return h("a", { href: objectLink("jobset", `/${value}`) }, `/${value}`);
  if (name === "jobChainPath") return h("a", { href: objectLink("jobChain", value) }, value);
  if (name === "seconds") return duration(value);
  if (name === "progress" && share(value) !== null) return String(value);
  if (typeof value === "string" && /(At|_at)$/.test(name)) return `${whole(ms(value))} (${ago(ms(value))})`;
  if (typeof value === "object") return value.TYPE ? Object.values(value).join(", ") : JSON.stringify(value);
  return typeof value === "number" && name !== "id" ? number(value) : String(value);
}

function resultCard({ result }) {
  if (!result) return null;
  const isGood = result.success === "1";
  return card(
    "Result",
    h(
      "p",
      { class: "result" },
      badge(isGood ? "success" : "failure"),
      h("span", { class: "result-words" }, result.message ?? ""),
    ),
    result.data === undefined ? null : jsonBlock(result.data, "Result"),
  );
}

function nodesCard({ nodes, node_count: count }) {
  const states = Object.entries(nodes ?? {});
  const known = states.reduce((sum, [, names]) => sum + names.length, 0);
  const silent = Math.max(0, (count ?? known) - known);
  return card(
    "Nodes",
    states.map(([state, names]) =>
      h(
        "div",
        { class: "nodes" },
        h("div", { class: "nodes-head" }, badge(state), h("strong", {}, number(names.length))),
        h(
          "ul",
          {},
          names.map((name) => h("li", { class: "mono" }, name)),
        ),
      ),
    ),
    silent ? h("p", { class: "hint" }, `${number(silent)} of ${number(count)} nodes have not reported yet.`) : null,
  );
}

function jobsCard({ jobs, total, finished }) {
  if (!jobs) return card("Jobs", h("p", {}, "The set has too many jobs to list them."));
  const heads = ["State", "Job", "Type", "Node", "Message"].map((name) => h("th", { scope: "col" }, name));
  const row = (job) =>
    h(
      "tr",
      {},
      h(
        "td",
        {},
        badge(job.state ?? "planned", job.success === undefined ? null : job.success === "1" ? "success" : "failure"),
      ),
      h(
        "td",
        { class: "mono short" },
        job.id === undefined ? "not yet" : h("a", { href: objectLink("job", `/${job.id}`) }, `/${job.id}`),
      ),
      h("td", {}, job.type),
      h("td", { class: "short" }, job.node),
      h("td", {}, job.message ?? job.progress ?? ""),
    );
  const head = `Jobs: ${number(finished ?? 0)} of ${number(total ?? jobs.length)} finished`;
  return card(
    head,
    h(
      "div",
      { class: "table-frame" },
      h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, jobs.map(row))),
    ),
  );
}

function logsCard({ logs, logCount }) {
  if (!logs?.length) return null;
  const line = (log) =>
    h(
      "tr",
      {},
      h("td", { class: "mono log-time" }, Number.isFinite(log.time) ? day(log.time * 1000) : ""),
      h("td", {}, String(log.level ?? "")),
      h("td", { class: "mono short" }, log.tag ?? ""),
      h("td", { class: "mono log-words" }, log.message ?? ""),
    );
  const cut =
    logs.length > LOGS ? h("p", { class: "hint" }, `The last ${number(LOGS)} of ${number(logCount)} entries.`) : null;
  const heads = ["Time", "Level", "Tag", "Message"].map((name) => h("th", { scope: "col" }, name));
  return card(
    "Logs",
    h(
      "div",
      { class: "table-frame logs", tabindex: "0", role: "group", "aria-label": "Logs" },
      h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, logs.slice(-LOGS).map(line))),
    ),
    cut,
  );
}

function title(name) {
  if (name === "seconds") return "Took";
  const words = name.replace(/_/g, " ").replace(/([a-z])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`);
  return words[0].toUpperCase() + words.slice(1);
}
