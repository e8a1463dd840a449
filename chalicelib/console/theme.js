/* Sets the theme before the first paint: the visitor's choice, else the system preference. */
"use strict";

(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("annals.theme");
  } catch {
    // Without local storage the system theme applies.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
