// What waits for somebody's decision: pairs on which people disagree, and answers that cannot all be right.

import { api, byId, make, newToken } from "/static/common.js";
import { drawPair } from "/static/pairs.js";

const WORDS = { match: "Match", "no match": "No match", unsure: "Unsure" };
const votesOf = (pair) => pair.votes.map(({ who, label }) => `${who}: ${label}`).join(", ");

export class Disagreements {
  /** `page`: post(work) a click to the server, say(words). What was posted comes back through `done`. */
  constructor(page) {
    this.page = page;
    this.queue = ""; // the server's mark of what is drawn
    this.made = []; // pairs decided in this visit, the latest last
    byId("undo-decision").addEventListener("click", () => this.takeBack());
  }

  async load() {
    try {
      const { disputes, contradictions, queue } = await api("/api/disputes");
      const focused = document.activeElement?.dataset?.decides;
      this.queue = queue;
      const waiting = disputes.length + contradictions.filter((each) => !each.decided).length;
      byId("disputes").hidden = !disputes.length && !contradictions.length && !this.made.length;
      byId("dispute-count").textContent = waiting || "";
      byId("dispute-count").hidden = !waiting;
      byId("undo-decision").hidden = !this.made.length;
      byId("contradictions").hidden = !contradictions.length;
      byId("contradiction-list").replaceChildren(...contradictions.map((each) => this.chain(each)));
      byId("disagreements").hidden = !disputes.length;
      byId("dispute-list").replaceChildren(...disputes.map((pair) =>
        this.pair(pair, `${votesOf(pair)}${pair.tie ? "" : " (the majority counts, unless you decide)"}`)));
      // Whoever decides by keyboard goes on where they were, or can take it back.
      if (focused) (document.querySelector(`[data-decides="${focused}"]`) ?? byId("undo-decision")).focus();
    } catch (error) {
      this.page.say(error.message);
    }
  }

  /** One pair with its texts, what was said of it, and the three answers; `pair.label` is the one that counts. */
  pair(pair, words) {
    const buttons = Object.keys(WORDS).map((label) => {
      const button = make("button", { type: "button", class: `small ${label.replace(" ", "-")}`, "data-decides": `${pair.pair} ${label}` }, WORDS[label]);
      if (pair.label) button.setAttribute("aria-pressed", String(pair.label === label));
      button.addEventListener("click", () => this.decide(pair, label));
      return button;
    });
    return make("article", { class: "dispute", "aria-label": `${pair.left.key} and ${pair.right.key}` },
      make("div", { class: "pair" }, ...drawPair(pair, true, "h3")),
      make("p", { class: "hint" }, words),
      make("div", { class: "row", role: "group", "aria-label": `Decide: ${pair.left.key} and ${pair.right.key}` }, make("span", {}, "It is:"), ...buttons));
  }

  /** A chain of matches and the "no match" that closes it: first in one line, then pair by pair. */
  chain({ pairs, also, decided }) {
    const sign = { match: " = ", "no match": " ≠ " };
    const line = pairs.map((pair) => `${pair.left.key}${sign[pair.label] ?? " ? "}${pair.right.key}`).join(", ");
    const more = [];
    if (also) more.push(`${also} more “no match” ${also === 1 ? "answer stands" : "answers stand"} inside the same group of texts.`);
    if (decided) more.push("Every pair was decided, and the decisions still contradict each other: nothing is inferred here.");
    return make("section", { class: "chain", "aria-label": `Contradiction: ${line}` },
      make("p", { class: "chain-line" }, line),
      ...more.map((words) => make("p", { class: "hint" }, words)),
      ...pairs.map((pair) => this.pair(pair, `Now: ${pair.label}. ${pair.settled_by ? `Decided by ${pair.settled_by}. ` : ""}${votesOf(pair)}`)));
  }

  decide(pair, label) {
    this.page.post({ kind: "decide", pair: pair.pair, label, token: newToken() });
  }

  takeBack() {
    const pair = this.made.at(-1);
    if (pair) this.page.post({ kind: "undecide", pair, token: newToken() });
  }

  /** A decision, or its undo, is in the ledger, or was refused (then `made` is empty). */
  async done({ kind, pair, label }, made) {
    if (kind === "undecide") {
      this.made = this.made.filter((each) => each !== pair);
      this.page.say(made.undone ? "The decision is taken back." : "That decision no longer stands.");
    } else if (made.version !== undefined) {
      this.made.push(pair);
      this.page.say(`Decided: ${label}.`);
    }
    await this.load();
  }
}
