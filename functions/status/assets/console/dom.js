// Elements, made without markup: what comes from the API becomes text nodes alone.

const SVG = "http://www.w3.org/2000/svg";
const OF_SVG = new Set(["svg", "polyline", "line"]);
// Attributes give these their first value only.
const PROPERTIES = new Set(["checked", "disabled", "open", "selected", "value"]);

// Makes an element: `h("p.note", {id: "one", onclick}, "text", child)`.
export function h(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = OF_SVG.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  append(element, children);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (PROPERTIES.has(key)) element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  return element;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
}

export function append(element, ...children) {
  element.append(...present(children));
}

// Replaces what an element has. The focus stays on the element with the same `data-key`.
export function swap(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const opened = new Set([...element.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key));
  element.replaceChildren(...present(children));
  for (const each of element.querySelectorAll("[data-key]")) {
    if (each.dataset.key === focused) each.focus({ preventScroll: true });
    if (opened.has(each.dataset.key) && each.matches("details")) each.open = true;
  }
}

let ids = 0;
export function newId() {
  ids += 1;
  return `n${ids}`;
}
