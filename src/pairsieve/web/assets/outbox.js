// Clicks on their way to the ledger. Each is kept in this browser under a name of its own, so that closing the
// page, a second tab or a server that is away loses none; it is forgotten once the server has it in the ledger.

import { api, later } from "/static/common.js";

const PATHS = { answer: "/api/answers", undo: "/api/undo", skip: "/api/skip", decide: "/api/disputes", undecide: "/api/disputes/undo", review: "/api/review/pairs", group: "/api/review/groups" };
const HOPELESS = [400, 409, 413, 422]; // the server understood, and will say the same again
const SHORTEST = 500; // milliseconds between tries
const LONGEST = 8000;

const bodyOf = ({ kind, pair, label, token, who, ledger, rows, apart }) => {
  const sent = { who, ledger };
  if (kind === "review") return { ...sent, pair, label, token };
  if (kind === "group") return { ...sent, rows, apart, token };
  if (kind === "answer") return { ...sent, answers: [{ pair, label, token }] };
  if (kind === "decide") return { ...sent, answer: { pair, label, token } };
  return kind === "skip" ? { ...sent, pair } : { ...sent, pair, token };
};

export class Outbox {
  /** `page`: done(work, made) when the server has it; changed() when what waits or was refused is another. */
  constructor(page) {
    this.page = page;
    this.ledger = "";
    this.waiting = []; // in the order of clicking
    this.refused = []; // with the server's words
    this.trouble = ""; // why what waits is not there yet
    this.kept = true; // whether the browser lets us keep clicks
    this.sending = false;
    this.last = 0; // when the last click was made, in milliseconds
    addEventListener("beforeunload", (event) => {
      if (!this.kept && this.waiting.length) event.preventDefault();
    });
  }

  /** Take up what waits for this ledger: of earlier visits, of other tabs, of whoever clicked here. */
  open(ledger) {
    this.ledger = ledger;
    [this.waiting, this.refused] = ["click", "refused"].map((kind) => this.found(kind));
    this.last = Math.max(this.last, ...this.waiting.map((work) => Number.parseInt(work.id, 10) || 0));
    this.page.changed();
  }

  found(kind) {
    const start = `pairsieve ${kind} ${this.ledger} `;
    try {
      const names = Object.keys(localStorage).filter((name) => name.startsWith(start)).sort();
      return names.map((name) => ({ ...JSON.parse(localStorage.getItem(name)), id: name.slice(start.length) }));
    } catch {
      return [];
    }
  }

  keep(kind, { id, ...work }) {
    try {
      localStorage.setItem(`pairsieve ${kind} ${this.ledger} ${id}`, JSON.stringify(work));
    } catch {
      this.kept = false; // private windows may refuse
    }
  }

  forget(kind, work) {
    try {
      localStorage.removeItem(`pairsieve ${kind} ${this.ledger} ${work.id}`);
    } catch {
      // there was nothing to forget
    }
  }

  add(work) {
    this.last = Math.max(Date.now(), this.last + 1); // a clock may go backwards, the order of clicks may not
    const click = { ...work, ledger: this.ledger, id: `${String(this.last).padStart(15, "0")} ${work.token ?? ""}` };
    this.waiting.push(click);
    this.keep("click", click);
    this.send();
  }

  answersOf(who) {
    return this.waiting.filter((work) => work.kind === "answer" && work.who === who);
  }

  /** Send what waits, in order, one at a time, until it is all there. */
  async send() {
    if (this.sending) {
      while (this.sending) await later(20);
      return;
    }
    this.sending = true;
    let pause = SHORTEST;
    while (this.waiting.length) {
      const work = this.waiting[0];
      let made = {};
      try {
        made = await api(PATHS[work.kind], bodyOf(work));
      } catch (error) {
        if (!HOPELESS.includes(error.status)) {
          this.trouble = error.message;
          this.page.changed();
          await later(Math.max(pause, 1000 * Math.min(error.retryAfter ?? 0, 30)));
          pause = Math.min(2 * pause, LONGEST);
          continue;
        }
        this.refused.push({ ...work, words: error.message });
        this.keep("refused", this.refused.at(-1));
      }
      pause = SHORTEST;
      this.waiting.shift();
      this.forget("click", work);
      const passed = this.trouble;
      this.trouble = "";
      this.page.done(work, made);
      if (passed || this.refused.length) this.page.changed();
    }
    this.sending = false;
  }

  /** Try once more what was refused, or let it go. */
  release(again) {
    for (const { words, ...work } of this.refused.splice(0)) {
      this.forget("refused", work);
      if (!again) continue;
      this.waiting.push(work);
      this.keep("click", work);
    }
    this.page.changed();
    this.send();
  }
}
