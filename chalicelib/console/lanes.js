/*
 * The lanes of a timeline: the states of an object, its nodes or its jobs over time. A span lasts until the
 * next change, the last one until `end`.
 */

import { msOfId } from "./time.js";

const ORDERS = {
  OrderAdded: "added",
  OrderStarted: "started",
  OrderStepStarted: "InTaskProcess",
  OrderStepEnded: "WaitingForResource",
  OrderWaitingInTask: "WaitingInTask",
  OrderSetBack: "Setback",
  OrderSuspended: "suspended",
  OrderResumed: "started",
  OrderFinished: "finished",
  OrderRemoved: "removed",
};
const TASKS = { TaskStarted: "running", TaskEnded: "ended", TaskClosed: "closed" };
const VOTES = { success: "ready", failure: "nacked" };
const RUNS = { success: "succeeded", crashed: "crashed" };
const OVER = [
  "finished",
  "cleaned",
  "closed",
  "removed",
  "ended",
  "complete",
  "quorum_failed",
  "timed_out",
  "crashed",
  "aborted",
  "succeeded",
  "failed",
  "nacked",
];

/** @typedef {{name: string, link?: string[], spans: {from: number, to: number, state: string, result: string|null}[], marks: {at: number, words: string}[]}} Lane */

/** The lanes of an object; open spans are drawn until `end`. */
export function lanesOf(collection, events, end) {
  if (collection === "job") return jobLanes(events, end);
  if (collection === "jobset") return jobsetLanes(events, end);
  if (collection === "pushJob") return pushLanes(events, end);
  if (collection === "order")
    return [lane("State", events, orderChanges(), end), lane("Node", events, orderNode, end)].filter(
      (one) => one.spans.length,
    );
  if (collection === "task") return [lane("State", events, taskChange, end)];
  return [lane("State", events, namedChange, end)];
}

/** Whether the object has ended. */
export const isOver = (lanes) => lanes.length > 0 && OVER.includes(lanes[0].spans.at(-1)?.state);

function lane(name, events, change, end, extra = {}) {
  const spans = [];
  for (const event of events) {
    const found = change(event);
    if (!found) continue;
    const at = msOfId(event.eventId);
    const last = spans.at(-1);
    if (last) last.to = at;
    if (last?.state === found.state) continue;
    spans.push({ from: at, to: at, result: null, ...found });
  }
  const last = spans.at(-1);
  if (last && !OVER.includes(last.state)) last.to = Math.max(end, last.from);
  return { name, spans, marks: [], ...extra };
}

function jobChange({ type, payload }) {
  const data = payload?.data ?? {};
  const name = type[1];
  if (name === "create") return { state: "created" };
  if (name === "finish") return { state: "finished", result: data.success === "1" ? "success" : "failure" };
  if (name === "clean") return { state: "cleaned" };
  return name === "progress" && data.state ? { state: data.state } : null;
}

function jobLanes(events, end) {
  const state = lane("State", events, jobChange, end);
  const logs = events.filter((event) => event.payload?.data?.log);
  const marks = logs.map((event) => ({ at: msOfId(event.eventId), words: event.payload.data.log.message ?? "log" }));
  const moved = events.some((event) => event.type[1] === "redirect");
  const node = lane("Node", events, (event) => nodeChange(event), end);
  return [state, ...(moved ? [node] : []), ...(marks.length ? [{ name: "Log", spans: [], marks }] : [])];
}

function nodeChange({ type, payload }) {
  if (type[1] === "create") return { state: type[2] };
  return type[1] === "redirect" ? { state: payload?.data?.redirect ?? type[2] } : null;
}

function jobsetLanes(events, end) {
  const jobs = Map.groupBy(
    events.filter((event) => event.type[0] === "job"),
    (event) => event.key,
  );
  const own = lane(
    "Job set",
    events.filter((event) => event.type[0] === "jobset"),
    jobsetChange,
    end,
  );
  const bars = [...jobs].map(([key, ofJob]) =>
    lane(`${ofJob[0].type[3] ?? "job"} ${key.slice(5)}`, ofJob, jobChange, end, { object: ["job", key.slice(4)] }),
  );
  return [own, ...bars];
}

function jobsetChange({ type, payload }) {
  const known = { createJobSet: "created", finishJobSet: "finished", cleanJobSet: "cleaned" };
  const state = known[type[1]] ?? payload?.data?.state;
  const jobs = (type[1] === "finishJobSet" && payload?.data?.jobs) || [];
  const result = jobs.length ? (jobs.every((job) => job.success === "1") ? "success" : "failure") : null;
  return state ? { state, result } : null;
}

function pushLanes(events, end) {
  const nodes = [...new Set(events.map((event) => event.payload?.data?.node).filter(Boolean))].sort();
  const over = events.find((event) => event.type[1] === "job_complete");
  const until = over ? msOfId(over.eventId) : end;
  const ofNode = (node) => events.filter((event) => event.payload?.data?.node === node);
  return [lane("Job", events, pushChange, end), ...nodes.map((node) => lane(node, ofNode(node), nodeRun, until))];
}

function pushChange({ type, payload }) {
  const known = { start: "voting", quorum_succeeded: "running" };
  const state = type[1] === "job_complete" ? payload?.data?.status : known[type[1]];
  return state ? { state } : null;
}

function nodeRun({ type, payload }) {
  const status = payload?.data?.status;
  if (type[1] === "quorum_vote") return { state: VOTES[status] ?? "unavailable" };
  if (type[1] === "run_start") return { state: "running" };
  if (type[1] === "run_complete") return { state: RUNS[status] ?? "failed" };
  return type[1] === "rehab" ? { state: "unavailable" } : null;
}

/** An order has failed if its last step before the end was an error. */
function orderChanges() {
  let last = "success";
  return ({ type, payload }) => {
    const transition = payload?.data?.nodeTransition?.TYPE;
    if (transition) last = transition === "Error" ? "failure" : "success";
    const state = ORDERS[type.at(-1)];
    return state ? { state, result: state === "finished" ? last : null } : null;
  };
}

const orderNode = ({ payload }) => (payload?.data?.nodeId ? { state: payload.data.nodeId } : null);
const taskChange = ({ type, payload }) =>
  TASKS[type.at(-1)] ? { state: TASKS[type.at(-1)], result: payload?.data?.returnCode ? "failure" : null } : null;
const namedChange = ({ type, payload }) => ({ state: payload?.data?.state ?? type.at(-1) });
