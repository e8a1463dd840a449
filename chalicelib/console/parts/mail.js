/*
 * Shows a mail in a sandboxed frame. The frame inherits the page's CSP, which forbids inline styles, but mails use only
 * inline styles. Therefore style attributes are renamed before the frame parses them, and set by script afterwards, which the
 * CSP allows. A style that the renaming misses is not applied; it cannot execute anything.
 */

import { h } from "../dom.js";

const SHEET = /<style\b[^>]*>([\s\S]*?)<\/style\s*>/gi;
const STYLED = /(<[a-z][^<>]*?\s)style(\s*=)/gi;

/** A frame with the mail, without scripts, forms or external requests. */
export function mailFrame(html) {
  const sheets = [...html.matchAll(SHEET)].map(([, written]) => written);
  const bare = html.replace(SHEET, "").replace(STYLED, "$1data-style$2");
  const frame = h("iframe", {
    class: "mail-frame",
    title: "The message as HTML",
    sandbox: "allow-same-origin",
    srcdoc: bare,
  });
  frame.addEventListener("load", () => dress(frame, sheets));
  return frame;
}

function dress(frame, sheets) {
  const page = frame.contentDocument;
  if (page === null) return;
  for (const one of page.querySelectorAll("[data-style]")) one.style.cssText = one.getAttribute("data-style");
  page.adoptedStyleSheets = sheets.map((written) => {
    const sheet = new frame.contentWindow.CSSStyleSheet();
    sheet.replaceSync(written);
    return sheet;
  });
  page.documentElement.style.colorScheme = "light";
  page.documentElement.style.background = "white";
  frame.style.height = `${Math.min(640, page.documentElement.scrollHeight + 4)}px`;
}
