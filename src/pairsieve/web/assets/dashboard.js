// The dashboard: asks for the figures every two seconds and draws again what changed.

import { api, byId, later, make } from "/static/common.js";
import { bars, Figure, fillTable, lines } from "/static/charts.js";
import { drawPair } from "/static/pairs.js";

const count = (value) => value.toLocaleString("en");
const percent = (value) => `${(100 * value).toFixed(value && value < 0.1 ? 1 : 0)} %`;
const FEW = 4; // pairs of a list that are shown without asking for more
const place = byId("figures");
const figures = {
  time: new Figure(place, "Labels over time", ["answered", "matches"]),
  quality: new Figure(place, "Quality by round", ["average precision", "audited average precision", "audited precision"]),
  drying: new Figure(place, "Matches in each round’s batch"),
  seconds: new Figure(place, "Seconds by phase", ["embed", "select", "train", "measure"]),
};

function drawNow(data) {
  const { training, next } = data;
  let words = `Round ${next.round}: ${count(next.waiting)} pairs are not answered yet.`;
  if (training.busy) words = next.round === 1 ? "The first pairs are being chosen." : "A model is being trained; then it chooses the next pairs.";
  else if (data.state === "finished") words = "All rounds are done.";
  else if (data.state === "stopped") words = `Stopped after round ${next.round}: ${data.reason}.`;
  else if (data.state === "ready") words = training.trains ? `Next: ${next.step} round ${next.round}.` : `Next: ${next.step} round ${next.round}. Training is off here; use pairsieve run.`;
  if (byId("now").textContent !== words) byId("now").textContent = words;
  byId("advice").textContent = data.advice;
  byId("advice").hidden = !data.advice;
  byId("trouble").hidden = !training.error;
  byId("trouble-words").textContent = training.error;
}

function drawTiles(data) {
  const total = (name) => data.batches.reduce((sum, batch) => sum + batch[name], 0);
  const rates = data.people.filter((p) => !p.model && p.per_hour !== null).map((p) => p.per_hour);
  const alpha = data.agreement;
  const tiles = [
    ["Answered", `${count(total("labelled") + total("unsure"))} of ${count(data.budget)}`, `${count(total("unsure"))} of them unsure`],
    ["Matches found", count(total("positives"))],
    ["Labels per hour", rates.length ? count(Math.round(rates.reduce((a, b) => a + b, 0))) : "–", "of all people together, without pauses"],
    ["Agreement (Krippendorff’s α)", alpha ? `${alpha.value.toFixed(2)}` : "–", alpha ? `${alpha.low.toFixed(2)} to ${alpha.high.toFixed(2)}, ${count(alpha.n)} pairs` : "needs pairs that two people answered"],
    ["Open decisions", count(data.undecided), data.undecided ? "on the labelling page, below the pair" : ""],
  ];
  if (data.inferred) tiles.splice(2, 0, ["Inferred", count(data.inferred), "labels that follow from other labels"]);
  for (const model of data.models) {
    const { value, low, high, n } = model.agreement;
    const words = value === null ? "no pair yet that people decided too" : `${percent(low)} to ${percent(high)} equal answers, ${count(n)} pairs`;
    tiles.push([`${model.model} agrees with people`, value === null ? "–" : percent(value), words]);
  }
  byId("tiles").replaceChildren(...tiles.map(([name, value, more]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, ...(more ? [make("small", {}, more)] : [])))));
}

function drawTime(data) {
  const points = data.over_time;
  if (!points.length) return figures.time.draw("No answer yet.", null, [], []);
  const start = Date.parse(points[0].at);
  const minutes = points.map((p) => (Date.parse(p.at) - start) / 60000);
  const last = points.at(-1);
  const unit = minutes.at(-1) > 180 ? ["hours", 60] : ["minutes", 1];
  const series = ["answered", "positives"].map((name) => ({ name, points: points.map((p, at) => ({ x: minutes[at] / unit[1], y: p[name] })) }));
  const trained = data.batches.reduce((sum, batch) => sum + batch.labelled + batch.unsure, 0);
  const words = `${count(last.answered)} pairs answered, ${count(last.positives)} of them matches${last.answered > trained ? "; audits and open ties included" : ""}.`;
  return figures.time.draw(words, lines({ series, xLabel: `${unit[0]} since the first answer`, summary: words }),
    ["When", "Answered", "Matches"], points.slice(-50).map((p) => [p.at.slice(0, 19).replace("T", " "), p.answered, p.positives]));
}

function drawQuality(data) {
  const kinds = [
    ["average precision", (row) => row.average_precision],
    ["audited average precision", (row) => row.audit?.average_precision],
    ["audited precision", (row) => row.audit?.precision],
  ];
  const series = kinds.map(([name, of]) => ({
    name,
    points: data.rounds.filter((row) => typeof of(row)?.value === "number").map((row) => ({ x: row.round, y: of(row).value, low: of(row).low, high: of(row).high })),
  }));
  const drawn = series.filter((one) => one.points.length);
  const limits = kinds.flatMap(([name, of]) => {
    const row = data.rounds.findLast((each) => typeof of(each)?.low === "number");
    return row && typeof of(row).value !== "number" ? [`${name} between ${of(row).low.toFixed(3)} and ${of(row).high.toFixed(3)} after round ${row.round}`] : [];
  });
  figures.quality.show(series.map((one) => one.points.length > 0));
  if (!drawn.length && limits.length) return figures.quality.draw(`Limits by drawn labels: ${limits.join("; ")}.`, null, [], []);
  if (!drawn.length) return figures.quality.draw("Not measured yet: the truth of no split is known, and there is no audit. Run: pairsieve audit", null, [], []);
  const latest = drawn.map(({ name, points }) => `${name} ${points.at(-1).y.toFixed(3)}${points.at(-1).high > points.at(-1).low ? ` (${points.at(-1).low.toFixed(3)} to ${points.at(-1).high.toFixed(3)})` : ""} after round ${points.at(-1).x}`);
  const on = data.rounds.find((row) => row.measured_on)?.measured_on;
  const warning = data.rounds.find((row) => row.warning)?.warning;
  const words = `${[...latest, ...limits].join("; ")}.${on ? ` Average precision: exact, over all pairs of ${on}.` : ""}${warning ? ` ${warning}` : ""}`;
  const rows = drawn.flatMap(({ name, points }) => points.map((p) => [p.x, name, p.y.toFixed(4), p.low.toFixed(4), p.high.toFixed(4)]));
  return figures.quality.draw(words[0].toUpperCase() + words.slice(1), lines({ series, xLabel: "round", summary: words, yMax: 1, whole: true }),
    ["Round", "Figure", "Value", "From", "To"], rows);
}

function drawDrying(data) {
  const rows = data.batches.filter((batch) => batch.labelled);
  if (!rows.length) return figures.drying.draw("No label yet.", null, [], []);
  const share = (batch) => batch.positives / batch.labelled;
  const [first, last] = [rows[0], rows.at(-1)];
  let words = `Round ${last.round}: ${count(last.positives)} of ${count(last.labelled)} are matches (${percent(share(last))}).`;
  if (rows.length > 2 && share(last) < share(first) / 4) words += " Few matches are left to find this way.";
  const groups = rows.map((batch) => ({ name: String(batch.round), parts: [share(batch)] }));
  return figures.drying.draw(words, bars({ groups, xLabel: "round", summary: words, yWords: percent, yMax: rows.some((b) => share(b) > 0.4) ? 1 : null }),
    ["Round", "Labels", "Matches", "Share"], rows.map((b) => [b.round, b.labelled, b.positives, percent(share(b))]));
}

function drawSeconds(data) {
  const phases = ["embed", "select", "train", "measure"];
  const rows = data.rounds.filter((row) => row.seconds);
  if (!rows.length) return figures.seconds.draw("No round is trained yet.", null, [], []);
  const groups = rows.map((row) => ({ name: String(row.round), parts: phases.map((phase) => row.seconds[phase] ?? 0) }));
  const total = groups.at(-1).parts.reduce((a, b) => a + b, 0);
  const words = `Round ${groups.at(-1).name} took ${total.toFixed(1)} seconds of computing.`;
  return figures.seconds.draw(words, bars({ groups, xLabel: "round", summary: words }),
    ["Round", ...phases], groups.map((group) => [group.name, ...group.parts.map((part) => part.toFixed(2))]));
}

function drawPeople(data) {
  if (!data.people.length) return byId("people").replaceChildren(make("p", { class: "hint" }, "Nobody has answered yet."));
  const table = make("table");
  fillTable(table, ["Name", "Answers", "Match", "No match", "Unsure", "Per hour of work"], data.people.map((p) =>
    [p.model ? `${p.who} (language model)` : p.who, count(p.answers), count(p.match), count(p.no_match), count(p.unsure), p.per_hour === null ? "–" : count(Math.round(p.per_hour))]));
  return byId("people").replaceChildren(table);
}

function drawModels(data) {
  byId("models-section").hidden = !data.models.length;
  if (!data.models.length) return;
  const words = ({ value, low, high }) => (value === null ? "–" : `${value.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`);
  const table = make("table");
  fillTable(table, ["Model", "Labels", "Pairs people answered too", "Equal answers", "Cohen’s κ", "On people’s matches", "On people’s non-matches"],
    data.models.map((m) => [m.model, count(m.answers), count(m.pairs), words(m.agreement), words(m.kappa), words(m.on_matches), words(m.on_no_matches)]));
  byId("models").replaceChildren(table);
}

const pairCard = (pair, words) => make("article", { class: "dispute" },
  make("div", { class: "pair" }, ...drawPair(pair, Boolean(pair.rows), "h3")),
  make("p", { class: "hint" }, words));

/** A few cards, the others behind a click; drawn again only if they changed, so that what is open stays open. */
function list(id, cards, none) {
  const now = cards.map((card) => card.textContent).join("\n") || none;
  const before = byId(id).dataset.drawn;
  byId(id).dataset.drawn = now;
  if (now === before) return;
  const [few, rest] = [cards.slice(0, FEW), cards.slice(FEW)];
  if (rest.length) few.push(make("details", {}, make("summary", {}, `${rest.length} more`), ...rest));
  byId(id).replaceChildren(...(few.length ? few : [make("p", { class: "hint" }, none)]));
}

function opinionOf(pair) {
  return typeof pair.probability === "number" ? `match probability ${pair.probability.toFixed(3)}` : `score ${pair.model_score.toFixed(3)} of 1 for a match`;
}

function drawMistakes(data) {
  const made = data.mistakes.map((pair) =>
    pairCard(pair, `Labelled ${pair.label}; the model says: ${opinionOf(pair)}.`));
  list("mistakes", made, "None: there is no model yet, or it agrees with every label.");
}

function drawUnseen(data) {
  const none = data.unseen === null
    ? "Not searched: no model yet, or the collection is too large to search for this list."
    : "None: the model calls no unasked pair a match.";
  const made = (data.unseen ?? []).map((pair) => pairCard(pair, `The model says: ${opinionOf(pair)}; nobody was asked.`));
  list("unseen", made, none);
}

async function watch() {
  let before = "";
  for (;;) {
    if (!document.hidden) {
      try {
        const data = await api("/api/dashboard");
        const now = JSON.stringify(data);
        if (now !== before) {
          byId("campaign").textContent = data.campaign;
          document.title = `Dashboard: ${data.campaign}`;
          [drawNow, drawTiles, drawTime, drawQuality, drawDrying, drawSeconds, drawPeople, drawModels, drawMistakes, drawUnseen].forEach((draw) => draw(data));
          before = now;
        }
      } catch (error) {
        byId("now").textContent = error.message;
        before = "";
      }
    }
    await later(2000);
  }
}

byId("retry").addEventListener("click", async () => {
  try {
    await api("/api/rounds/retry", {});
  } catch (error) {
    byId("now").textContent = error.message;
  }
});
watch();
