// Small charts as inline SVG, each with its numbers in a table for those who cannot or do not want to see it.

import { make } from "/static/common.js";

const SPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [480, 240, 60, 14, 14, 38];

function shape(name, attributes = {}, text = "") {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== "") element.textContent = text;
  return element;
}

/** Round numbers from `low` to `high`, at most about `count`. */
export function ticks(low, high, count = 5) {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const made = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) made.push(Number(value.toPrecision(12)));
  return made;
}

function frame(summary, x, y, xTicks, yTicks, xLabel, xWords, yWords) {
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary, class: "chart" });
  for (const tick of yTicks) {
    svg.append(shape("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick), class: "grid" }));
    svg.append(shape("text", { x: LEFT - 6, y: y(tick) + 4, class: "tick end" }, yWords(tick)));
  }
  for (const tick of xTicks) svg.append(shape("text", { x: x(tick), y: HEIGHT - BOTTOM + 16, class: "tick middle" }, xWords(tick)));
  svg.append(shape("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, class: "tick middle" }, xLabel));
  return svg;
}

const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
const plain = (value) => value.toLocaleString("en", { maximumFractionDigits: 4 });

/** series: [{name, points: [{x, y, low?, high?}]}]; intervals are drawn as whiskers. */
export function lines({ series, xLabel, summary, xWords = plain, yWords = plain, yMax = null, whole = false }) {
  const all = series.flatMap((one) => one.points);
  const [xLow, xHigh] = [Math.min(...all.map((p) => p.x)), Math.max(...all.map((p) => p.x))];
  const high = yMax ?? (Math.max(...all.map((p) => p.high ?? p.y)) || 1);
  const place = scale(xLow === xHigh ? xLow - 1 : xLow, xLow === xHigh ? xHigh + 1 : xHigh, LEFT, WIDTH - RIGHT);
  const y = scale(0, high, HEIGHT - BOTTOM, TOP);
  const xTicks = ticks(xLow, xHigh, whole ? Math.min(8, Math.max(1, xHigh - xLow)) : 4).filter((t) => !whole || Number.isInteger(t));
  const svg = frame(summary, place, y, xTicks.length ? xTicks : [xLow], ticks(0, high, 4), xLabel, xWords, yWords);
  series.forEach((one, at) => {
    const aside = whole ? 5 * (at - (series.length - 1) / 2) : 0; // so that intervals of one round stand side by side
    const x = (value) => place(value) + aside;
    const path = one.points.map((p, i) => `${i ? "L" : "M"}${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}`).join("");
    svg.append(shape("path", { d: path, class: `line line-${at}` }));
    for (const p of one.points) {
      if (p.low !== undefined && p.high > p.low) svg.append(shape("line", { x1: x(p.x), x2: x(p.x), y1: y(p.low), y2: y(p.high), class: `whisker line-${at}` }));
      if (one.points.length <= 40) svg.append(shape("circle", { cx: x(p.x), cy: y(p.y), r: 3, class: `dot dot-${at}` }));
    }
  });
  return svg;
}

/** groups: [{name, parts: [numbers]}]; parts are stacked from below. */
export function bars({ groups, xLabel, summary, yWords = plain, yMax = null }) {
  const high = yMax ?? (Math.max(...groups.map((g) => g.parts.reduce((a, b) => a + b, 0))) || 1);
  const y = scale(0, high, HEIGHT - BOTTOM, TOP);
  const width = (WIDTH - LEFT - RIGHT) / groups.length;
  const x = (at) => LEFT + (at + 0.5) * width;
  const every = Math.ceil(groups.length / 12);
  const svg = frame(summary, x, y, groups.map((_, at) => at).filter((at) => at % every === 0), ticks(0, high, 4), xLabel, (at) => groups[at].name, yWords);
  groups.forEach((group, at) => {
    let from = 0;
    group.parts.forEach((part, kind) => {
      const thick = Math.min(48, width * 0.7);
      svg.append(shape("rect", { x: x(at) - thick / 2, width: thick, y: y(from + part), height: Math.max(0, y(from) - y(from + part)), class: `bar bar-${kind}` }));
      from += part;
    });
  });
  return svg;
}

/** A figure that can be drawn again without losing what is open: title, legend, chart, numbers. */
export class Figure {
  constructor(place, title, names = []) {
    this.chart = make("div");
    this.table = make("table");
    this.words = make("p", { class: "hint" });
    this.legend = names.map((name, at) => make("span", { class: `legend legend-${at}` }, name));
    this.element = make("figure", {}, make("figcaption", {}, make("h2", {}, title), this.words, make("p", {}, ...this.legend)), this.chart,
      make("details", {}, make("summary", {}, "Numbers"), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers: ${title}` }, this.table)));
    if (names.length < 2) this.element.querySelector("figcaption p:last-child").remove();
    place.append(this.element);
  }

  /** Which names of the legend have something to show. */
  show(which) {
    which.forEach((shown, at) => { this.legend[at].hidden = !shown; });
  }

  draw(words, svg, head, rows) {
    this.words.textContent = words;
    this.chart.replaceChildren(...(svg ? [svg] : []));
    fillTable(this.table, head, rows);
    this.element.querySelector("details").hidden = !rows.length;
  }
}

export function fillTable(table, head, rows) {
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...head.map((cell) => make("th", { scope: "col" }, cell)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, String(cell)))))));
}
