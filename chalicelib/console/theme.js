/* The theme, before anything is drawn: what the visitor chose here, else what their system prefers. */
"use strict";

(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("annals.theme");
  } catch {
    // A browser that keeps nothing still has a system theme.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
