/* Asks before an action that cannot be undone. */

import { h } from "../dom.js";

/** Whether the user confirms; `action` is the label of the button. */
export function confirmed(question, action) {
  return new Promise((resolve) => {
    const yes = h("button", { class: "button button-bad", type: "button", onclick: () => dialog.close("yes") }, action);
    const no = h("button", { class: "button", type: "button", onclick: () => dialog.close("no") }, "Cancel");
    const dialog = h(
      "dialog",
      { class: "dialog", "aria-label": "Are you sure?" },
      h("p", {}, question),
      h("div", { class: "dialog-buttons" }, no, yes),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
