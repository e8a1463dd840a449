/* The frame around all views: navigation, organization, feed status, user. */

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { statusPill } from "./parts/status.js";
import { PAGES, link } from "./router.js";
import * as session from "./session.js";
import { help } from "./shortcuts.js";

/** The frame for `me`: its element, its main part, and `mark` to highlight the open page. */
export function shell(me) {
  const links = PAGES.map(([page, title]) =>
    h("a", { href: link(page), class: "nav-link" }, icon(page, 18), h("span", {}, title)),
  );
  const main = h("main", { id: "main", tabindex: "-1" });
  const mark = (page) =>
    PAGES.forEach(([name], index) => {
      if (name === page) links[index].setAttribute("aria-current", "page");
      else links[index].removeAttribute("aria-current");
    });
  const element = h(
    "div",
    { class: "shell" },
    h(
      "header",
      { class: "bar" },
      h("a", { class: "brand", href: link("live") }, logo(), h("span", {}, "Annals")),
      organizations(me),
      h("div", { class: "bar-space" }),
      statusPill(),
      themeButton(),
      h(
        "button",
        {
          class: "icon-button wide-only",
          type: "button",
          title: "Shortcuts (?)",
          "aria-label": "Keyboard shortcuts",
          onclick: help,
        },
        icon("keyboard", 18),
      ),
      userInfo(me),
    ),
    h("nav", { class: "nav", "aria-label": "Pages" }, links),
    main,
  );
  return { element, main, mark };
}

function logo() {
  return h("img", { src: "console/icon.svg", width: 22, height: 22, alt: "" });
}

function organizations(me) {
  const chosen = session.organization() ?? me.organizations[0];
  if (me.organizations.length < 2) return h("span", { class: "org" }, chosen);
  const options = me.organizations.map((name) => h("option", { value: name, selected: name === chosen }, name));
  return h(
    "select",
    { class: "org", "aria-label": "Organization", onchange: (event) => session.choose(event.target.value) },
    options,
  );
}

function userInfo(me) {
  const title = `${me.user}: ${me.groups.join(", ")}`;
  return h(
    "div",
    { class: "user" },
    h("span", { class: "user-name wide-only", title }, me.user),
    h(
      "button",
      {
        class: "icon-button",
        type: "button",
        title: "Sign out",
        "aria-label": "Sign out",
        onclick: () => session.end(),
      },
      icon("out", 18),
    ),
  );
}

function themeButton() {
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const button = h("button", { class: "icon-button", type: "button" });
  const draw = () => {
    const other = isDark() ? "light" : "dark";
    button.replaceChildren(icon(isDark() ? "sun" : "moon", 18));
    button.title = `Use the ${other} theme`;
    button.setAttribute("aria-label", button.title);
  };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("annals.theme", theme);
    draw();
  });
  draw();
  return button;
}
