/*
 * Elements. Data gets into the page only as text nodes and attribute values; nothing here parses markup,
 * so event data is displayed and never executed.
 */

const SVG = "http://www.w3.org/2000/svg";
const MARKS = ["id", "href", "data-state", "aria-label"];
/* Attributes that identify an element after a redraw. */

/** An HTML element: `h("p", {class: "note", onclick: f}, "text", child, [more])`. */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** An SVG element. */
export function s(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

/** Replace the children of `element`. */
export function put(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** Like `put`, but restores the focus. */
export function redraw(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const mark = MARKS.find((name) => focused?.hasAttribute(name));
  const value = mark && CSS.escape(focused.getAttribute(mark));
  put(element, ...children);
  if (mark) element.querySelector(`[${mark}="${value}"]`)?.focus();
  return element;
}

/** Set text only if it differs, because setting equal text still causes a layout. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** Set an attribute, or remove it if the value is false, null or undefined. */
export function attribute(element, name, value) {
  if (value === false || value === null || value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "style") styled(element, value);
    else if (name === "value" || name === "checked" || name === "srcdoc") element[name] = value;
    else attribute(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

/** The page's CSP forbids style attributes but not styles set by scripts. */
function styled(element, rules) {
  for (const [name, value] of Object.entries(rules)) element.style.setProperty(name, value);
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
