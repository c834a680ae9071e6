"""The spending of a language model under a cap that holds, whatever comes back and in what order.

Before a request leaves, its worst case is reserved; after it, what it really cost is settled. A request
whose cost nobody reported (no usage in the reply, a dropped line, a server error) counts in full, as its
worst case. So at every moment  settled + reserved ≤ cap,  with any number of requests under way.

With a journal, every reservation is on disk before its request leaves, so the cap holds over all runs
together: a reservation that a killed run never settled counts as its worst case.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import astuple, dataclass, field
from decimal import Decimal, InvalidOperation
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from pairsieve.errors import InputError
from pairsieve.files import locked, parse_json

MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Tokens:
    """What one request reads and writes."""

    prompt: int
    completion: int

    @property
    def total(self) -> int:
        return self.prompt + self.completion


@dataclass(frozen=True, kw_only=True)
class SpendCap:
    """The most that may be spent; at least one limit. Money is in the currency of the prices."""

    money: Decimal | None = None
    price_in: Decimal | None = None  # per million prompt tokens
    price_out: Decimal | None = None  # per million completion tokens
    tokens: int | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        for name in ("money", "price_in", "price_out"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, amount(name.replace("_", " "), value))
        if self.money is None and self.tokens is None and self.requests is None:
            remedy = "Give a cap in money with both prices, in tokens, or in requests"
            raise InputError("no spend cap", why="a model may cost money on every pair", remedy=remedy)
        if self.money is not None and (self.price_in is None or self.price_out is None):
            what, why = f"a spend cap of {self.money} without prices", "what a request costs is unknown"
            raise InputError(what, why=why, remedy="Give the price per million tokens in and out")
        for name in ("tokens", "requests"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise InputError(f"a cap of {limit} {name}", remedy="Give a number from 0")

    def cost(self, tokens: Tokens) -> Decimal:
        """tokens.prompt · price_in + tokens.completion · price_out; 0 without prices."""
        price_in, price_out = self.price_in or Decimal(0), self.price_out or Decimal(0)
        return (tokens.prompt * price_in + tokens.completion * price_out) / MILLION


@dataclass(frozen=True)
class Spent:
    """What was spent. `assumed`, a share of `money`: the worst case of requests without a reported cost."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: Decimal = Decimal(0)
    assumed: Decimal = Decimal(0)

    def since(self, before: Spent) -> Spent:
        """What was added after `before`."""
        return Spent(*(now - then for now, then in zip(astuple(self), astuple(before))))

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "spent": float(self.money),
            "of_it_assumed": float(self.assumed),
        }


@dataclass
class SpendBudget:
    """Gives out reservations under a cap. Safe for threads; one process at a time with a journal."""

    cap: SpendCap
    journal: Path | None = None
    spent: Spent = field(default_factory=Spent, init=False)  # settled, all runs in the journal together
    overdrawn: bool = field(default=False, init=False)  # a reply cost more than its worst case

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._reserved: dict[int, Tokens] = {}
        self._number = 0
        self._closed = False
        self._file: TextIOWrapper | None = None
        if self.journal is not None:
            self._open(self.journal)

    def __enter__(self) -> SpendBudget:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the journal. What is still reserved stays so there, and counts in full."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._file is not None:
                self._file.close()
                self._file = None

    def reserve(self, worst: Tokens) -> int | None:
        """Set the worst case of one request aside; its number, or None where the cap leaves no room.

        Where only reservations of others stand in the way it waits: they mostly settle for less.
        """
        with self._changed:
            while not self._closed:
                if self._fits(worst):
                    self._number += 1
                    self._reserved[self._number] = worst
                    self._write({"event": "reserved", "number": self._number, **self._as_json(worst)})
                    return self._number
                if not self._reserved:
                    return None
                self._changed.wait()
            return None

    def settle(self, number: int, cost: Tokens | None) -> None:
        """Replace a reservation by what the request cost; None: not reported, so its worst case stands."""
        with self._changed:
            if self._closed:
                return  # too late for the journal, where the reservation counts in full
            worst = self._reserved.pop(number)
            used = worst if cost is None else cost
            self._count(used, self.cap.cost(used), reported=cost is not None)
            if cost is not None and (cost.prompt > worst.prompt or cost.completion > worst.completion):
                self.overdrawn = True
            self._write({"event": "settled", "number": number, **(self._as_json(cost) if cost else {})})
            self._changed.notify_all()

    def cancel(self, number: int) -> None:
        """Give a reservation back whose request was never sent."""
        with self._changed:
            if not self._closed and self._reserved.pop(number, None) is not None:
                self._write({"event": "cancelled", "number": number})
                self._changed.notify_all()

    def _fits(self, worst: Tokens) -> bool:
        if self.overdrawn:
            return False  # the worst case was no worst case: what is left cannot be known
        under_way = [worst, *self._reserved.values()]
        cap, spent = self.cap, self.spent
        if cap.requests is not None and spent.requests + len(under_way) > cap.requests:
            return False
        tokens = spent.prompt_tokens + spent.completion_tokens + sum(each.total for each in under_way)
        if cap.tokens is not None and tokens > cap.tokens:
            return False
        return cap.money is None or spent.money + sum(map(cap.cost, under_way), Decimal(0)) <= cap.money

    def _count(self, tokens: Tokens, money: Decimal, reported: bool) -> None:
        before = self.spent
        self.spent = Spent(
            requests=before.requests + 1,
            prompt_tokens=before.prompt_tokens + tokens.prompt,
            completion_tokens=before.completion_tokens + tokens.completion,
            money=before.money + money,
            assumed=before.assumed + (Decimal(0) if reported else money),
        )

    def _open(self, place: Path) -> None:
        """Lock the journal and count what earlier runs spent; a line cut short by a kill is passed over.

        An incomplete reservation sent no request; an incomplete settlement leaves its reservation standing.
        Money is taken as written then, as another run may have asked another model at another price.
        """
        place.parent.mkdir(parents=True, exist_ok=True)
        what, why = "another process is asking a language model here", "two at once could not keep one cap"
        remedy = "Wait for it, or stop it first"
        file = locked(place, InputError(what, where=str(place), why=why, remedy=remedy))
        file.seek(0)
        text = file.read()
        if text and not text.endswith("\n"):
            file.write("\n")
        unsettled: dict[int, tuple[Tokens, Decimal]] = {}
        for line in text.splitlines():
            try:
                row = parse_json(line)
                number, event = int(row["number"]), row["event"]
                cost = None
                if "prompt" in row:
                    cost = Tokens(int(row["prompt"]), int(row["completion"])), Decimal(row["money"])
            except (ValueError, KeyError, TypeError, InvalidOperation):
                continue
            self._number = max(self._number, number)
            if event == "reserved" and cost is not None:
                unsettled[number] = cost
            elif event == "settled" and number in unsettled:
                worst = unsettled.pop(number)
                self._count(*(cost or worst), reported=cost is not None)
            elif event == "cancelled":
                unsettled.pop(number, None)
        for worst in unsettled.values():
            self._count(*worst, reported=False)
        self._file = file
        for number in unsettled:
            self._write({"event": "settled", "number": number})

    def _as_json(self, tokens: Tokens) -> dict[str, Any]:
        money = str(self.cap.cost(tokens))
        return {"prompt": tokens.prompt, "completion": tokens.completion, "money": money}

    def _write(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())


def amount(name: str, value: object) -> Decimal:
    """An amount of money, exact: 0.1 is a tenth. `name` says in an error what it was meant for."""
    try:
        exact = Decimal(str(value))
    except InvalidOperation:
        exact = Decimal("nan")
    if not exact.is_finite() or exact < 0:
        raise InputError(f"{name}: {value!r}", remedy="Give an amount from 0, such as 2.50")
    return exact
