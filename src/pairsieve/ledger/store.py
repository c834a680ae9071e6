"""The ledger of questions, answers and current labels, in SQLite or PostgreSQL.

Everything is a transaction: it is there whole once the call has returned, and not at all if it has not.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger.engine import make_engine, reading, shown_place, writing
from pairsieve.ledger.events import (
    Identity,
    Owner,
    Tail,
    append,
    asked_as,
    column,
    columns,
    identity,
    known,
    known_purpose,
    mark,
    narrow,
    new_tokens,
    pairs_and_labels,
    rows_with,
    tail,
)
from pairsieve.ledger.inference import BY_RULE, retract_contradicted, retract_unsupported, write_inferred
from pairsieve.ledger.maintenance import Verification, digest, export_events, vacuum, verify
from pairsieve.ledger.records import Answers, Questions, RoundCount, Votes
from pairsieve.ledger.schema import (
    VERSION,
    answers,
    contents,
    create_schema,
    current_labels,
    meta,
    questions,
    standing_answers,
)
from pairsieve.pairs import Ids, Mask, is_member

Clock: TypeAlias = Callable[[], datetime]
Texts: TypeAlias = Sequence[str] | None  # one text for each answer, or none at all


def utc_now() -> datetime:
    return datetime.now(UTC)


def open_ledger(
    place: str | Path, task_fingerprint: str, split: str = "", campaign: str = "", clock: Clock = utc_now
) -> Ledger:
    """The ledger in a SQLite file or behind a database URL (`postgresql://…`); created if there is none.

    It belongs to the task, the split and the campaign with which it was created, and is refused to others.
    """
    ledger = Ledger(place, clock)
    try:
        ledger._prepare(Owner(task_fingerprint, split, campaign))
    except BaseException:
        ledger.close()
        raise
    return ledger


class Ledger:
    """Append-only questions and answers. Get one from `open_ledger`; safe for threads and processes."""

    def __init__(self, place: str | Path, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._engine = make_engine(place)
        self._memo: tuple[tuple[int, int], dict[Hashable, Any]] = ((0, 0), {})
        self.place = shown_place(self._engine)
        self.id = ""  # of this very ledger, wherever it is kept

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def ask(
        self,
        round: int,
        ids: Ids,
        left_keys: Sequence[str],
        right_keys: Sequence[str],
        why: str | Sequence[str],
        strategy: str,
        inclusion_probability: NDArray[np.float64] | None = None,
        purpose: str = "train",
    ) -> int:
        """Write the questions of one round, purpose and strategy, all or none; returns how many are new.

        Asking these again with the same pairs changes nothing and returns 0; with other pairs it is
        refused, as is a pair that was asked before: an audit pair stays sealed, a training pair is no
        audit. Parts of a round differ in `strategy`. ids: (n,) distinct int64; the rest row by row.
        """
        wanted = np.asarray(ids, dtype=np.int64)
        reasons = [why] * len(wanted) if isinstance(why, str) else list(why)
        chances = [None] * len(wanted) if inclusion_probability is None else list(inclusion_probability)
        what = f"round {round} ({purpose})"
        if not len(wanted):
            raise LedgerError(f"{what}: no pairs to ask about. A round has at least one question.")
        if {len(wanted)} != {len(left_keys), len(right_keys), len(reasons), len(chances)}:
            raise LedgerError(
                f"{what}: {len(wanted):,} ids with {len(left_keys):,} left keys, {len(right_keys):,} right "
                f"keys, {len(reasons):,} reasons, {len(chances):,} probabilities. Give one of each per id."
            )
        in_order = np.sort(wanted)
        if (in_order[1:] == in_order[:-1]).any():
            raise LedgerError(f"{what}: a pair occurs twice in the batch. Ask about distinct pairs.")
        if purpose not in ("train", "audit") or round < 1:
            raise LedgerError(f"{what}: a round is 1 or more, and its purpose is 'train' or 'audit'.")
        if purpose == "audit" and inclusion_probability is None:
            raise LedgerError(f"{what}: an audit needs the probability with which each pair was drawn.")
        with self._writing() as connection:
            now = self._now()
            own = {"round": round, "purpose": purpose, "strategy": strategy}
            same = [questions.c[name] == value for name, value in own.items()]
            before = column(connection, sa.select(questions.c.pair).where(*same).order_by(questions.c.pair))
            if len(before):
                if np.array_equal(before, in_order):
                    return 0
                raise LedgerError(
                    f"{self.place}: {what} was asked already, about {len(before):,} pairs, of which "
                    f"{int(is_member(in_order, before).sum()):,} are among the {len(wanted):,} asked now. "
                    "A round is asked once; ask under the next round's number."
                )
            taken = in_order[known(connection, in_order)]
            if len(taken):
                sealed = list(asked_as(connection, taken).values()).count("audit")
                also = f", {sealed:,} of them in an audit, which is sealed" if sealed else ""
                raise LedgerError(
                    f"{self.place}: {what} holds {len(taken):,} pairs that were asked before, the first "
                    f"{taken[0]}{also}. A pair is asked once; leave out `asked()`."
                )
            same_in_all = {**own, "asked_at": now}
            rows = [
                {
                    "pair": pair,
                    "left_key": str(left),
                    "right_key": str(right),
                    "why": reason,
                    "inclusion_probability": None if chance is None else float(chance),
                    **same_in_all,
                }
                for pair, left, right, reason, chance in zip(
                    wanted.tolist(), left_keys, right_keys, reasons, chances, strict=True
                )
            ]
            last = sa.select(questions.c.chain).order_by(questions.c.number.desc()).limit(1)
            append(connection, questions, rows, connection.execute(last).scalar() or "")
        return len(wanted)

    def answer(
        self, given: Sequence[Answer], who: str, source: str, tokens: Texts = None, comments: Texts = None
    ) -> int:
        """Write one person's answers, all or none; the latest answer of a person counts. Returns how many.

        `tokens` name the clicks: an answer whose token is in the ledger already is left out, so that
        sending again after a crash neither loses nor doubles it.
        """
        return self._append(*pairs_and_labels(given), who, source, "answer", "answer", tokens, comments)

    def adjudicate(
        self, given: Sequence[Answer], who: str, source: str, tokens: Texts = None, comments: Texts = None
    ) -> int:
        """Settle pairs, whatever the votes say: the latest adjudication of a pair is its label."""
        pairs, labels = pairs_and_labels(given)
        return self._append(pairs, labels, who, source, "adjudication", "adjudication", tokens, comments)

    def withdraw(self, ids: Ids, who: str, source: str, tokens: Texts = None, kind: str = "answer") -> int:
        """Take back what `who` last answered about these pairs; the events stay, the answers no longer count.

        `kind="adjudication"` takes back the pairs' adjudication, whoever gave it.
        """
        pairs = [int(id) for id in ids]
        if kind not in ("answer", "adjudication"):
            raise LedgerError(f"a withdrawal of {kind!r}. Taken back are 'answer' and 'adjudication'.")
        return self._append(pairs, [None] * len(pairs), who, source, "withdrawal", kind, tokens, None)

    def infer(
        self, given: Sequence[Answer], rests_on: Sequence[Sequence[int]], doubtful: Sequence[int] = ()
    ) -> int:
        """Write labels implied by others; returns how many are new. `rests_on`: per label its path of pairs.

        For questions of one collection that nobody needs to answer any more. Refused unless the path is
        labelled and the label follows from it; taken back by itself when a label on the path changes. The
        inferred labels of `doubtful` pairs are taken back too: what they rest on contradicts itself.
        """
        if len(given) != len(rests_on):
            raise LedgerError(
                f"{len(given):,} inferred labels with {len(rests_on):,} paths. Give one of each."
            )
        if not given and not len(doubtful):
            return 0
        plain = [Answer(pair, label) for pair, label in zip(*pairs_and_labels(given))]
        paths = [[int(pair) for pair in path] for path in rests_on]
        with self._writing() as connection:
            end = retract_contradicted(connection, doubtful, tail(connection), self._now())
            return write_inferred(connection, plain, paths, end, self._now())

    def _append(
        self,
        pairs: Sequence[int],
        labels: Sequence[int | None],
        who: str,
        source: str,
        kind: str,
        about: str,
        tokens: Texts,
        comments: Texts,
    ) -> int:
        if not who.strip() or not source.strip():
            raise LedgerError(f"an answer names who gave it and its source, not {who!r} and {source!r}.")
        if who == BY_RULE:
            raise LedgerError(f"the name {BY_RULE!r} is kept for inferred labels. Answer under another name.")
        for what, column_of in (("tokens", tokens), ("comments", comments)):
            if column_of is not None and len(column_of) != len(pairs):
                raise LedgerError(f"{len(pairs):,} answers with {len(column_of):,} {what}. Give one of each.")
        if not len(pairs):
            return 0
        with self._writing() as connection:
            now = self._now()
            fresh = np.ones(len(pairs), dtype=bool)
            if tokens is not None:
                fresh = new_tokens(connection, list(zip(tokens, pairs, labels, strict=True)), who, kind)
            if not fresh.any():
                return 0
            wanted = np.sort(np.array(pairs, dtype=np.int64)[fresh])
            self._refuse_unfit(connection, wanted, who, kind, about)
            end = tail(connection)
            same_in_all = {"who": who, "source": source, "round": end.round, "answered_at": now}
            events: list[dict[str, Any]] = [
                {
                    "pair": pairs[at],
                    "label": labels[at],
                    "token": None if tokens is None else tokens[at],
                    "comment": (comments[at] or None) if comments is not None else None,
                    "kind": kind,
                    "about": about,
                    **same_in_all,
                }
                for at in np.flatnonzero(fresh).tolist()
            ]
            chain = append(connection, answers, events, end.chain)
            if end.any_inferred:
                retract_unsupported(connection, wanted, Tail(end.round, chain, True), now)
        return len(events)

    def _refuse_unfit(self, connection: sa.Connection, wanted: Ids, who: str, kind: str, about: str) -> None:
        """Refuse a pair twice, a pair never asked, and a withdrawal of nothing. wanted: sorted ids."""
        if (wanted[1:] == wanted[:-1]).any():
            raise LedgerError(f"{who} answers a pair twice in one batch. Send each pair once.")
        unasked = wanted[~known(connection, wanted)]
        if len(unasked):
            raise LedgerError(
                f"{self.place}: {len(unasked):,} of {len(wanted):,} answers are to pairs never asked, "
                f"the first {unasked[0]}. None was written; answer only what was asked."
            )
        if kind == "withdrawal":
            query = sa.select(standing_answers.c.pair).where(standing_answers.c.kind == about)
            if about == "answer":
                query = query.where(standing_answers.c.who == who)
            standing = rows_with(connection, query, standing_answers.c.pair, wanted.tolist())
            if len(set(standing)) < len(wanted):
                raise LedgerError(f"{who} has no {about} to take back on some of these pairs.")

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def questions(self, round: int | None = None, purpose: str | None = None) -> Questions:
        """All questions, or those of one round or purpose, in the order of asking."""
        query = narrow(sa.select(*contents(questions)), questions, round, purpose)
        with self._reading() as connection:
            found = columns(connection.execute(query.order_by(questions.c.number)), 9)
        ids, left, right, rounds, why, strategy, chance, of_purpose, at = found
        chances = np.array(chance, np.float64)  # None becomes nan
        return Questions(
            _whole(ids), left, right, _whole(rounds), why, strategy, chances, of_purpose, asked_at=at
        )

    def answers(self) -> Answers:
        """Every answer event, in the order they came."""
        query = sa.select(*contents(answers)).order_by(answers.c.number)
        with self._reading() as connection:
            found = columns(connection.execute(query), 11)
        ids, labels, who, source, rounds, at, kind, about, tokens, paths, comments = found
        rests_on = [None if path is None else [(p, label) for p, label in json.loads(path)] for path in paths]
        return Answers(
            _whole(ids), labels, who, source, _whole(rounds), at, kind, about, tokens, rests_on, comments
        )

    def sizes(self) -> tuple[int, int]:
        """How many questions and how many answer events there are; both only grow."""
        counts = (sa.select(sa.func.count()).select_from(t).scalar_subquery() for t in (questions, answers))
        asked, given = self._arrays(sa.select(*counts), 2)
        return int(asked[0]), int(given[0])

    def answers_by_person(self, purpose: str | None = None) -> dict[str, dict[int, int | None]]:
        """{who: {pair: label}} of everybody's latest answers, those taken back left out; pairs ascend."""
        view = standing_answers.c
        query = sa.select(view.who, view.pair, view.label).where(view.kind == "answer")
        if purpose is not None:
            asked = sa.select(questions.c.pair).where(questions.c.purpose == known_purpose(purpose))
            query = query.where(view.pair.in_(asked))
        found: dict[str, dict[int, int | None]] = {}
        with self._reading() as connection:
            for who, pair, label in connection.execute(query.order_by(view.who, view.pair)):
                found.setdefault(who, {})[pair] = label
        return found

    def votes(self, ids: Ids | None = None) -> Votes:
        """How the questions stand, all or those given, in the order of asking."""
        view = current_labels.c
        counted = (view.matches, view.no_matches, view.unsure)
        query = sa.select(view.pair, *counted, view.label, view.state, view.basis, view.number)
        with self._reading() as connection:
            if ids is None:
                rows = list(connection.execute(query))
            else:
                rows = rows_with(connection, query, view.pair, np.asarray(ids, dtype=np.int64).tolist())
        rows.sort(key=lambda row: int(row.number))
        pairs, matches, no_matches, unsure, labels, state, basis, _ = columns(rows, 8)
        return Votes(_whole(pairs), _whole(matches), _whole(no_matches), _whole(unsure), labels, state, basis)

    def disputed(self) -> Ids:
        """Pairs on which people disagree and nobody has adjudicated, in the order of asking."""
        view = current_labels.c
        query = sa.select(view.pair).where(view.matches > 0, view.no_matches > 0, view.basis == "votes")
        return self._arrays(query.order_by(view.number), 1)[0]

    def asked(self, through: int | None = None) -> Ids:
        """Sorted ids of every pair asked, for training and audit, in rounds up to and with `through`."""
        query = sa.select(questions.c.pair, questions.c.round).order_by(questions.c.pair)
        found: list[Ids] = self._cached("asked", lambda: self._arrays(query, 2))
        return found[0].copy() if through is None else found[0][found[1] <= through]

    def open_questions(self, round: int | None = None, purpose: str | None = None) -> Ids:
        """Pairs that wait, in the order of asking: nobody's answer stands, or the votes are tied."""
        query = sa.select(current_labels.c.pair).where(current_labels.c.state == "open")
        query = narrow(query, current_labels, round, purpose).order_by(current_labels.c.number)
        return self._arrays(query, 1)[0]

    def labels(
        self, purpose: str | None = "train", through: int | None = None, inferred: bool = True
    ) -> tuple[Ids, Mask]:
        """(sorted ids, match or not) of the pairs labelled now, asked in rounds up to and with `through`.

        An adjudication counts first, then the majority of everybody's latest answers, then an inferred
        label (not with `inferred=False`); ties and "unsure" give none. Audit labels are never for training;
        purpose None: those of both.
        """
        key = ("labels", purpose, inferred)
        ids, labels, rounds = self._cached(key, lambda: self._labels(purpose, inferred))
        wanted = np.ones(len(ids), bool) if through is None else rounds <= through
        return ids[wanted], labels[wanted].astype(bool)

    def _labels(self, purpose: str | None, inferred: bool) -> list[Ids]:
        """Pairs labelled now, sorted, with their labels and the rounds they were asked in."""
        view = current_labels.c
        query = sa.select(view.pair, view.label, view.round).where(view.state == "labelled")
        query = narrow(query, current_labels, None, purpose)
        if not inferred:
            query = query.where(view.basis != "inferred")
        return self._arrays(query.order_by(view.pair), 3)

    def _arrays(self, query: sa.Select[Any], count: int) -> list[Ids]:
        with self._reading() as connection:
            return [_whole(each) for each in columns(connection.execute(query), count)]

    def _cached(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make()` gives, called again once something was written."""
        with self._reading() as connection:
            now = mark(connection)
        known_at, values = self._memo
        if known_at != now:
            values = {}
            self._memo = (now, values)
        if key not in values:
            values[key] = make()  # read after the mark: it may be newer than it, never older
        return values[key]

    def rounds(self, purpose: str = "train") -> list[int]:
        """Numbers of the rounds asked, ascending."""
        query = narrow(sa.select(questions.c.round), questions, None, purpose).distinct()
        return list(map(int, self._arrays(query.order_by(questions.c.round), 1)[0]))

    def counts(self, purpose: str = "train") -> list[RoundCount]:
        """Where each round stands, ascending."""
        return list(self._cached(("counts", purpose), lambda: self._counts(purpose)))

    def _counts(self, purpose: str) -> list[RoundCount]:
        view = current_labels.c

        def number_of(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
            return sa.func.sum(sa.case((condition, 1), else_=0))

        query = sa.select(
            view.round,
            sa.func.count(),
            number_of(view.state == "labelled"),
            number_of(view.label == 1),
            number_of(view.state == "unsure"),
            number_of(view.state == "open"),
            number_of(view.basis == "inferred"),
        )
        query = narrow(query, current_labels, None, purpose).group_by(view.round).order_by(view.round)
        with self._reading() as connection:
            return [RoundCount(*map(int, row)) for row in connection.execute(query)]

    # ── keeping it whole ────────────────────────────────────────────────────────────────────────

    def digest(self) -> str:
        """sha256 of all questions and answers in order, without times: equal for equal histories."""
        with self._reading() as connection:
            return digest(connection)

    def verify(self) -> Verification:
        """Is everything as it was written? Counts, links, orphans, guards, seals, and the database itself."""
        with self._reading() as connection:
            return verify(connection)

    def check_whole(self) -> None:
        """Refuse a ledger that is not as it was written: its labels would be others than people gave."""
        with self._reading() as connection:
            wrong = [check for check in verify(connection, thorough=False).checks if not check.ok]
        if wrong:
            found = "; ".join(f"{check.name}: {check.found}" for check in wrong)
            raise LedgerError(
                f"{self.place}: the ledger is not as it was written ({found}). "
                "Restore it from a copy; nothing was done."
            )

    def export(self, path: Path) -> int:
        """Write every event with its keys as .parquet, .csv, .tsv or .jsonl, whole or not at all."""
        with self._reading() as connection:
            return export_events(connection, Path(path))

    def vacuum(self) -> tuple[int, int]:
        """Give unused room back to the disk; returns (bytes before, bytes after)."""
        return vacuum(self._engine)

    def _prepare(self, owner: Owner) -> None:
        """Create the tables where there are none; refuse the ledger of another version or owner."""
        with self._reading() as connection:
            found = identity(connection)
        if found.version == 0:
            with self._writing() as connection:
                found = identity(connection)  # another process may have been faster
                if found.version == 0:
                    create_schema(connection)
                    found = Identity(VERSION, secrets.token_hex(16), owner)
                    row = {"schema_version": VERSION, "ledger": found.ledger, "applied_at": self._now()}
                    of = {"task_fingerprint": owner.task, "split": owner.split, "campaign": owner.campaign}
                    connection.execute(sa.insert(meta), row | of)
        if found.version != VERSION:
            remedy = "Upgrade pairsieve"
            if found.version < VERSION:
                remedy = "Export its events with the pairsieve that wrote it, and begin a new campaign folder"
            raise LedgerError(
                f"{self.place}: the ledger has schema version {found.version}, this pairsieve reads "
                f"{VERSION}. {remedy}; nothing was changed."
            )
        if difference := found.owner.difference(owner):
            raise LedgerError(f"{self.place}: the ledger {difference}")
        self.id = found.ledger

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="microseconds")

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        return writing(self._engine)

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        return reading(self._engine)


def _whole(values: Sequence[Any]) -> NDArray[np.int64]:
    return np.array(values, np.int64)
