// The labelling page: the next pairs are here before they are needed, and an answer is shown as done at once.
// What was clicked waits in the outbox until the server has it in the ledger.

import { api, byId, later, make, newToken, recall, remember } from "/static/common.js";
import { Disagreements } from "/static/disagreements.js";
import { Outbox } from "/static/outbox.js";
import { differences, drawPair } from "/static/pairs.js";

const USUAL_KEYS = { match: "y", "no match": "n", unsure: "u", skip: "s", undo: "z" };
const WORDS = { match: "Match", "no match": "No match", unsure: "Unsure", skip: "Skip", undo: "Undo" };
const outbox = new Outbox({ done: arrived, changed: drawOutbox });
const disagreements = new Disagreements({ post, say });
const AHEAD = 8; // pairs held in advance
const MOST_ASKED = 50; // pairs of one request

let who = recall("name", "");
let keys = { ...USUAL_KEYS, ...recall("keys", {}) };
let held = []; // held[0] is on the screen
let behind = []; // answered in this visit, the latest last
const gone = new Set(); // pairs answered in this visit
let standing = null; // what the server said last
let showDifferences = recall("differences", null);
let showPrediction = recall("prediction", false);
let asking = false;
let waitingForKey = null;

// ── answering ────────────────────────────────────────────────────────────────────────────────────

function act(action, began) {
  if (action === "undo") return undo();
  if (!held.length || byId("name-dialog").open) return undefined;
  const pair = held.shift();
  if (action === "skip") {
    held.push({ ...pair, answer: undefined });
    say(held.length > 1 ? "Skipped; it comes back later." : "Skipped, but it is the only pair left here.");
    post({ kind: "skip", pair: pair.pair });
  } else {
    behind.push({ pair, label: action });
    gone.add(pair.pair);
    say(`You said: ${WORDS[action].toLowerCase()}.`);
    post({ kind: "answer", pair: pair.pair, label: action, token: newToken() });
  }
  draw();
  requestAnimationFrame(() => setTimeout(() => {
    performance.measure("answer to next pair", { start: began, end: performance.now() });
  }, 0));
  return undefined;
}

async function undo() {
  const last = behind.pop();
  if (last) {
    gone.delete(last.pair.pair);
    held.unshift({ ...last.pair, answer: last.label });
    post({ kind: "undo", pair: last.pair.pair, token: newToken() });
    say(`Undone: ${WORDS[last.label].toLowerCase()}.`);
    draw();
    return;
  }
  try {
    if (outbox.trouble) throw new Error("Answers wait to be saved first.");
    await outbox.send();
    const made = await api("/api/undo", { who, ledger: outbox.ledger, token: newToken() });
    adopt(made);
    if (made.undone) {
      held = [made.undone, ...held.filter((pair) => pair.pair !== made.undone.pair)];
      say(`Undone: ${WORDS[made.undone.answer].toLowerCase()}.`);
    } else say("There is nothing left to undo.");
  } catch (error) {
    say(`Not undone. ${error.message}`);
  }
  draw();
}

function post(work) {
  outbox.add({ ...work, who });
}

/** The server has a click; `made` tells where things stand, and is empty where it was refused. */
function arrived(work, made) {
  adopt(made);
  if (["decide", "undecide"].includes(work.kind)) disagreements.done(work, made).then(draw);
  if (held.length) drawProgress();
  else draw();
  if (!outbox.waiting.length && held.length < AHEAD / 2) setTimeout(fetchPairs);
}

/** Keep what the server said, unless it is older than what it said before. */
function adopt(made) {
  const { pairs, undone, written, ...state } = made; // the rest tells where things stand
  const older = standing && state.server === standing.server && state.version < standing.version;
  if (!older) standing = { ...standing, ...state };
  else if (state.training) standing.training = state.training;
}


/** Ask for more pairs; also tells what to say when there are none. */
async function fetchPairs() {
  // While nothing can be saved people go on: what they clicked is theirs still, so more is asked for.
  if (asking || !who || (outbox.waiting.length && !outbox.trouble)) return;
  asking = true;
  try {
    const count = Math.min(MOST_ASKED, AHEAD + outbox.answersOf(who).length);
    const made = await api(`/api/next?who=${encodeURIComponent(who)}&count=${count}&prediction=${showPrediction}`);
    adopt(made);
    const [wasEmpty, still] = [!held.length, new Set(made.pairs.map((pair) => pair.pair))];
    // What is on the screen stays; behind it, what others answered or what follows by now is dropped.
    if (!outbox.waiting.length) held = held.filter((pair, at) => at === 0 || still.has(pair.pair));
    const known = new Set(held.map((pair) => pair.pair));
    const fresh = made.pairs.filter((pair) => !known.has(pair.pair) && !gone.has(pair.pair));
    held.push(...fresh);
    if (wasEmpty) draw();
    else drawProgress();
    fresh.forEach(differences);
  } catch (error) {
    say(error.message);
    if (error.status === 400) changeName(error.message);
  } finally {
    asking = false;
  }
}

async function keepWatch() {
  for (;;) {
    await later(held.length ? 4000 : 1000);
    if (!who || document.hidden) continue;
    if (!held.length) await fetchPairs();
    else {
      try {
        adopt(await api(`/api/state?who=${encodeURIComponent(who)}`));
        drawProgress();
      } catch {
        // the outbox tells about trouble that matters
      }
    }
    if (standing && standing.queue !== disagreements.queue) disagreements.load();
    if (!held.length) draw();
  }
}

// ── drawing ──────────────────────────────────────────────────────────────────────────────────────

function draw() {
  const pair = held[0];
  byId("pair").hidden = byId("answering").hidden = byId("question").hidden = !pair;
  byId("waiting").hidden = Boolean(pair);
  if (pair) {
    byId("pair").replaceChildren(...drawPair(pair, showDifferences, "h2"));
    byId("pair").dataset.pair = pair.pair;
    requestAnimationFrame(reachable);
  } else drawWaiting();
  const notes = [];
  if (pair?.answer) notes.push(`You had said: ${WORDS[pair.answer].toLowerCase()}.`);
  if (pair && showPrediction) notes.push(predictionOf(pair));
  byId("note").textContent = notes.join(" ");
  byId("note").hidden = !notes.length;
  drawProgress();
}

/** What is too long for its box can be scrolled with the keyboard: Tab leads to it. */
function reachable() {
  for (const text of byId("pair").children) {
    if (text.scrollHeight > text.clientHeight) text.tabIndex = 0;
    else text.removeAttribute("tabindex");
  }
}

function predictionOf(pair) {
  let thinks = "The model has no prediction yet.";
  if (typeof pair.probability === "number") thinks = `The model: match with probability ${pair.probability.toFixed(2)}.`;
  else if (typeof pair.model_score === "number") thinks = `The model: score ${pair.model_score.toFixed(2)} of 1 for a match; nothing calibrates it.`;
  return pair.why ? `${thinks} Asked because: ${pair.why}.` : thinks;
}

function drawWaiting() {
  if (!standing?.training) return;
  const { training, undecided, round, apart } = standing;
  const complete = round.asked > 0 && round.answered + unsentAnswers() >= round.asked;
  const step = complete && training.step === "label" && !outbox.waiting.some((work) => work.kind === "undo") ? (apart ? "audited" : "train") : training.step;
  let words = "Other people are labelling the remaining pairs of this round. New pairs appear here automatically.";
  if (training.error) words = `The next round could not be prepared. ${training.error}`;
  else if (step === "finished") words = "All rounds are done. Thank you!";
  else if (step === "audited") words = `Every question of this audit is answered. Thank you!${training.reason ? ` Go on with: ${training.reason}` : ""}`;
  else if (step === "stopped") words = `The campaign stopped by its own rule: ${training.reason}. Thank you!`;
  else if (training.busy || (training.trains && step !== "label")) {
    words = "The first pairs are being chosen; they appear here automatically.";
    if (complete) words = `Round ${round.number} is complete. The model is trained and chooses the next pairs; they appear here automatically.`;
    else if (round.number) words = `More pairs of round ${round.number} are being chosen; they appear here automatically.`;
    if (training.progress) words += ` Now ${training.progress}.`;
  } else if (step !== "label") {
    words = "The round is complete. Training is off here: run “pairsieve run” on the campaign, and the next pairs appear.";
  } else if (undecided) words = "There is no new pair for you. Below, some answers wait for a decision.";
  if (byId("waiting-words").textContent !== words) byId("waiting-words").textContent = words;
  byId("waiting").classList.toggle("at-work", Boolean(training.busy || (training.trains && !training.error && !["label", "finished", "stopped", "audited"].includes(step))));
  byId("retry").hidden = !training.error;
  if (undecided && !byId("disputes").hidden && training.step === "label") byId("disputes").open = true;
}

const unsentAnswers = () => outbox.answersOf(who).length;

/** What waits to be saved, and what was refused. */
function drawOutbox() {
  const { waiting, refused, trouble, kept } = outbox;
  const clicks = waiting.filter((work) => work.kind !== "skip").length;
  const where = kept ? "kept in this browser and sent again" : "sent again; keep this page open";
  byId("unsent").hidden = !trouble || !clicks;
  byId("unsent").textContent = trouble && clicks ? `${clicks} not saved yet: ${where}. ${trouble}` : "";
  byId("refused").hidden = !refused.length;
  byId("refused-words").textContent = refused.length
    ? `${refused.length} ${refused.length === 1 ? "click was" : "clicks were"} refused and not saved: ${[...new Set(refused.map((work) => work.words))].join(" ")}`
    : "";
}

function drawProgress() {
  if (!standing?.round) return;
  const { round, budget } = standing;
  const unsent = unsentAnswers();
  const now = Math.min(round.asked, round.answered + unsent);
  byId("round-bar").max = Math.max(1, round.asked);
  byId("round-bar").value = now;
  const name = round.audit ? `Audit of ${standing.split}` : `Round ${round.number} of ${round.of}`;
  byId("round-words").textContent = round.asked ? `${name}: ${now} of ${round.asked}` : "Before round 1";
  byId("budget-bar").max = budget.labels;
  byId("budget-bar").value = budget.answered + unsent;
  const spent = Math.min(budget.labels, budget.answered + unsent);
  byId("budget-words").textContent = `Budget: ${spent.toLocaleString("en")} of ${budget.labels.toLocaleString("en")} labels`;
  document.querySelectorAll("[data-action=skip]").forEach((button) => { button.disabled = !held.length; });
}

function drawKeys() {
  for (const button of document.querySelectorAll("button[data-action]")) {
    button.querySelector("kbd").textContent = keys[button.dataset.action];
    button.setAttribute("aria-keyshortcuts", keys[button.dataset.action]);
  }
  byId("key-list").replaceChildren(...Object.keys(USUAL_KEYS).map((action) => {
    const button = make("button", { type: "button", class: "quiet" }, make("kbd", {}, keys[action]));
    button.setAttribute("aria-label", `Change the key for ${WORDS[action]}, now ${keys[action]}`);
    button.addEventListener("click", () => {
      waitingForKey = action;
      byId("key-status").textContent = `Press the new key for ${WORDS[action]}. Escape cancels.`;
    });
    return make("li", {}, make("span", {}, WORDS[action]), button);
  }));
}

function say(words) {
  byId("status").textContent = words;
}

// ── keys ─────────────────────────────────────────────────────────────────────────────────────────

function newKey(event) {
  event.preventDefault();
  const key = event.key.toLowerCase();
  const taken = Object.keys(keys).find((action) => keys[action] === key && action !== waitingForKey);
  let words = `${WORDS[waitingForKey]} is now “${key}”.`;
  if (event.key === "Escape") words = "Not changed.";
  else if ([...key].length !== 1 || key === " ") words = "Choose a letter, a digit or another character.";
  else if (taken) words = `“${key}” already means ${WORDS[taken]}.`;
  else {
    keys = { ...keys, [waitingForKey]: key };
    remember("keys", keys);
  }
  waitingForKey = null;
  drawKeys();
  byId("key-status").textContent = words;
}

document.addEventListener("keydown", (event) => {
  if (waitingForKey) return newKey(event);
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return undefined;
  if (event.target.closest("textarea, select, input:not([type=checkbox])")) return undefined;
  const action = Object.keys(keys).find((name) => keys[name] === event.key.toLowerCase());
  if (!action) return undefined;
  event.preventDefault();
  return act(action, event.timeStamp);
});

for (const button of document.querySelectorAll("button[data-action]")) {
  button.addEventListener("click", (event) => act(button.dataset.action, event.timeStamp));
}

// ── guideline, name, options ─────────────────────────────────────────────────────────────────────

let guideline = { text: "", version: "" };

async function loadGuideline() {
  guideline = await api("/api/guideline");
  byId("guideline-text").textContent = guideline.text
    || "Nothing is written yet. Agree on what counts as a match, and write it down here for everybody.";
  if (guideline.text && recall("guideline", "") !== guideline.version) byId("guideline").open = true; // new to this reader
  remember("guideline", guideline.version);
}

function editGuideline(editing) {
  byId("guideline-editor").hidden = !editing;
  byId("edit-guideline").hidden = byId("guideline-text").hidden = editing;
  byId("guideline-input").value = guideline.text;
  byId("guideline-status").textContent = "";
  if (editing) byId("guideline-input").focus();
}

byId("edit-guideline").addEventListener("click", async () => {
  await loadGuideline();
  editGuideline(true);
});
byId("cancel-guideline").addEventListener("click", () => editGuideline(false));
byId("save-guideline").addEventListener("click", async () => {
  try {
    await api("/api/guideline", { text: byId("guideline-input").value, version: guideline.version }, "PUT");
    await loadGuideline();
    editGuideline(false);
    byId("guideline").querySelector("summary").focus();
  } catch (error) {
    byId("guideline-status").textContent = error.message;
  }
});

function changeName(words = "") {
  byId("name-input").value = who;
  byId("name-status").textContent = words;
  if (!byId("name-dialog").open) byId("name-dialog").showModal();
}

function enter(name) {
  who = name;
  remember("name", who);
  byId("person").textContent = who;
  [held, behind] = [[], []];
  gone.clear();
  for (const work of outbox.answersOf(who)) gone.add(work.pair);
  draw();
  if (!outbox.waiting.length) fetchPairs();
  outbox.send();
}

byId("person").addEventListener("click", () => changeName());
byId("name-dialog").addEventListener("cancel", (event) => { if (!who) event.preventDefault(); });
byId("name-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = byId("name-input").value.trim().replace(/\s+/g, " ");
  try {
    await api(`/api/state?who=${encodeURIComponent(name)}`);
    byId("name-dialog").close();
    enter(name);
  } catch (error) {
    byId("name-status").textContent = error.message;
  }
});

byId("open-options").addEventListener("click", () => byId("options-dialog").showModal());
byId("close-options").addEventListener("click", () => byId("options-dialog").close());
byId("options-dialog").addEventListener("close", () => { waitingForKey = null; });
byId("reset-keys").addEventListener("click", () => {
  keys = { ...USUAL_KEYS };
  remember("keys", keys);
  drawKeys();
  byId("key-status").textContent = "The default keys are set again.";
});
byId("show-differences").addEventListener("change", (event) => {
  showDifferences = event.target.checked;
  remember("differences", showDifferences);
  draw();
});
byId("show-prediction").addEventListener("change", (event) => {
  showPrediction = event.target.checked;
  remember("prediction", showPrediction);
  held = [];
  fetchPairs();
});
byId("retry").addEventListener("click", async () => {
  try {
    await api("/api/rounds/retry", {});
  } catch (error) {
    say(error.message);
  }
});

byId("resend").addEventListener("click", () => outbox.release(true));
byId("discard").addEventListener("click", () => outbox.release(false));

/** The campaign, however long its server is away: without its name nobody's clicks can be told from others. */
async function campaignServed() {
  for (;;) {
    try {
      return await api("/api/campaign");
    } catch (error) {
      byId("waiting-words").textContent = `${error.message} Trying again.`;
      await later(2000);
    }
  }
}

async function begin() {
  drawKeys();
  const campaign = await campaignServed();
  outbox.open(campaign.ledger);
  try {
    byId("campaign").textContent = campaign.campaign;
    document.title = `Label: ${campaign.campaign}`;
    byId("names").replaceChildren(...campaign.people.map((name) => make("option", { value: name })));
    showDifferences ??= campaign.relation !== "directed"; // a question and its answer differ in every word
    byId("show-differences").checked = showDifferences;
    byId("show-prediction").checked = showPrediction;
    await loadGuideline();
    await disagreements.load();
  } catch (error) {
    byId("waiting-words").textContent = error.message;
  }
  if (who) enter(who);
  else changeName();
  keepWatch();
}

begin();
