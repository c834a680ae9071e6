// The review page: pairs and groups of the list by doubt, and earlier answers, to confirm, split, merge or change.

import { api, byId, later, make, newToken, recall, remember } from "/static/common.js";
import { Outbox } from "/static/outbox.js";
import { drawPair } from "/static/pairs.js";

const USUAL_KEYS = { match: "y", "no match": "n", unsure: "u" };
const WORDS = { match: "Match", "no match": "No match", unsure: "Unsure" };
const PAGE = 20;
const VIEWS = {
  pairs: {
    about: "Pairs of the list, and pairs just left out. The most doubtful come first.",
    show: { open: "without an answer", all: "all pairs", listed: "in the list", "left out": "left out" },
  },
  groups: {
    about: "Groups of records that the list puts together. The least sure come first. Tick records to split them off.",
    show: {},
  },
  answers: {
    about: "What was answered so far, the latest first. Press another button to change an answer.",
    show: { all: "all answers", mine: "my answers", match: "matches", "no match": "no matches", unsure: "unsure" },
  },
};

let who = recall("name", "");
const keys = { ...USUAL_KEYS, ...recall("keys", {}) };
let view = "pairs";
let state = null; // what the server said of the list
let drawn = ""; // which list the cards are from
let shown = 0; // cards drawn so far
let asked = 0; // numbers the requests for cards: an old one is dropped

const say = (words) => { byId("status").textContent = words; };
const number = (count) => count.toLocaleString("en");
const query = () => new URLSearchParams({ who, words: byId("words").value, show: byId("show").value || "all", offset: shown, count: PAGE });

// ── the list ─────────────────────────────────────────────────────────────────────────────────────

async function look() {
  state = await api("/api/review");
  const busy = state.busy ? "The list is being made; it appears here." : "";
  const old = state.old ? "There are new answers or a new round since this list was made." : "";
  const none = state.ready ? "" : "There is no list yet.";
  const error = state.error ? `The list could not be made. ${state.error}` : "";
  const own = state.own ? "" : "This page is for the audit of another split, which has no list.";
  const words = own || error || busy || none || old;
  byId("list-state").hidden = view === "answers" || !words;
  if (byId("list-words").textContent !== words) byId("list-words").textContent = words;
  byId("list-state").classList.toggle("at-work", state.busy);
  byId("make-list").hidden = state.busy || !state.own;
  byId("make-list").textContent = state.ready ? "Update the list" : "Make the list";
  document.querySelector("[data-view=groups]").hidden = !state.one_collection;
  return state.made !== drawn && view !== "answers"; // another list than the one on the screen
}

async function makeList() {
  try {
    await api("/api/review/list", {});
    byId("make-list").blur();
    if (await look()) await draw();
  } catch (error) {
    say(error.message);
  }
}

async function keepWatch() {
  for (;;) {
    await later(state?.busy ? 700 : 5000);
    if (document.hidden) continue;
    try {
      if (await look() && !byId("cards").contains(document.activeElement)) await draw();
    } catch {
      // the next look may succeed
    }
  }
}

// ── cards ────────────────────────────────────────────────────────────────────────────────────────

async function draw() {
  shown = 0;
  drawn = state?.made ?? "";
  await load(true);
}

async function load(fresh) {
  const turn = ++asked;
  try {
    const made = await api(`/api/review/${view}?${query()}`);
    if (turn !== asked) return;
    const cards = view === "groups" ? made.groups.map(groupCard) : made.pairs.map(pairCard);
    if (fresh) byId("cards").replaceChildren(...cards);
    else byId("cards").append(...cards);
    shown += cards.length;
    const what = { pairs: "pairs", groups: "groups", answers: "answers" }[view];
    byId("count").textContent = made.total || state?.ready || view === "answers" ? `${number(made.total)} ${made.total === 1 ? what.slice(0, -1) : what}` : "";
    byId("more").hidden = shown >= made.total;
    if (!fresh && cards.length) cards[0].querySelector("button, input")?.focus();
  } catch (error) {
    if (turn === asked) say(error.message);
    if (error.status === 400) changeName(error.message);
  }
}

function matchScore({ probability, model_score: score }) {
  if (typeof probability === "number") return `probability ${probability.toFixed(2)}`;
  if (typeof score === "number") return `model score ${score.toFixed(2)}`;
  return "";
}

function standing(pair) {
  const parts = [];
  if (pair.listed !== undefined) parts.push(pair.listed ? "In the list" : "Left out", matchScore(pair));
  if (pair.settled_by) parts.push(`decided by ${pair.settled_by}`);
  if (pair.votes.length) parts.push(pair.votes.map(({ who: name, label }) => `${name}: ${label}`).join(", "));
  return parts.filter(Boolean).join(" · ");
}

function pairCard(pair) {
  const card = make("article", { class: "dispute card", "aria-label": `${pair.left.key} and ${pair.right.key}`, "data-pair": pair.pair });
  const hint = make("p", { class: "hint" }, standing(pair));
  const buttons = Object.keys(WORDS).map((label) => {
    const button = make("button", { type: "button", class: `small ${label.replace(" ", "-")}`, "data-label": label, "aria-pressed": String(pair.label === label) }, WORDS[label]);
    button.addEventListener("click", () => answer(pair, label, card, hint));
    return button;
  });
  card.append(
    make("div", { class: "pair" }, ...drawPair(pair, true, "h2")),
    hint,
    ...(pair.waterfall?.length ? [waterfall(pair)] : []),
    make("div", { class: "row", role: "group", "aria-label": `It is: ${pair.left.key} and ${pair.right.key}` }, ...buttons));
  return card;
}

/** What made the score: every part from the start to the sum, each bar beginning where the last one ended. */
function waterfall({ waterfall: steps }) {
  const ends = steps.reduce((sums, [, value]) => [...sums, (sums.at(-1) ?? 0) + value], []);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const place = (value) => (100 * (value - low)) / (high - low || 1);
  const rows = [...steps, ["together", ends.at(-1)]].map(([name, value], at) => {
    const [from, to] = at < steps.length ? [ends[at] - value, ends[at]] : [0, ends.at(-1)];
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    bar.setAttribute("viewBox", "0 0 100 8");
    bar.setAttribute("preserveAspectRatio", "none");
    bar.setAttribute("aria-hidden", "true");
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const shape = { x: place(Math.min(from, to)), y: 0, height: 8, width: Math.max(0.6, Math.abs(place(to) - place(from))) };
    for (const [key, size] of Object.entries(shape)) box.setAttribute(key, size);
    box.setAttribute("class", at === steps.length ? "sum" : value >= 0 ? "up" : "down");
    bar.append(box);
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`), make("td", { class: "bar" }, bar));
  });
  const head = make("tr", {}, ...["Part", "Log-odds", "Bar"].map((words) => make("th", { scope: "col" }, words)));
  return make("details", { class: "waterfall" },
    make("summary", {}, "What made the score"),
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

async function answer(pair, label, card, hint) {
  const made = await send("review", { pair: pair.pair, label }, `${pair.left.key} and ${pair.right.key}: ${label}.`);
  if (!made) return;
  pair.label = label;
  pair.votes = [...pair.votes.filter((vote) => vote.who !== who), { who, label }];
  hint.textContent = standing(pair);
  for (const button of card.querySelectorAll("[data-label]")) button.setAttribute("aria-pressed", String(button.dataset.label === label));
}

const waits = new Map(); // token of a click -> what goes on once the server has it, or has refused it
const outbox = new Outbox({ done: arrived, changed: drawOutbox });

/** A write, kept in this browser until the server has it; says what was done, or why not. */
async function send(kind, body, words) {
  const token = newToken();
  const made = await new Promise((goOn) => {
    waits.set(token, goOn);
    outbox.add({ kind, who, token, ...body });
  });
  if (!made) return null;
  say(words);
  look().catch(() => {});
  return made;
}

function arrived(work, made) {
  const refused = outbox.refused.find((each) => each.id === work.id);
  if (refused && ["review", "group"].includes(work.kind)) { // said here at once; the label page shows its own
    outbox.refused.splice(outbox.refused.indexOf(refused), 1);
    outbox.forget("refused", work);
    say(`Not saved. ${refused.words}`);
  }
  waits.get(work.token)?.(refused ? null : made);
  waits.delete(work.token);
}

function drawOutbox() {
  const { waiting, trouble, kept } = outbox;
  const where = kept ? "kept in this browser and sent again" : "sent again; keep this page open";
  if (trouble && waiting.length) say(`${waiting.length} not saved yet: ${where}. ${trouble}`);
}

// ── groups ───────────────────────────────────────────────────────────────────────────────────────

function groupCard(group, at) {
  const name = `Group of ${number(group.size)}: ${group.members[0].key}`;
  const card = make("article", { class: "dispute card group", "aria-label": name });
  const ticks = [];
  const rows = group.members.map((member) => {
    const tick = make("input", { type: "checkbox", "aria-label": `Split off ${member.key}` });
    ticks.push([tick, member.row]);
    tick.addEventListener("change", chosen);
    const cells = group.columns.length ? member.values.map((value, column) => cell(group.columns[column], value)) : [cell("Text", member.text)];
    return make("tr", { role: "row" },
      make("td", { role: "cell", class: "tick" }, tick),
      make("th", { scope: "row", role: "rowheader" }, member.key), ...cells);
  });
  const head = ["Split off", "Record", ...(group.columns.length ? group.columns : ["Text"])].map((words) =>
    make("th", { scope: "col", role: "columnheader" }, words));
  const split = make("button", { type: "button", class: "small no-match" }, "Split off the ticked");
  const confirm = make("button", { type: "button", class: "small match" }, "All one");
  const done = make("p", { class: "hint", role: "status" }, links(group));
  split.disabled = true;

  function ticked() {
    return ticks.filter(([tick]) => tick.checked).map(([, row]) => row);
  }
  function chosen() {
    split.disabled = !ticked().length || ticked().length === ticks.length;
    confirm.disabled = ticked().length > 0;
  }
  async function say_of(apart, words) {
    const made = await send("group", { rows: ticks.map(([, row]) => row), apart }, words);
    if (made) done.textContent = `${words} ${number(made.pairs_answered)} ${made.pairs_answered === 1 ? "answer" : "answers"} saved.`;
    if (made) for (const [tick, row] of ticks) tick.closest("tr").classList.toggle("off", apart.includes(row));
  }
  confirm.addEventListener("click", () => say_of([], "Confirmed as one."));
  split.addEventListener("click", () => say_of(ticked(), "Split off."));

  const table = make("div", { class: "members" },
    make("table", { role: "table", "aria-label": name },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...head)),
      make("tbody", { role: "rowgroup" }, ...rows)));
  const weakest = group.weakest;
  const sure = `Least sure inside: ${weakest.left.key} and ${weakest.right.key}${matchScore(weakest) ? `, ${matchScore(weakest)}` : ""}.`;
  const more = group.size > group.members.length ? ` The first ${group.members.length} of ${number(group.size)} are shown.` : "";
  card.append(
    make("h2", {}, `${number(group.size)} records`),
    make("p", { class: "hint" }, sure + more),
    table,
    make("div", { class: "row", role: "group", "aria-label": `Decide on ${name}` }, confirm, split));
  if (group.outside) card.append(outsideRow(group, name));
  card.append(done);
  card.dataset.at = String(shown + at);
  return card;
}

const cell = (name, value) => make("td", { role: "cell", "data-name": name },
  value ? value : make("span", { class: "missing", role: "img", "aria-label": "missing" }, "–"));

function links({ links: { match = 0, "no match": others = 0 } }) {
  const parts = [];
  if (match) parts.push(`${number(match)} ${match === 1 ? "pair" : "pairs"} inside answered match`);
  if (others) parts.push(`${number(others)} answered no match`);
  return parts.length ? `${parts.join(", ")}.` : "";
}

/** The nearest record outside: a merge with its group, or not. */
function outsideRow(group, name) {
  const { outside } = group;
  const words = make("p", { class: "hint" }, `Nearest outside (${matchScore(outside) || "left out"}): `, make("strong", {}, outside.key), ` ${outside.values?.filter(Boolean).join(", ") ?? outside.text}`);
  const buttons = [["match", "Merge"], ["no match", "Keep apart"]].map(([label, text]) => {
    const button = make("button", { type: "button", class: `small ${label.replace(" ", "-")}`, "aria-pressed": String(outside.label === label) }, text);
    button.addEventListener("click", async () => {
      const said = label === "match" ? `Merged with ${outside.key}.` : `${outside.key} is kept apart.`;
      if (!await send("review", { pair: outside.pair, label }, said)) return;
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
    });
    return button;
  });
  return make("div", { class: "outside" }, words, make("div", { class: "row", role: "group", "aria-label": `${outside.key} and ${name}` }, ...buttons));
}

// ── keys, filters, name ──────────────────────────────────────────────────────────────────────────

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (view === "groups" || event.target.closest("textarea, select, input")) return;
  const label = Object.keys(USUAL_KEYS).find((name) => keys[name] === event.key.toLowerCase());
  if (!label) return;
  event.preventDefault();
  const card = event.target.closest(".card") ?? document.querySelector(".card");
  if (!card) return;
  card.querySelector(`[data-label="${label}"]`).click();
  const next = card.nextElementSibling ?? card;
  next.querySelector("button").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
});

async function open(name) {
  view = name;
  const { about, show } = VIEWS[view];
  for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === view));
  const hint = Object.keys(USUAL_KEYS).flatMap((label) => [make("kbd", {}, keys[label]), ` ${WORDS[label].toLowerCase()} `]);
  byId("about").replaceChildren(about, ...(view === "groups" ? [] : [make("span", { class: "by-keys" }, " Keys: ", ...hint)]));
  say("");
  byId("show").replaceChildren(...Object.entries(show).map(([value, words]) => make("option", { value }, words)));
  byId("show-label").hidden = !Object.keys(show).length;
  byId("cards").replaceChildren();
  byId("count").textContent = "";
  await look();
  await draw();
}

for (const button of document.querySelectorAll("[data-view]")) {
  button.addEventListener("click", () => open(button.dataset.view).catch((error) => say(error.message)));
}
let typing = null;
byId("words").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(draw, 250);
});
byId("show").addEventListener("change", draw);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("more").addEventListener("click", () => load(false));
byId("make-list").addEventListener("click", makeList);

function changeName(words = "") {
  byId("name-input").value = who;
  byId("name-status").textContent = words;
  if (!byId("name-dialog").open) byId("name-dialog").showModal();
}

async function enter(name) {
  who = name;
  remember("name", who);
  byId("person").textContent = who;
  await open(view);
  if (state.own && !state.ready && !state.busy && !state.error) await makeList();
}

byId("person").addEventListener("click", () => changeName());
byId("name-dialog").addEventListener("cancel", (event) => { if (!who) event.preventDefault(); });
byId("name-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = byId("name-input").value.trim().replace(/\s+/g, " ");
  try {
    await api(`/api/state?who=${encodeURIComponent(name)}`);
    byId("name-dialog").close();
    await enter(name);
  } catch (error) {
    byId("name-status").textContent = error.message;
  }
});

async function begin() {
  try {
    const campaign = await api("/api/campaign");
    outbox.open(campaign.ledger);
    outbox.send(); // what waits from an earlier visit
    byId("campaign").textContent = campaign.campaign;
    document.title = `Review: ${campaign.campaign}`;
    byId("names").replaceChildren(...campaign.people.map((name) => make("option", { value: name })));
    if (who) await enter(who);
    else changeName();
  } catch (error) {
    say(error.message);
  }
  keepWatch();
}

begin();
