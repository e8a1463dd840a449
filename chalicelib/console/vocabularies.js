/* The vocabularies: which types belong to which, and the object of an event. */

/** Each vocabulary with its type patterns. */
export const VOCABULARIES = [
  ["job", "Jobs", ["job/*", "jobset/*"]],
  ["scheduler", "JobScheduler", ["scheduler/*"]],
  ["push", "Push jobs", ["push/*"]],
];

const FAMILIES = { OrderEvent: "order", JobChainEvent: "jobChain", JobEvent: "schedulerJob", TaskEvent: "task" };

/** The vocabulary of a type, or "other". */
export function vocabularyOf(type) {
  if (type[0] === "jobset") return "job";
  return VOCABULARIES.some(([name]) => name === type[0]) ? type[0] : "other";
}

/** The object of an event, `[collection, path]`, or null. */
export function objectOf({ type, key }) {
  const [root, family] = type;
  if (root === "scheduler" && family === "SchedulerEvent") return ["scheduler", "/scheduler"];
  if (!key) return null;
  if ((root === "job" || root === "jobset") && key.startsWith(`/${root}/`)) return [root, key.slice(root.length + 1)];
  if (root === "push" && key.startsWith("/push/")) return ["pushJob", key.slice(5)];
  if (root !== "scheduler") return null;
  if (family === "FileBasedEvent") {
    const [kind, path] = key.split(/:(.*)/s);
    return ["fileBased", `${path}:${kind}`];
  }
  return family in FAMILIES ? [FAMILIES[family], key] : null;
}

const KINDS = { order: "Order", jobChain: "JobChain", schedulerJob: "Job" };

/** The query for the events of an object: by key, or by type if they have no key. */
export function eventsOf(collection, path) {
  if (collection === "scheduler") return { types: ["scheduler/SchedulerEvent/*"] };
  if (collection === "pushJob") return { keys: [`/push${path}`] };
  if (collection === "job" || collection === "jobset") return { keys: [`/${collection}${path}`] };
  if (collection === "fileBased") {
    const [, file, kind] = /^(.*):([^:]*)$/s.exec(path) ?? [path, path, ""];
    return { keys: [`${kind}:${file}`] };
  }
  return { keys: collection in KINDS ? [path, `${KINDS[collection]}:${path}`] : [path] };
}
