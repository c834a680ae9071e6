// A pair as people read it: two texts beside each other, or two records as a table, with differences marked.

import { make } from "/static/common.js";
import { difference, sameWords, valueDifference } from "/static/diff.js";

const LONG = 40; // characters; a longer value gets a line of its own on a narrow screen
const SIDES = ["left", "right"];

/** What differs, worked out once: [left, right] of the texts, or of each row of records. */
export function differences(pair) {
  pair.differences ??= pair.rows ? pair.rows.map(rowDifference) : difference(pair.left.text, pair.right.text);
  return pair.differences;
}

/** The elements of a pair. `marks`: show what differs; `heading`: of the keys above texts. */
export function drawPair(pair, marks, heading) {
  if (pair.rows) return [recordTable(pair, marks)];
  const sides = marks ? differences(pair) : SIDES.map((side) => [[pair[side].text, false]]);
  return SIDES.map((side, at) =>
    make("article", { class: "text" }, make(heading, {}, pair[side].key), make("p", {}, ...parts(sides[at]))));
}

const parts = (side) => side.map(([text, differs]) => (differs ? make("mark", {}, text) : text));

function rowDifference({ left, right }) {
  if (left && right) return valueDifference(left, right);
  return [left, right].map((value) => (value ? [[value, false]] : []));
}

/** null is a missing value, undefined no such column on that side. */
function kindOf({ left, right }) {
  if (!left && !right) return "empty";
  if (!left || !right) return "alone";
  return sameWords(left, right) ? "same" : "differs";
}

// Roles are said aloud: a table that is laid out as a grid on a phone is no table to some screen readers.
function recordTable(pair, marks) {
  const head = ["Field", pair.left.key, pair.right.key].map((words) =>
    make("th", { scope: "col", role: "columnheader" }, words));
  const body = pair.rows.map((row, at) => {
    const shown = marks ? differences(pair)[at] : SIDES.map((side) => [[row[side], false]]);
    const long = SIDES.some((side) => (row[side] ?? "").length > LONG);
    const kind = kindOf(row);
    const classes = `${marks || kind === "empty" ? kind : ""} ${long ? "long" : ""}`.trim();
    return make("tr", { role: "row", class: classes },
      make("th", { scope: "row", role: "rowheader" }, row.name),
      ...SIDES.map((side, place) => make("td", { role: "cell", "data-key": pair[side].key }, ...cell(row[side], shown[place]))));
  });
  return make("div", { class: "record" },
    make("table", { role: "table", "aria-label": "The two records" },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...head)),
      make("tbody", { role: "rowgroup" }, ...body)));
}

function cell(value, shown) {
  if (value) return parts(shown);
  if (value === null) return [make("span", { class: "missing", role: "img", "aria-label": "missing" }, "–")];
  return [make("span", { class: "unseen" }, "no such column")];
}
