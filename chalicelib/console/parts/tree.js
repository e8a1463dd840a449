/* The tree of collections, with the folders of the open one and their object counts. */

import { h } from "../dom.js";
import { number } from "../format.js";
import { icon } from "../icons.js";
import { link } from "../router.js";

const JOB = {
  vocabulary: "job",
  event: { event: "create", node: "n1", id: 1, type: "backup", params: {}, props: { author: "anna" } },
};
const JOBSET = {
  vocabulary: "job",
  event: {
    event: "createJobSet",
    node: "n1",
    id: 1,
    props: {},
    jobs: [{ node: "n1", type: "backup", params: {}, props: {} }],
  },
};
const PUSH = {
  vocabulary: "push",
  event: { event: "start", job: "j1", command: "chef-client", run_timeout: 60, node_count: 1, user: "anna" },
};
const scheduler = (event) => ({ vocabulary: "scheduler", event });

/** Name, title, group and an example event of each collection. */
export const COLLECTIONS = [
  ["job", "Jobs", "Jobs", JOB],
  ["jobset", "Job sets", "Jobs", JOBSET],
  ["pushJob", "Push jobs", "Push jobs", PUSH],
  ["order", "Orders", "JobScheduler", scheduler({ TYPE: "OrderAdded", key: "/shop/checkout,1", nodeId: "100" })],
  [
    "jobChain",
    "Job chains",
    "JobScheduler",
    scheduler({ TYPE: "JobChainStateChanged", key: "/shop/checkout", state: "running" }),
  ],
  ["schedulerJob", "Jobs", "JobScheduler", scheduler({ TYPE: "JobStateChanged", key: "/shop/pay", state: "pending" })],
  ["task", "Tasks", "JobScheduler", scheduler({ TYPE: "TaskStarted", key: { jobPath: "/shop/pay", taskId: "1" } })],
  ["fileBased", "Files", "JobScheduler", scheduler({ TYPE: "FileBasedActivated", key: "JobChain:/shop/checkout" })],
  ["scheduler", "Scheduler", "JobScheduler", scheduler({ TYPE: "SchedulerStateChanged", state: "running" })],
];
/** The title of a collection. */
export const titleOf = (collection) => COLLECTIONS.find(([name]) => name === collection)[1];

const WITH_FOLDERS = ["order", "jobChain", "schedulerJob", "task", "fileBased"];

/** The folders of paths, as a tree of `{name, path, count, folders}`. */
export function folders(collection, objects) {
  const root = { path: "/", count: 0, folders: new Map() };
  if (!WITH_FOLDERS.includes(collection)) return [];
  for (const { path } of objects) {
    const parts = path.split("/").slice(1, -1);
    let place = root;
    for (const name of parts) {
      if (!place.folders.has(name))
        place.folders.set(name, { name, path: `${place.path}${name}/`, count: 0, folders: new Map() });
      place = place.folders.get(name);
      place.count += 1;
    }
  }
  return [...root.folders.values()];
}

/** The links; `open` is the collection, `folder` the selected folder. If the list is cut, the counts are lower bounds. */
export function tree(open, folder, found, isCut = false) {
  const groups = [...new Set(COLLECTIONS.map(([, , group]) => group))];
  return groups.map((group) => [
    h("h2", { class: "tree-group" }, group),
    h(
      "ul",
      {},
      COLLECTIONS.filter((one) => one[2] === group).map(([name, title]) =>
        collection(name, title, open, folder, found, isCut),
      ),
    ),
  ]);
}

function collection(name, title, open, folder, found, isCut) {
  const isOpen = name === open;
  const current = isOpen && folder === "" ? "page" : null;
  return h(
    "li",
    {},
    h("a", { class: "tree-link", href: link("objects", [name]), "aria-current": current }, title),
    isOpen && found.length ? h("ul", {}, branch(name, folder, found, isCut)) : null,
  );
}

function branch(name, folder, found, isCut) {
  return found
    .sort((a, b) => a.path.localeCompare(b.path))
    .map((one) =>
      h(
        "li",
        {},
        h(
          "a",
          {
            class: "tree-link",
            href: link("objects", [name], { folder: one.path }),
            "aria-current": folder === one.path ? "page" : null,
          },
          icon("folder", 14),
          h("span", { class: "tree-name" }, one.name),
          h("span", { class: "tree-count" }, `${number(one.count)}${isCut ? "+" : ""}`),
        ),
        one.folders.size ? h("ul", {}, branch(name, folder, [...one.folders.values()], isCut)) : null,
      ),
    );
}
