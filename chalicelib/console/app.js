/*
 * The console shows one view at a time, chosen by the address. A view is a function of the route. It returns an element, a
 * title, and a close function.
 */

import { Problem, get, post } from "./api.js";
import { h, put } from "./dom.js";
import { announce, emptyNote, problemNote, waiting } from "./parts/notes.js";
import { statusOf } from "./parts/status.js";
import { PAGES, here, link } from "./router.js";
import * as session from "./session.js";
import { shell } from "./shell.js";
import { listen } from "./shortcuts.js";
import { signIn } from "./views/signin.js";

const VIEWS = {
  live: () => import("./views/live.js"),
  objects: () => import("./views/objects.js"),
  observers: () => import("./views/observers.js"),
  reports: () => import("./views/reports.js"),
  system: () => import("./views/system.js"),
  api: () => import("./views/api.js"),
};

const root = document.getElementById("console");
let frame = null;
let open = null;
let turn = 0;

/** Show the view of the current address, or the sign-in page. */
async function show() {
  const mine = ++turn;
  open?.close?.();
  open = null;
  if (session.token() === null) return showSignIn();
  const place = here();
  if (session.follow(place.parameters.get("org"))) frame = null;
  const around = frame ?? (await entered(mine));
  if (around === null || mine !== turn) return;
  frame = around;
  frame.mark(place.page);
  put(frame.main, waiting("Loading"));
  const view = await made(place);
  if (mine !== turn) return view.close?.();
  open = view;
  document.title = `${view.title} · Annals`;
  put(frame.main, view.element);
  if (document.activeElement === document.body) frame.main.focus();
  view.shown?.();
}

/** Build the frame around all views for the signed-in user. */
async function entered(mine) {
  try {
    const me = await get("me");
    if (mine !== turn) return null;
    const chosen = session.organization();
    if (chosen !== null && !me.organizations.includes(chosen)) return showForeign(chosen, me);
    const made = shell(me);
    put(root, made.element);
    return made;
  } catch (problem) {
    if (mine === turn && session.token() !== null) showUnreachable(problem);
    return null;
  }
}

async function made(place) {
  try {
    if (!(place.page in VIEWS)) return noSuchPage();
    const module = await loaded(place.page);
    return await module.view(place);
  } catch (problem) {
    if (problem.status === 0) return unreachable(problem);
    return { title: "Problem", element: h("div", { class: "page" }, problemNote(problem, show)) };
  }
}

/** The module of a view. A module that cannot be loaded means that the server is unreachable. */
async function loaded(page) {
  try {
    return await VIEWS[page]();
  } catch {
    throw new Problem(0, "No connection", "The server cannot be reached. This page opens when the server is back.");
  }
}

function unreachable(problem) {
  const status = statusOf();
  status.show({ name: "reconnecting", words: "The server cannot be reached" });
  return {
    title: "No connection",
    element: h("div", { class: "page" }, problemNote(problem, show)),
    close: () => status.close(),
  };
}

function noSuchPage() {
  const pages = PAGES.map(([page, title]) => h("a", { class: "button", href: link(page) }, title));
  const words = `There is no page at ${location.hash}. Choose one of these:`;
  return {
    title: "No such page",
    element: h("div", { class: "page" }, emptyNote("No such page", words, h("div", { class: "choices" }, pages))),
  };
}

function showSignIn() {
  frame = null;
  document.title = "Sign in · Annals";
  put(root, signIn());
}

/** The address names an organization that the token does not permit. */
function showForeign(name, { organizations }) {
  const words = organizations.length ? `Your token permits ${organizations.join(", ")}.` : "Your token permits none.";
  const own = organizations.map((one) =>
    h("button", { class: "button", type: "button", onclick: () => session.choose(one) }, `Open ${one}`),
  );
  const other = h("button", { class: "button", type: "button", onclick: () => session.end() }, "Use another token");
  const note = h(
    "div",
    { class: "note note-problem", role: "alert" },
    h("div", {}, h("strong", {}, `This address belongs to the organization ${name}`), h("p", {}, words), own, " ", other),
  );
  put(root, h("main", { id: "main", class: "alone" }, note));
  return null;
}

function showUnreachable(problem) {
  put(root, h("main", { id: "main", class: "alone" }, problemNote(problem, show)));
}

async function enter() {
  const code = session.takeCode();
  if (code !== null) {
    try {
      session.begin((await post("sign-in", { code })).token);
      announce("Signed in");
    } catch (problem) {
      session.end();
      put(root, signIn(problem));
      return;
    }
  }
  show();
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#code=")) enter();
  else show();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash selects the page
  document.getElementById("main")?.focus();
});
session.onChange(() => {
  frame = null;
  show();
});
listen();
enter();
