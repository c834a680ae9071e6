// The dashboard: asks for the figures every two seconds and draws again what changed.

import { api, byId, later, make } from "/static/common.js";
import { bars, Figure, fillTable, lines } from "/static/charts.js";

const WORDS = { match: "match", "no match": "no match", unsure: "unsure" };
const count = (value) => value.toLocaleString("en");
const percent = (value) => `${(100 * value).toFixed(value && value < 0.1 ? 1 : 0)} %`;
const place = byId("figures");
const figures = {
  time: new Figure(place, "Labels over time", ["answered", "matches"]),
  quality: new Figure(place, "Quality by round"),
  drying: new Figure(place, "Matches in each round’s batch"),
  seconds: new Figure(place, "Seconds by phase", ["embed", "select", "train", "measure"]),
};

function drawNow(data) {
  const { training, next } = data;
  let words = `Round ${next.round}: ${count(next.waiting)} pairs wait for an answer.`;
  if (training.busy) words = "Training, and choosing the next pairs.";
  else if (data.state === "finished") words = "All rounds are done.";
  else if (data.state === "ready") words = training.trains ? `Next: ${next.step} round ${next.round}.` : `Next: ${next.step} round ${next.round}. Training is off here; use pairsieve run.`;
  if (byId("now").textContent !== words) byId("now").textContent = words;
  byId("trouble").hidden = !training.error;
  byId("trouble-words").textContent = training.error;
}

function drawTiles(data) {
  const total = (name) => data.batches.reduce((sum, batch) => sum + batch[name], 0);
  const rates = data.people.map((p) => p.per_hour).filter((rate) => rate !== null);
  const alpha = data.agreement;
  const tiles = [
    ["Answered", `${count(total("labelled") + total("unsure"))} of ${count(data.budget)}`, `${count(total("unsure"))} of them unsure`],
    ["Matches found", count(total("positives"))],
    ["Labels per hour", rates.length ? count(Math.round(rates.reduce((a, b) => a + b, 0))) : "–"],
    ["Agreement (α)", alpha ? `${alpha.value.toFixed(2)}` : "–", alpha ? `${alpha.low.toFixed(2)} to ${alpha.high.toFixed(2)}, ${count(alpha.n)} pairs` : "needs pairs that two people decided"],
    ["Disagreements", count(data.disputes.length), data.disputes.length ? "settle them on the labelling page" : ""],
  ];
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
  const words = `${count(last.answered)} pairs answered, ${count(last.positives)} of them matches.`;
  return figures.time.draw(words, lines({ series, xLabel: `${unit[0]} since the first answer`, summary: words }),
    ["When", "Answered", "Matches"], points.slice(-50).map((p) => [p.at.slice(0, 19).replace("T", " "), p.answered, p.positives]));
}

function drawQuality(data) {
  const audited = data.rounds.some((row) => row.audit?.precision);
  const rows = data.rounds.map((row) => ({ round: row.round, on: row.measured_on, ...(audited ? row.audit?.precision : row.average_precision) })).filter((row) => typeof row.value === "number");
  if (!rows.length) return figures.quality.draw("Not measured: the campaign has no split with truth, and no audit yet (pairsieve audit).", null, [], []);
  const name = audited ? "Audited precision" : `Average precision over all pairs of ${rows[0].on}`;
  const words = `${name}: ${rows.at(-1).value.toFixed(3)} after round ${rows.at(-1).round}.`;
  const points = rows.map((row) => ({ x: row.round, y: row.value, low: row.low, high: row.high }));
  return figures.quality.draw(words, lines({ series: [{ name, points }], xLabel: "round", summary: words, yMax: 1, whole: true }),
    ["Round", name, "From", "To"], rows.map((row) => [row.round, row.value.toFixed(4), row.low.toFixed(4), row.high.toFixed(4)]));
}

function drawDrying(data) {
  const rows = data.batches.filter((batch) => batch.labelled);
  if (!rows.length) return figures.drying.draw("No label yet.", null, [], []);
  const share = (batch) => batch.positives / batch.labelled;
  const [first, last] = [rows[0], rows.at(-1)];
  let words = `Round ${last.round}: ${count(last.positives)} of ${count(last.labelled)} are matches (${percent(share(last))}).`;
  if (rows.length > 2 && share(last) < share(first) / 4) words += " Matches are drying up.";
  const groups = rows.map((batch) => ({ name: String(batch.round), parts: [share(batch)] }));
  return figures.drying.draw(words, bars({ groups, xLabel: "round", summary: words, yWords: percent }),
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
    [p.who, count(p.answers), count(p.match), count(p.no_match), count(p.unsure), p.per_hour === null ? "–" : count(Math.round(p.per_hour))]));
  return byId("people").replaceChildren(table);
}

function drawMistakes(data) {
  const made = data.mistakes.map((pair) => make("article", { class: "dispute" },
    make("div", { class: "pair" },
      make("div", { class: "text" }, make("h3", {}, pair.left.key), make("p", {}, pair.left.text)),
      make("div", { class: "text" }, make("h3", {}, pair.right.key), make("p", {}, pair.right.text))),
    make("p", { class: "hint" }, `Labelled ${WORDS[pair.label]}; the model gives a match probability ${pair.probability.toFixed(3)}.`)));
  byId("mistakes").replaceChildren(...(made.length ? made : [make("p", { class: "hint" }, "None: no model yet, or it agrees with every label.")]));
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
          [drawNow, drawTiles, drawTime, drawQuality, drawDrying, drawSeconds, drawPeople, drawMistakes].forEach((draw) => draw(data));
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
