"""The rounds of a campaign: draw, choose, ask, answer, train, measure, advise. Running again is resuming.

`next_step` reads the ledger and the figures and knows where the campaign is; there is no other state.
Everything a step makes is an artifact under a key that names all it was made from, so what was finished
before a kill is found again, and an incomplete artifact is built again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.advice import Advice, advise, parse_stop_rule
from pairsieve.artifacts import ArtifactStore, labels_digest, load_array
from pairsieve.audit.run import ScoredSplit
from pairsieve.campaign import questions
from pairsieve.campaign.creating import accepted_changes, check_settings, record_settings, save_accepted
from pairsieve.campaign.figures import (
    AuditFigures,
    read_checksummed,
    round_line,
    settings_digest,
    write_checksummed,
)
from pairsieve.campaign.scoring import SplitScorer, Stopwatch
from pairsieve.campaign.selecting import (
    FIRST_PART,
    SelectionInfo,
    first_questions,
    selection_folder,
    selection_info,
)
from pairsieve.campaign.status import UNSURE, RoundStatus, Status, disagreement, lacking, more_labels, tied
from pairsieve.campaign.training import Labels, OutOfFold, Trained, Trainer
from pairsieve.contracts import MapShards
from pairsieve.errors import InputError, LedgerError, PairsieveError, SettingsError
from pairsieve.files import locked, read_record
from pairsieve.ledger import Ledger, open_ledger
from pairsieve.ledger.names import TASK_LABELS
from pairsieve.ledger.records import RoundCount
from pairsieve.measure.figures import Basis, Batch, Head, RoundFigures, SplitFigures, exact_figures
from pairsieve.models import encoder_named, learner_named
from pairsieve.progress import doing
from pairsieve.scorer import ScoredSpace, Scorer
from pairsieve.settings import CAMPAIGN_FILE, load_settings
from pairsieve.sources import answer_from_task
from pairsieve.tasks import Split, Task, load_task
from pairsieve.tasks.task import held_out_dev, shared_pairs

log = logging.getLogger("pairsieve")


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
    for round in range(1, rounds + 1):
        if round not in by_round:
            return Step("choose", round)
        if by_round[round].open:
            return Step("label", round, by_round[round].open)
        if round not in measured:
            return Step("train", round)
    return Step("finished", rounds)


class Campaign:
    """One campaign folder. Cheap to open; models and texts are read when a step needs them."""

    def __init__(
        self,
        folder: Path,
        cache: Path | None = None,
        shards: MapShards | None = None,
        accept_settings: bool = False,
    ) -> None:
        """`cache`: a folder of embeddings shared with other campaigns. `shards`: the machines that embed and
        scan (see distributed/). `accept_settings`: what was edited since the last run is meant."""
        self.folder = Path(folder)
        self.settings = load_settings(self.folder / CAMPAIGN_FILE)
        self._changes = accepted_changes(self.folder, self.settings, accept_settings)
        self.store = ArtifactStore(self.folder / "artifacts")
        self._shared = ArtifactStore(cache) if cache else self.store
        self._shards = shards
        self._watch = Stopwatch()

    def __repr__(self) -> str:
        return f"Campaign({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    # ── what a campaign consists of ─────────────────────────────────────────────────────────────

    @cached_property
    def task(self) -> Task:
        folder = self.settings.task_folder(self.folder)
        task = load_task(folder)
        if task.fingerprint != self.settings.task_fingerprint:
            raise SettingsError(
                f"{self.folder} belongs to another task: it began with "
                f"{self.settings.task_fingerprint[:12]}, {folder} now holds {task.fingerprint[:12]}. "
                "Put the old task folder back, or begin a new campaign (pairsieve init). To keep answers: "
                f"pairsieve ledger export {self.folder} --out old.csv, pairsieve data tables --labels old.csv"
            )
        return task

    @property
    def split(self) -> Split:
        """The split whose pairs are asked about."""
        return self.task.splits[self.settings.split]

    @cached_property
    def ledger(self) -> Ledger:
        """The campaign's ledger, found to be its own and as it was written."""
        ledger = self.open_ledger()
        try:
            ledger.check_whole()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def open_ledger(self) -> Ledger:
        """The campaign's ledger, whatever state it is in; refused where it is another's, or gone."""
        settings, place = self.settings, self.settings.ledger_place(self.folder)
        ran = any((self.folder / "rounds").glob("round-*.json"))
        if ran and isinstance(place, Path) and not place.exists():
            raise self._ledger_is_gone(str(place))
        ledger = open_ledger(place, settings.task_fingerprint, settings.split, settings.campaign_id)
        if ran and not ledger.rounds():
            ledger.close()
            raise self._ledger_is_gone(ledger.place)
        return ledger

    def _ledger_is_gone(self, place: str) -> LedgerError:
        return LedgerError(
            f"{place}: the ledger is empty or missing, yet {self.folder / 'rounds'} holds figures of rounds. "
            "Put the ledger back from a copy; to begin anew, use a new campaign folder."
        )

    @cached_property
    def trainer(self) -> Trainer:
        """Makes scorers from labels; opens the encoder."""
        settings = self.settings
        device = None if settings.device == "auto" else settings.device
        encoder = encoder_named(*self._encoder_names, device, settings.precision)
        encoder.token_cache.store = self._shared  # a collection is tokenised once, for all campaigns
        more: dict[str, Any] = {"shared": False} if settings.separate_encoders else {}
        if settings.learning_rate is not None:
            more["learning_rate"] = settings.learning_rate
        learner = learner_named(settings.learner, encoder, device, settings.recipe, **more)
        scores = SplitScorer(self.split, settings, self.store, self._shared, self._shards, self._watch)
        dev = held_out_dev(self.task, self.split)
        return Trainer(settings, learner, self.split, self.store, scores, dev)

    @property
    def _encoder_names(self) -> tuple[str, int, str, str]:
        settings = self.settings
        return settings.encoder, settings.max_length, settings.left_prefix, settings.right_prefix

    # ── going on ────────────────────────────────────────────────────────────────────────────────

    def run(self, say: Callable[[str], None] = lambda message: None) -> Step:
        """Go on until finished, or until people owe answers. Returns where it stopped."""
        busy = SettingsError(f"{self.folder} is being run by another process. Wait for it, or stop it first.")
        with locked(self.folder / ".lock", busy):
            check_settings(self.settings, self.task)  # the file may have been edited since `init`
            messages, self._changes = (self._changes, self._stale_message()), ""
            record_settings(self.folder, self.settings)  # the ledger was read: they fit it
            for message in filter(None, messages):
                say(message)
            took: dict[str, float] = {}
            while True:
                step = self.step()
                where = f"round {step.round} of {self.settings.schedule.rounds}"
                if step.name == "choose":
                    with doing("choosing pairs", where, took):
                        self._ask_first_part(say)
                        trained = self._train(step.round - 1)  # found again, unless its files are gone
                        self._draw(step.round, trained.scorer)
                        self._ask(step.round, self._choose(step.round, trained))
                elif step.name == "label":
                    self._answer(step.round)
                    if self.step().name == "label":
                        return self.step()
                elif step.name == "train":
                    self._watch.seconds.clear()
                    with doing("training and measuring", where, took):
                        trained = self._train(step.round)
                        figures = self._measure(step.round, trained.scorer)
                    say(round_line(figures, trained=bool(self.labels(step.round).round)))
                    self._advise(step.round)
                else:
                    return step

    def step(self) -> Step:
        """What comes next, without doing it; `stopped` where a stop rule holds before the next batch."""
        counts = self.counts()
        if questions.first_part_only(self.ledger, self.settings, counts):
            return Step("choose", 1)
        figures = self.figures()
        measured = figures.keys() - self.stale_rounds().keys()
        step = next_step(counts, measured, self.settings.schedule.rounds)
        before = step.round - 1
        if step.name == "choose" and before and self.settings.stop_when and not self._is_drawn(step.round):
            rule, advice = parse_stop_rule(self.settings.stop_when), self.advice(before, figures)
            if reason := rule.reason(figures[before], advice):
                return Step("stopped", before, reason=reason)
        return step

    # ── one round: draw, choose, ask, answer, train, measure, advise ──────────────────────────────

    def _draw(self, round: int, scorer: Scorer) -> None:
        """Ask the measuring share of a round, before its pairs are chosen: these are other ones."""
        count = self.settings.measuring_labels(round)
        if count and not self._is_drawn(round):
            scored = self._scored_split(round - 1, scorer)
            questions.draw_measuring(self.ledger, self.split, scored, round, count, self.settings.seed)

    def _choose(self, round: int, trained: Trained) -> Path:
        """The folder of the pairs chosen for a round, by what was trained on the labels before it."""
        space, transitivity = self.split.space, self.settings.transitivity
        unaskable = np.union1d(
            questions.unaskable_pairs(self.ledger, space, transitivity, round - 1),
            questions.asked_before_choice(self.ledger, round),
        )
        shares = [
            (count.positives + 0.5) / (count.labelled + 1.0)
            for count in self.ledger.counts()
            if 1 < count.round < round and count.labelled
        ]
        more = questions.not_spent(self.ledger, self.settings, space.size - len(unaskable), round)
        labels = self.labels(round - 1)
        return selection_folder(self.trainer, trained, labels, round, unaskable, shares, more)

    def _ask(self, round: int, selection: Path) -> None:
        """Write the questions of a round to the ledger."""
        info = selection_info(selection)
        ids = load_array(selection / "ids.npy")
        chance = load_array(selection / "chance.npy") if info.has_chance else None
        # Before the questions: once they are asked, a resumed run does not come by here again.
        write_checksummed(self._round_file("selection", round), info.as_json())
        self.ledger.ask(round, ids, *self.split.keys(ids), info.why, info.strategy, chance)
        if self.labels(round - 1).round:
            scored = {self.settings.split, *self.settings.measure_splits, "dev"}
            splits = [split for name, split in self.task.splits.items() if name in scored]
            self.trainer.scores.forget_rows(self.trainer.model_key(self.labels(round - 1)), splits)

    def _answer(self, round: int) -> None:
        """Let the task answer what it can; with transitivity in parts, inferring what follows between."""
        everything = self.ledger.questions(round, "train").ids
        size = max(1, len(everything) // 8) if self.settings.transitivity else max(1, len(everything))
        for first in range(0, len(everything), size):  # fixed parts: a resumed run asks the same
            if self.settings.transitivity:
                questions.infer_labels(self.ledger, self.split.space, round)
            waiting = self.ledger.open_questions(round, "train")
            batch = waiting[np.isin(waiting, everything[first : first + size])]
            answer_from_task(self.ledger, self.split, batch)
        if self.settings.transitivity:
            questions.infer_labels(self.ledger, self.split.space, round)
        if self.settings.measuring_labels(round):
            answer_from_task(self.ledger, self.split, questions.open_measuring(self.ledger, round))

    def _train(self, round: int) -> Trained:
        """What the labels up to a round make, trained or found again; of round 0, the encoder as it came.

        All training of a round is here: choosing and measuring take what it returns.
        """
        return self.trainer.train(self.labels(round))

    def _measure(self, round: int, scorer: Scorer) -> RoundFigures:
        """Exact figures of a scorer over all pairs of each measured split, in a file with a checksum."""
        chosen, measures = self._selection_info(round), dict[str, SplitFigures]()
        for split in (self.task.splits[name] for name in sorted(self.settings.measure_splits)):
            if split.has_truth and len(split.positives):
                scored = self.score(split, round, scorer)
                with self._watch.timed("measure"):
                    found, _ = exact_figures(scored.scan, split.positives, split.stated_negatives)
                held_out = not shared_pairs(self.split, split)
                measures[split.name] = SplitFigures(**vars(found), held_out=held_out)
        counts = [count for count in self.counts() if count.round <= round]
        seconds: dict[str, float] = {"embed": 0.0, **chosen.seconds}
        for phase, spent in self._watch.seconds.items():
            seconds[phase] = seconds.get(phase, 0.0) + spent
        estimated, measuring = None, bool(self.settings.measuring_labels(round))
        if measuring:
            own = self._scored_split(round, scorer)
            estimated = questions.estimated_figures(self.ledger, own, round, self.settings.seed)
        figures = RoundFigures(
            round=round,
            labels=sum(count.labelled for count in counts),
            positives=sum(count.positives for count in counts),
            batch=Batch(counts[-1].labelled, counts[-1].positives),
            measures=measures,
            head=Head(scorer.weight, scorer.bias),
            threshold=scorer.even_odds,
            scorer=scorer.fingerprint,
            reranked=scorer.reranker is not None,
            search=chosen.search,
            basis=Basis(self._labels_digest(round), self._settings_digest),
            seconds={phase: float(np.round(spent, 3)) for phase, spent in seconds.items()},
            measuring=measuring,
            estimated=estimated,
        )
        write_checksummed(self._round_file("round", round), figures.as_json())
        return figures

    def _advise(self, round: int) -> None:
        """Log what the figures up to a round say about going on; `step` stops by it where a rule says so."""
        log.info("round %d: %s", round, self.advice(round, self.figures()).sentence)

    # ── what a round needs ────────────────────────────────────────────────────────────────────────

    def _ask_first_part(self, say: Callable[[str], None]) -> None:
        """Ask the first pairs of a large table, for which nothing need be embedded, before the others."""
        if self.counts() or (chosen := first_questions(self.trainer)) is None:
            return
        self.ledger.ask(1, chosen.ids, *self.split.keys(chosen.ids), chosen.why, FIRST_PART)
        if not self.split.has_truth:
            say(f"{len(chosen.ids):,} pairs are ready; the others of round 1 follow once texts are embedded")

    def _is_drawn(self, round: int) -> bool:
        return bool(self.settings.measuring_labels(round)) and questions.is_drawn(self.ledger, round)

    def counts(self) -> list[RoundCount]:
        """Where each round stands, its measuring labels counted."""
        measures = any(map(self.settings.measuring_labels, range(1, self.settings.schedule.rounds + 1)))
        return questions.counts_with_measuring(self.ledger) if measures else self.ledger.counts()

    def _scored_split(self, round: int, scorer: Scorer) -> ScoredSplit:
        """The asked split as draws and estimates see it."""
        scored = self.score(self.split, round, scorer)
        return ScoredSplit(scored.scan, scored.scorer.head_probability, scored.scorer.even_odds)

    def _selection_info(self, round: int) -> SelectionInfo:
        """How the pairs of a round were chosen; where its file is incomplete, they are chosen again."""
        kept = read_checksummed(self._round_file("selection", round), partial(read_record, SelectionInfo))
        if kept is not None:
            return kept
        info = selection_info(self._choose(round, self._train(round - 1)))
        write_checksummed(self._round_file("selection", round), info.as_json())
        return info

    def advice(self, round: int, figures: Mapping[int, RoundFigures]) -> Advice:
        """What `figures` up to a measured round say about going on."""
        rows = [row for number, row in sorted(figures.items()) if number <= round]
        return advise(rows, replace(self.settings.schedule, rounds=round + 1).batches()[round])

    # ── the scorer of a round, and what it makes of a split ─────────────────────────────────────

    def labels(self, round: int) -> Labels:
        """The labels up to a round; of round 0 while there is none, though every question has an answer."""
        ids, values = self.ledger.labels(through=round)
        return Labels(ids, values, round if len(ids) else 0)

    def scorer(self, round: int | None = None) -> Scorer:
        """The scorer of a round (the latest): what every list, figure and answer of the campaign rests on."""
        labels = self.labels(self.trained_round() if round is None else round)
        return self.trainer.scorer(labels) if labels.round else self.trainer.pretrained()

    def out_of_fold(self, round: int | None = None) -> OutOfFold:
        """The labelled pairs of a round (the latest) as models score them that did not see them."""
        return self.trainer.out_of_fold(self.labels(self.trained_round() if round is None else round))

    def score(self, split: Split, round: int | None = None, scorer: Scorer | None = None) -> ScoredSpace:
        """A split scored by the scorer of a round (the latest), or by another form of it, such as plain."""
        round = self.trained_round() if round is None else round
        model = self.trainer.model_key(self.labels(round))
        return self.trainer.scores.score(scorer or self.scorer(round), split, model)

    def latest(self) -> int:
        """The last round whose questions are all answered; 0 before the first, or without a label."""
        counts = self.ledger.counts()
        done = [count.round for count in counts if not count.open]
        part = questions.first_part_only(self.ledger, self.settings, counts)
        last = 0 if part else max(done, default=0)
        return last if self.labels(last).round else 0

    def trained_round(self, purpose: str = "") -> int:
        """The latest round with a model; before the first an error in words, such as no model "to audit"."""
        round = self.latest()
        if round == 0:
            unsure = any(not count.open for count in self.counts()) and not len(self.ledger.labels()[0])
            what = UNSURE if unsure else "no round is complete yet"
            what += f", so there is no model {purpose}" if purpose else ""
            remedy = disagreement(len(tied(self.ledger)), self.folder) or self.more_labels()
            raise InputError(what, where=str(self.folder), remedy=remedy)
        return round

    def more_labels(self) -> str:
        """How more labels are come by, in words."""
        step = self.step()
        return more_labels(step.name, step.waiting, self.folder)

    # ── what stands in the folder ───────────────────────────────────────────────────────────────

    def figures(self) -> dict[int, RoundFigures]:
        """The figures of each measured round; an incomplete or altered file is not counted."""
        files = sorted((self.folder / "rounds").glob("round-*.json"))
        read = (read_checksummed(path, RoundFigures.of) for path in files)
        return {found.round: found for found in read if found is not None}

    def stale_rounds(self) -> dict[int, str]:
        """Measured rounds whose figures are of other labels or settings than stand here now: round -> why."""
        closed = {count.round for count in self.ledger.counts() if not count.open}
        stale = {}
        for round, found in self.figures().items():
            if round not in closed:
                continue
            if found.basis.labels != self._labels_digest(round):
                stale[round] = "answers changed since"
            elif self._settings_digest not in (None, found.basis.settings):
                stale[round] = f"{CAMPAIGN_FILE} says otherwise than when it ran"
        return stale

    @cached_property
    def _settings_digest(self) -> str | None:
        """Names what decides the scorer; None where the encoder is not on this machine."""
        try:
            encoder = encoder_named(*self._encoder_names, precision=self.settings.precision)
            return settings_digest(self.settings, encoder.fingerprint)
        except PairsieveError:
            return None

    def _labels_digest(self, round: int) -> str:
        return labels_digest(*self.ledger.labels(through=round))

    def _stale_message(self) -> str:
        """Which rounds are trained and measured again, and why; empty where none is."""
        stale = self.stale_rounds()
        if not stale:
            return ""
        first, last = min(stale), max(stale)
        rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
        why = stale[first] if first == last else stale[first].replace("when it ran", "when they ran")
        return f"{rounds}: trained and measured again, for {why}; no label is asked for twice"

    def status(self) -> Status:
        """Where the campaign stands."""
        step, figures, stale = self.step(), self.figures(), self.stale_rounds()
        rounds, labels, positives = [], 0, 0
        for count in self.counts():
            labels, positives = labels + count.labelled, positives + count.positives
            found = RoundStatus(
                round=count.round,
                labels=labels,
                positives=positives,
                open=count.open,
                inferred=count.inferred,
                figures=figures.get(count.round),
                stale=stale.get(count.round, ""),
                advised=self.advice(count.round, figures) if count.round in figures else None,
                audit=read_checksummed(self._round_file("audit", count.round), AuditFigures.of),
            )
            rounds.append(found)
        errors = None
        if self.settings.transitivity:
            errors = questions.inferred_errors(self.ledger, self.split.space)
        about = (self.folder, self.settings, step.name, step.round, step.waiting, step.reason)
        by_task = len(self.ledger.answers_by_person().get(TASK_LABELS, ()))
        ended = step.name in ("finished", "stopped")
        lacks = lacking(self.latest() > 0, self.ledger.labels(None)[1]) if ended else ""
        return Status(*about, errors, tuple(rounds), by_task, len(tied(self.ledger)), lacks)

    def _round_file(self, kind: str, round: int) -> Path:
        return self.folder / "rounds" / f"{kind}-{round:03d}.json"

    def extend(self, labels: int) -> None:
        """Plan at least so many labels more, in further rounds as the schedule goes on."""
        settings = self.settings
        rounds = settings.schedule.rounds
        wanted = settings.schedule.budget() + labels
        while settings.schedule.budget() < wanted:
            rounds += 1
            settings = replace(settings, schedule=replace(settings.schedule, rounds=rounds))
        check_settings(settings, self.task)
        save_accepted(self.folder, settings)
        self.settings = settings
        self.__dict__.pop("trainer", None)  # it holds the settings too
