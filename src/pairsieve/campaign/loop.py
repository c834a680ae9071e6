"""Where does a campaign stand, and what comes next? Running again is resuming.

`next_step` reads the ledger and the figures and knows where the campaign is; there is no other state.
Everything a step makes is an artifact under a key that names all it was made from, so what was finished
before a kill is found again, and a torn artifact is built again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.artifacts import load_array, save_array
from pairsieve.campaign.again import look_again
from pairsieve.campaign.checks import check_settings
from pairsieve.campaign.figures import read_json, read_sealed, round_line, write_sealed
from pairsieve.campaign.guidance import (
    advice_after,
    answers_changed,
    chosen_at,
    infer_open,
    known_pairs,
    labels_digest,
    save_opinion,
    stop_reason,
)
from pairsieve.campaign.likeness import frozen_rows, likeness
from pairsieve.campaign.notebook import campaign_html
from pairsieve.campaign.scoring import Scoring, digest_of
from pairsieve.campaign.view import View
from pairsieve.contracts import LabelSource, Selection, generator_for
from pairsieve.errors import SettingsError
from pairsieve.pairs import Ids, is_member, pair_rows
from pairsieve.settings import (
    CAMPAIGN_FILE,
    CampaignSettings,
    portable_task,
    save_settings,
)
from pairsieve.sources import TruthSource
from pairsieve.strategies import Named, strategy_named
from pairsieve.tasks import load_task
from pairsieve.tasks.task import shared_pairs


@dataclass(frozen=True)
class Step:
    """What comes next: `choose`, `label`, `train` (then measure) of a round, `finished`, or `stopped`."""

    name: str
    round: int
    waiting: int = 0  # questions nobody has answered yet
    reason: str = ""  # of stopping: the rule that held


def next_step(counts: Sequence[Any], measured: set[int], rounds: int) -> Step:
    """Where a campaign stands: `counts` are the ledger's rounds, `measured` the rounds with figures."""
    by_round = {count.round: count for count in counts}
    for number in range(1, rounds + 1):
        if number not in by_round:
            return Step("choose", number)
        if by_round[number].open:
            return Step("label", number, by_round[number].open)
        if number not in measured:
            return Step("train", number)
    return Step("finished", rounds)


def create_campaign(folder: Path, task_folder: Path, **settings: Any) -> Campaign:
    """A new campaign folder. Settings that cannot work (names, splits, budget) are refused here."""
    if (folder / CAMPAIGN_FILE).exists():
        raise SettingsError(
            f"{folder} already holds a campaign. Go on with: pairsieve run {folder}, "
            "or choose another folder."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} exists and is not empty. Choose a new folder for the campaign.")
    task = load_task(task_folder)
    if "split" not in settings and "train" not in task.splits:
        settings["split"] = "all" if "all" in task.splits else next(iter(task.splits))
    if "measure_splits" not in settings:
        measurable = [n for n, s in task.splits.items() if s.has_truth and len(s.positives)]
        settings["measure_splits"] = tuple(n for n in ("dev",) if n in measurable)
    made = CampaignSettings(
        task=portable_task(task_folder, folder), task_fingerprint=task.fingerprint, **settings
    )
    check_settings(made, task)
    folder.mkdir(parents=True, exist_ok=True)
    save_settings(folder / CAMPAIGN_FILE, made)
    return Campaign(folder)


class Campaign(Scoring):
    """One campaign folder. Cheap to open; models and texts are read when a step needs them."""

    def __repr__(self) -> str:
        return f"Campaign({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        return campaign_html(self.status())

    @cached_property
    def strategy(self) -> Named:
        return strategy_named(self.settings.strategy)

    def sources(self) -> list[LabelSource]:
        """Who answers, in turn: the truth, where the task has it; people and files have their own doors."""
        return [TruthSource(self.split.space, self.split.positives)] if self.split.has_truth else []

    # ── going on ────────────────────────────────────────────────────────────────────────────────

    def run(self, say: Callable[[str], None] = lambda words: None) -> Step:
        """Go on until finished, or until people owe answers. Returns where it stopped."""
        with self._alone():
            check_settings(self.settings, self.task)  # the file may have been edited since `init`
            if words := self._out_of_date():
                say(words)
            while True:
                step = self._next()
                if step.name == "choose":
                    reason = self._choose(step.round)
                    if reason:
                        return Step("stopped", step.round - 1, reason=reason)
                elif step.name == "label":
                    self._label(step.round)
                    if len(self.ledger.open_questions(step.round, "train")):
                        return self._next()
                elif step.name == "train":
                    say(round_line(self._train_and_measure(step.round)))
                else:
                    advice = read_sealed(self._round_file("advice", step.round))
                    if advice is None or answers_changed(self.ledger, step.round, advice):
                        self._advise(step.round, None)
                    return step

    def _next(self) -> Step:
        return next_step(self.ledger.counts(), self._measured(), self.settings.schedule.rounds)

    def step(self) -> Step:
        """What comes next, without doing it."""
        figures = self.figures()
        step = next_step(self.ledger.counts(), set(figures), self.settings.schedule.rounds)
        if step.name == "choose" and step.round > 1:
            advice = read_sealed(self._round_file("advice", step.round - 1))
            rows = [figures[n] for n in sorted(figures)]
            reason = stop_reason(self.settings.stop_when, rows, advice) if advice else ""
            return Step("stopped", step.round - 1, reason=reason) if reason else step
        return step

    def figures(self) -> dict[int, dict[str, Any]]:
        """The figures of each measured round; a torn or altered file counts as not measured."""
        read = (read_sealed(path) for path in sorted((self.folder / "rounds").glob("round-*.json")))
        return {row["round"]: row for row in read if row is not None}

    def status(self) -> dict[str, Any]:
        """Where the campaign stands, as `pairsieve status --json` prints it."""
        step, told = self.step(), self.settings
        figures = self.figures()
        rounds, labels, positives = [], 0, 0
        for count in self.ledger.counts():
            labels, positives = labels + count.labelled, positives + count.positives
            row = {"round": count.round, "labels": labels, "positives": positives, "open": count.open}
            row |= {"inferred": count.inferred}
            row |= {k: v for k, v in figures.get(count.round, {}).items() if k not in row}
            advice = read_sealed(self._round_file("advice", count.round))
            audit = read_sealed(self._round_file("audit", count.round))
            if answers_changed(self.ledger, count.round, figures.get(count.round)):
                row["changed"] = True  # an answer is another one since: the next run makes the figures anew
            more = {"advice": advice, "audit": audit}
            rounds.append(row | {name: said for name, said in more.items() if said})
        return {
            "campaign": str(self.folder),
            "task": told.task,
            "split": told.split,
            "strategy": told.strategy,
            "encoder": told.encoder,
            "learner": told.learner,
            "seed": told.seed,
            "budget": told.schedule.budget(),
            "state": {"finished": "finished", "stopped": "stopped", "label": "waiting"}.get(
                step.name, "ready"
            ),
            "next": {"step": step.name, "round": step.round, "waiting": step.waiting},
            **({"reason": step.reason} if step.reason else {}),
            "rounds": rounds,
        }

    # ── one round ───────────────────────────────────────────────────────────────────────────────

    def _choose(self, number: int) -> str:
        """Choose and ask; or the reason to stop instead, empty where there is none."""
        folder = self._selection(number, self._known())
        if number > 1:
            advice, figures = self._advise(number - 1, folder), self.figures()
            reason = stop_reason(self.settings.stop_when, [figures[n] for n in sorted(figures)], advice)
            if reason:
                return reason
        ids, info = load_array(folder / "ids.npy"), read_json(folder / "selection.json")
        chance = load_array(folder / "chance.npy") if info["has_chance"] else None
        left, right = pair_rows(ids)
        # Before the questions: once they are asked, a resumed run does not come by here again.
        write_sealed(self._round_file("selection", number), info)
        self.ledger.ask(
            number,
            ids,
            [self.split.left.keys[row] for row in left.tolist()],
            [self.split.right.keys[row] for row in right.tolist()],
            info["why"],
            info["strategy"],
            chance,
        )
        self._forget_embeddings(number - 1)
        return ""

    def _known(self, through: int | None = None) -> Ids:
        """Pairs that need not be asked: asked up to a round, or following from its labels."""
        return known_pairs(self.ledger, self.split.space, self.settings.transitivity, through)

    def _advise(self, number: int, coming: Path | None) -> dict[str, Any]:
        """Write what is to be said after a round, `coming` being the selection of the next one."""
        figures = self.figures()
        points = [(figures[n]["labels"], figures[n].get("average_precision")) for n in sorted(figures)]
        curve = [(labels, ap["value"]) for labels, ap in points if ap]
        chosen = [chosen_at(self.chosen(n)) for n in range(1, number + 1)]
        ahead = None if coming is None else chosen_at(coming)
        batches = replace(self.settings.schedule, rounds=number + 1).batches()
        part, frozen = self.split, frozen_rows(self.shared, self.learner.encoder, self.split)
        alike = partial(likeness, part.space, (part.left.texts, part.right.texts), frozen=frozen)
        advice = advice_after(self.ledger, part.space, chosen, ahead, batches[number], curve, alike).as_json()
        if read_sealed(self._round_file("advice", number)) != advice:  # a resumed run says the same
            write_sealed(self._round_file("advice", number), advice)
        return advice

    def chosen(self, number: int) -> Path:
        """The folder of the pairs chosen for a round, with what the model that chose them said before."""
        return self._selection(number, self._known(number - 1))

    def _selection(self, number: int, asked: Ids) -> Path:
        """The folder of the pairs chosen for a round, after `asked`."""
        told = self.settings
        key = {
            "task": told.task_fingerprint,
            "split": told.split,
            "round": number,
            "strategy": told.strategy,
            "seed_set": told.seed_set,
            "crowding": self.crowding,
            "leaning": self.leaning,
            "search": [told.search, told.neighbours],
            "asked": digest_of(asked),
            "model": self._model_key(number - 1) if number > 1 else self.learner.fingerprint,
            "seed": told.seed,
            "budget": told.schedule.batches()[number - 1],
        }
        return self.store.get("selection", key, lambda place: self._write_selection(place, number, asked))

    def _boundary(self, number: int) -> float:
        """Where the best recipe asks: 0 by the model's own opinion, moved by what the batches since told.

        A batch from around the boundary should be half matches. Where a share p of it were, the boundary lies
        log(p / (1 - p)) lower than the model thinks; a model's opinion of its own training pairs hides that.
        """
        if self.settings.recipe != "best" or self.learner.name != "full":
            return 0.0
        rates = [
            (count.positives + 0.5) / (count.labelled + 1.0)
            for count in self.ledger.counts()
            if 1 < count.round < number and count.labelled
        ]
        shares = np.clip(np.array(rates), 0.02, 0.98)
        return float(-np.log(shares / (1 - shares)).sum())

    def _write_selection(self, place: Path, number: int, asked: Ids) -> None:
        began = time.perf_counter()
        self._seconds = {}
        again = partial(look_again, self, number - 1)
        view = View(self.split, self.settings.task, self.search, number, asked, again, self._boundary(number))
        strategy = self.strategy
        if number == 1 and strategy.needs_model:
            strategy = strategy_named(self.settings.seed_set)
        budget = self.settings.schedule.batches()[number - 1]
        chosen = strategy.run(view, budget, generator_for(self.settings.seed, number, "select"))
        self._check_selection(strategy.name, chosen, budget, asked)
        embed = self._seconds.get("embed", 0.0)
        save_array(place / "ids.npy", chosen.ids)
        by_model = view.by_model()
        if by_model is not None and hasattr(by_model[0], "counts"):
            save_opinion(place, *by_model, chosen.ids, asked)
        if chosen.inclusion_probability is not None:
            save_array(place / "chance.npy", chosen.inclusion_probability)
        info = {
            "why": chosen.why,
            "strategy": strategy.name,
            "has_chance": chosen.inclusion_probability is not None,
            "search": view.searched,
            "seconds": {"embed": embed, "select": time.perf_counter() - began - embed},
        }
        (place / "selection.json").write_text(json.dumps(info))

    def _check_selection(self, name: str, chosen: Selection, budget: int, asked: Ids) -> None:
        ids = chosen.ids
        good = len(ids) == budget == len(np.unique(ids)) and self.split.space.contains(ids).all()
        if not good or is_member(ids, asked).any():
            raise SettingsError(
                f"strategy {name!r} broke its contract: wanted {budget:,} distinct unasked pairs of the "
                f"space, got {len(ids):,}. Run pairsieve.testing.check_strategy on it."
            )

    def _label(self, number: int) -> None:
        """Let every source answer what it can; with transitivity in parts, inferring what follows between."""
        everything = self.ledger.questions(number, "train").ids
        size = max(1, len(everything) // 8) if self.settings.transitivity else max(1, len(everything))
        for first in range(0, len(everything), size):  # fixed parts: a resumed run asks the same
            if self.settings.transitivity:
                infer_open(self.ledger, self.split.space, number)
            for source in self.sources():
                waiting = self.ledger.open_questions(number, "train")
                part = waiting[np.isin(waiting, everything[first : first + size])]
                if len(part):
                    self.ledger.answer(source.answer(part), who=source.name, source=source.name)
        if self.settings.transitivity:
            infer_open(self.ledger, self.split.space, number)

    def _train_and_measure(self, number: int) -> dict[str, Any]:
        info = self._selection_info(number)
        self._seconds = {}
        matcher = self.matcher(number)
        measures: dict[str, dict[str, Any]] = {}
        for name in self.settings.measure_splits:
            part = self.task.splits[name]
            if part.has_truth and len(part.positives):
                held_out = not shared_pairs(self.split, part)
                measures[name] = {**self.measure(matcher, part, number), "held_out": held_out}
        counts = [c for c in self.ledger.counts() if c.round <= number]
        seconds: dict[str, float] = {"embed": 0.0, **info["seconds"]}
        for phase, spent in self._seconds.items():
            seconds[phase] = seconds.get(phase, 0.0) + spent
        first: dict[str, Any] = next(iter(measures.values()), {})
        row: dict[str, Any] = {
            "round": number,
            "labels": sum(c.labelled for c in counts),
            "positives": sum(c.positives for c in counts),
            "batch": {"labels": counts[-1].labelled, "positives": counts[-1].positives},
            **{k: first[k] for k in ("average_precision", "precision_at_recall", "best_f1") if k in first},
            "measures": measures,
            "head": {"weight": matcher.weight, "bias": matcher.bias},
            "threshold": -matcher.bias / matcher.weight if matcher.weight > 0 else None,
            "search": info["search"],
            "model": self._model_key(number),
            "scored_by": self.scored_by,
            "rests_on": labels_digest(self.ledger, number),
            "seconds": {phase: round(spent, 3) for phase, spent in seconds.items()},
        }
        write_sealed(self._round_file("round", number), row)
        return row

    # ── keys, figures, order ────────────────────────────────────────────────────────────────────

    def _measured(self) -> set[int]:
        """Rounds whose figures are whole, of the model that the labels make now, scored as settings say."""
        return {
            number
            for number, row in self._answered().items()
            if row.get("model") == self._model_key(number) and row.get("scored_by", {}) == self.scored_by
        }

    def _answered(self) -> dict[int, dict[str, Any]]:
        """The figures of rounds that wait for no answer."""
        closed = {count.round for count in self.ledger.counts() if not count.open}
        return {number: row for number, row in self.figures().items() if number in closed}

    def _out_of_date(self) -> str:
        """Which rounds are trained again, and why; empty where all figures are of what stands here now."""
        figures = self._answered()
        stale = sorted(figures.keys() - self._measured())
        if not stale:
            return ""
        rounds = f"round {stale[0]}" if len(stale) == 1 else f"rounds {stale[0]} to {stale[-1]}"
        changed = any(answers_changed(self.ledger, number, figures[number]) for number in stale)
        why = "answers changed since" if changed else f"{CAMPAIGN_FILE} says otherwise than when they ran"
        return f"{rounds}: trained and measured again, for {why}; no label is asked for twice"

    def _selection_info(self, number: int) -> dict[str, Any]:
        """How the pairs of a round were chosen; where its file is torn, they are chosen again to tell."""
        info = read_sealed(self._round_file("selection", number))
        if info is None:
            info = read_json(self.chosen(number) / "selection.json")
            write_sealed(self._round_file("selection", number), info)
        return info

    def _round_file(self, kind: str, number: int) -> Path:
        return self.folder / "rounds" / f"{kind}-{number:03d}.json"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One run at a time in a folder; the lock goes with the process, however it ends."""
        import fcntl

        with (self.folder / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SettingsError(
                    f"{self.folder} is being run by another process. Wait for it, or stop it first."
                ) from None
            yield
