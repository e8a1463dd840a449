/*
 * Folds an event into an object summary, as the server would list it. Only the fields of a list are folded. If the object's
 * history is unknown the result is undefined, and the caller reloads the list.
 */

import { ms } from "./time.js";

const ORDERS = {
  OrderAdded: "NotPlanned",
  OrderStarted: "WaitingForResource",
  OrderWaitingInTask: "WaitingInTask",
  OrderStepStarted: "InTaskProcess",
  OrderStepEnded: "WaitingForResource",
  OrderSetBack: "Setback",
  OrderFinished: "NotPlanned",
  OrderSuspended: "Suspended",
};
const ENDED = ["finished", "cleaned", "ended", "closed", "complete", "quorum_failed", "timed_out", "crashed", "aborted"];
const VOTES_OVER = ["quorum_succeeded", "run_start", "run_complete"];

/** The object after `event`: changed, null if removed, undefined if it must be reloaded. */
export function fold(collection, path, object, event) {
  const foldOne = FOLDS[collection];
  const change = foldOne?.(object, event, event.payload?.data ?? {});
  if (change === null || change === undefined) return change;
  return {
    path,
    key: event.key,
    label: null,
    result: null,
    progress: null,
    parent: null,
    createdAt: event.timestamp,
    ...object,
    ...change,
    updatedAt: event.timestamp,
  };
}

const FOLDS = {
  job: (object, event, data) => {
    const name = event.type[1];
    if (!object)
      return name === "create" ? { state: "created", label: labelOf(event), parent: parentOf(data) } : undefined;
    if (name === "finish")
      return { state: "finished", result: data.success === "1" ? "success" : "failure", progress: null };
    if (name === "clean") return { state: "cleaned", result: "timeout", progress: null };
    if (name === "progress" && ["finished", "cleaned"].includes(object.state)) return {}; // late: the run stays ended
    if (name === "progress")
      return { state: data.state ?? object.state, progress: share(data.progress) ?? object.progress };
    return name === "redirect" || name === "create" ? undefined : {};
  },
  jobset: (object, event, data) => {
    const name = event.type[1];
    if (event.type[0] !== "jobset") return undefined;
    if (!object) return undefined;
    if (name === "finishJobSet") return data.jobs?.length ? endOfSet(data.jobs) : undefined;
    if (name === "cleanJobSet") return { state: "cleaned" };
    if (name === "progressJobSet" && ["finished", "cleaned"].includes(object.state)) return {};
    return name === "progressJobSet"
      ? { state: data.state ?? object.state, progress: share(data.progress) ?? object.progress }
      : undefined;
  },
  order: (object, event, data) => {
    const name = event.type.at(-1);
    const [chain, id] = event.key.split(/,(.*)/s);
    const place = data.nodeId ? { label: `${id} at ${data.nodeId}` } : {};
    if (name === "OrderRemoved") return null;
    if (name === "OrderResumed" || (!object && name !== "OrderAdded")) return undefined;
    if (!object) return { state: ORDERS[name], parent: chain, createdAt: null, ...place };
    if (name === "OrderFinished" && object.lastStep === undefined) return undefined;
    const result = name === "OrderFinished" ? object.lastStep : null;
    const lastStep = data.nodeTransition ? (data.nodeTransition.TYPE === "Error" ? "failure" : "success") : object.lastStep;
    return name in ORDERS && object.state !== "Suspended"
      ? { state: ORDERS[name], result, lastStep, ...place }
      : { lastStep, ...place };
  },
  task: (object, event, data) => {
    const name = event.type.at(-1);
    if (name === "TaskStarted") {
      const [, path, id] = /^(.*):([^:]*)$/s.exec(event.key);
      return { state: "running", label: `task ${id} of ${path.split("/").at(-1)}`, parent: path };
    }
    if (!object) return undefined;
    if (name === "TaskEnded") return { state: "ended", result: data.returnCode === 0 ? "success" : "failure" };
    return { state: "closed" };
  },
  pushJob: (object, event, data) => {
    const name = event.type[1];
    if (name === "start" && !object) return { state: "voting", label: data.command ?? null };
    if (!object) return undefined;
    // The summary does not tell whether nodes failed.
    if (name === "job_complete") return data.status === "complete" ? undefined : { state: data.status, result: "failure" };
    return VOTES_OVER.includes(name) && object.state === "voting" ? { state: "running" } : {};
  },
};

/** 0.66 for "66%", 0.5 for "1/2", null for anything else. */
export function share(progress) {
  if (typeof progress === "number") return progress <= 1 ? progress : progress / 100;
  const percent = /^(\d+(?:\.\d+)?)\s*%$/.exec(progress ?? "");
  if (percent) return Number(percent[1]) / 100;
  const part = /^(\d+)\s*\/\s*(\d+)$/.exec(progress ?? "");
  return part && Number(part[2]) > 0 ? Number(part[1]) / Number(part[2]) : null;
}

/** Seconds from the object's first event to its last, or to `now` while it is active. */
export function seconds(object, now) {
  const end = object.result !== null || ENDED.includes(object.state) ? ms(object.updatedAt) : now;
  return (end - ms(object.createdAt)) / 1000;
}

function endOfSet(jobs) {
  const result = jobs.every((job) => job.success === "1") ? "success" : "failure";
  return { state: "finished", result, progress: null };
}

function labelOf({ type: [, , node, jobType] }) {
  return jobType ? `${jobType} on ${node}` : (node ?? null);
}

function parentOf(data) {
  return data.jobset === undefined ? null : `/jobset/${data.jobset}`;
}
