// Small tools around the document. Text of users goes in as text, never as markup.

import { NONE } from "./format.js";

/** Make an element; properties are attributes, children are elements or texts. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Set a text, if it is another one: what has not changed is not touched. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** The children of `parent` become one element an item; elements are kept by key, and updated in place. */
export function keep(parent, items, key, create, update) {
  const before = parent.kept ?? new Map();
  const after = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    let name = String(key(item));
    while (after.has(name)) name += "+"; // two of the same key
    const element = before.get(name) ?? create(item);
    update(element, item);
    after.set(name, element);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const [name, element] of before) if (!after.has(name)) element.remove();
  parent.kept = after;
}

/** Fill a table: `columns` are {head, text, number, cell}; rows are kept by key. On a phone cells have their heads. */
export function fillTable(table, columns, items, key, nothing) {
  if (!table.tBodies.length) {
    const head = make("tr");
    for (const column of columns) {
      head.append(make("th", { scope: "col", class: column.number ? "number" : null, title: column.about }, column.head));
    }
    table.append(make("thead", {}, head), make("tbody"));
  }
  if (!table.note) {
    table.note = make("p", { class: "empty" }, nothing);
    table.after(table.note);
  }
  table.note.hidden = items.length > 0;
  table.hidden = items.length === 0;
  const create = () => make("tr", {}, ...columns.map((c) => make("td", { class: c.number ? "number" : c.wrap ? "text" : null, "data-head": c.head })));
  keep(table.tBodies[0], items, key, create, (row, item) => {
    columns.forEach((column, index) => {
      if (column.cell) column.cell(row.cells[index], item);
      else say(row.cells[index], column.text(item));
      row.cells[index].toggleAttribute("data-none", row.cells[index].textContent === NONE);
    });
  });
}

/** A bar beside a text, for shares from 0 to 1. */
export function bar(cell, share, text, tone) {
  if (!cell.inner) {
    cell.inner = make("i");
    cell.words = make("span");
    cell.outer = make("span", { class: "bar", "aria-hidden": "true" }, cell.inner);
    cell.append(cell.outer, cell.words);
  }
  const width = `scaleX(${Math.max(0, Math.min(1, share || 0)).toFixed(3)})`;
  if (cell.inner.style.transform !== width) cell.inner.style.transform = width;
  mark(cell.outer, "data-tone", tone ?? "");
  say(cell.words, text);
}

const watched = new WeakMap();
const observer = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    const known = watched.get(target);
    if (!known) continue;
    known.seen = isIntersecting;
    if (isIntersecting) known.draw();
  }
});

/** Pictures that nobody can see are not drawn: `draw` is called when the element comes into view. */
export function watch(element, draw) {
  watched.set(element, { seen: false, draw });
  observer.observe(element);
}

export const inView = (element) => watched.get(element)?.seen ?? true;
