"""Money and interruptions: the cap holds by the server's own books, and a stop loses nothing paid for."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openai_server
from asking_models import first, some_ids, source, truth
from openai_server import Asked, Behaviour, OpenAIServer, Sent, completion, honest
from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.sources.spending import SpendBudget, SpendCap, Tokens


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


# ── the spend cap ───────────────────────────────────────────────────────────────────────────────────

PRICES: dict[str, Any] = {"price_in": "3", "price_out": "15"}


def charged(server: OpenAIServer) -> Decimal:
    return (server.billed[0] * Decimal(3) + server.billed[1] * Decimal(15)) / 1_000_000


def dearest(asked: Asked) -> Sent:
    """Bills the most it may: a token a byte in, and every token allowed out."""
    return completion(asked, openai_server.answers(asked), tokens=(asked.bytes, asked.most_tokens))


def without_usage(asked: Asked) -> Sent:
    sent = dearest(asked)
    del sent.body["usage"]
    return sent


def lying_usage(asked: Asked) -> Sent:
    sent = dearest(asked)
    sent.body["usage"] = random.Random(asked.number).choice(
        [
            {"prompt_tokens": -5, "completion_tokens": 0},
            {"prompt_tokens": 0, "completion_tokens": 0},
            "free",
            None,
        ]
    )
    return sent


def bills_and_fails(asked: Asked) -> Sent:
    """Every third request is billed in full and then lost, in one of four ways."""
    sent = replace(dearest(asked), delay_seconds=0.002 * (asked.number % 5))
    ways = [{"drop": "before"}, {"drop": "middle"}, {"status": 500}, {"body": b"{"}]
    return replace(sent, **ways[asked.number % 4]) if asked.number % 3 == 0 else sent


@pytest.mark.parametrize("behave", [honest, dearest, without_usage, lying_usage, bills_and_fails])
@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.slow), 16])
def test_the_cap_in_money_holds(behave: Behaviour, concurrency: int) -> None:
    cap = Decimal("0.08")
    with OpenAIServer(
        lambda asked: replace(behave(asked), delay_seconds=0.001 * (asked.number % 7))
    ) as server:
        asker = source(server, SpendCap(money=cap, **PRICES), concurrency=concurrency)
        given = asker.answer(some_ids(120))
        assert charged(server) <= asker.report.spent.money <= cap  # by the server's own books
        assert asker.report.stopped == "the spend cap leaves no room for another request"
    assert 5 < len(given) < 120
    # Not by being timid: less than two worst cases are left over.
    worst = SpendCap(money=cap, **PRICES).cost(Tokens(server.asked[0].bytes + 80, 64))
    assert cap - asker.report.spent.money < 2 * worst


@pytest.mark.parametrize("limit", [{"tokens": 40_000}, {"requests": 21}])
def test_caps_in_tokens_and_requests_hold(limit: dict[str, int]) -> None:
    with OpenAIServer(first(*[lambda _: Sent({}, 500)] * 5, then=dearest)) as server:
        asker = source(server, SpendCap(**limit), concurrency=8)
        assert 5 < len(asker.answer(some_ids(200))) < 200
        assert sum(server.billed) <= limit.get("tokens", 10**9)
        assert len(server.asked) <= limit.get("requests", 10**9)
    assert asker.report.stopped


def test_a_cap_of_zero_sends_nothing() -> None:
    with OpenAIServer() as server:
        asker = source(server, SpendCap(money=0, **PRICES))
        assert asker.answer(some_ids(3)) == [] and server.asked == []
        assert asker.report.left_open == {"not reached": 3}


def test_a_server_that_overruns_its_limit_is_asked_no_more() -> None:
    def overruns(asked: Asked) -> Sent:
        return completion(asked, openai_server.answers(asked), tokens=(100, asked.most_tokens + 1))

    with OpenAIServer(overruns) as server:
        asker = source(server, concurrency=2)
        assert 1 <= len(asker.answer(some_ids(50))) <= 2
        assert len(server.asked) <= 2 and "more tokens than it was allowed" in asker.report.stopped


def test_a_cap_must_be_given_and_make_sense() -> None:
    for wrong in ({}, {"money": 1}, {"money": "much", **PRICES}, {"money": -1, **PRICES}, {"tokens": -1}):
        with pytest.raises(InputError):
            SpendCap(**wrong)  # type: ignore[arg-type]
    # 200 tokens in at 3, 10 out at 15 a million: 0.0006 + 0.00015
    assert SpendCap(money=0.1, **PRICES).cost(Tokens(200, 10)) == Decimal("0.00075")


def test_budgets_hold_their_cap_whatever_the_order() -> None:
    """Many threads, random costs up to the worst case: at no moment is more out than the cap."""
    budget = SpendBudget(SpendCap(tokens=5000))
    out, most, lock = [0], [0], threading.Lock()

    def spend(seed: int) -> None:
        dice = random.Random(seed)
        while (number := budget.reserve(Tokens(60, 40))) is not None:
            with lock:
                out[0] += 100
                most[0] = max(most[0], out[0])
            cost = Tokens(dice.randint(1, 60), dice.randint(0, 40))
            with lock:
                out[0] -= 100 - cost.total
            budget.settle(number, cost)

    threads = [threading.Thread(target=spend, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] <= 5000 and 4900 < budget.spent.prompt_tokens + budget.spent.completion_tokens <= 5000


# ── stop and go on ──────────────────────────────────────────────────────────────────────────────────


def test_the_journal_keeps_one_cap_over_all_runs(tmp_path: Path) -> None:
    cap, ids = SpendCap(requests=10), some_ids(30)
    with OpenAIServer() as server:
        for part, expected in ((ids[:4], 4), (ids[4:], 6), (ids[10:], 0)):
            with SpendBudget(cap, tmp_path / "spent.jsonl") as budget:
                assert len(source(server, budget=budget).answer(part)) == expected
        assert len(server.asked) == 10


def test_a_request_under_way_at_a_kill_counts_in_full(tmp_path: Path) -> None:
    journal = tmp_path / "spent.jsonl"
    budget = SpendBudget(SpendCap(tokens=1000, price_in=1, price_out=1), journal)
    budget.settle(budget.reserve(Tokens(100, 50)) or 0, Tokens(80, 10))
    budget.reserve(Tokens(200, 50))
    budget.close()  # as a kill leaves it: one settled, one under way
    with journal.open("a") as file:
        file.write('{"event": "settled", "number": 2, "prom')  # torn
    for _ in range(2):  # and once more: it is counted once
        with SpendBudget(
            SpendCap(tokens=1000, price_in=9, price_out=9), journal
        ) as again:  # now another price
            assert (again.spent.prompt_tokens, again.spent.completion_tokens) == (280, 60)
            assert (again.spent.requests, again.spent.assumed) == (2, Decimal(250) / 1_000_000)
            assert again.reserve(Tokens(661, 0)) is None


def test_two_at_once_cannot_share_a_journal(tmp_path: Path) -> None:
    with SpendBudget(SpendCap(tokens=1), tmp_path / "j"), pytest.raises(InputError, match="another process"):
        SpendBudget(SpendCap(tokens=1), tmp_path / "j")


class Halt(Exception):
    pass


def halting(after: int, kept: list[Answer]) -> Callable[[Sequence[Answer]], None]:
    """Keeps answers, and is interrupted once, before the `after`-th is kept."""
    halted = []

    def keep(answers: Sequence[Answer]) -> None:
        if len(kept) == after and not halted:
            halted.append(True)
            raise Halt
        kept.extend(answers)

    return keep


def test_a_stop_loses_nothing_that_was_paid_for() -> None:
    kept: list[Answer] = []
    ids = some_ids(60)
    with OpenAIServer(lambda asked: replace(honest(asked), delay_seconds=0.02)) as server:
        asker = source(server, concurrency=5, on_answer=halting(12, kept))
        with pytest.raises(Halt):
            asker.answer(ids)
        assert 12 < len(kept) == len(server.asked) < 60
        assert asker.report.answered == len(kept) and asker.report.stopped == "interrupted"
        rest = ids[~np.isin(ids, [answer.id for answer in kept])]
        asker.answer(rest)
        assert len(server.asked) == 60  # no pair was paid for twice
    assert sorted(kept, key=lambda answer: answer.id) == truth(np.sort(ids))


def test_an_error_in_a_thread_comes_out() -> None:
    with OpenAIServer() as server:
        asker = source(server)
        asker.texts = lambda pair: {}[pair]  # type: ignore[misc]
        with pytest.raises(KeyError):
            asker.answer(some_ids(3))


SCRIPT = """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores Ctrl-C
import sys, numpy as np
from pathlib import Path
from pairsieve.sources.language_model import LanguageModelSource
from pairsieve.sources.prompt import Prompt
from pairsieve.sources.spending import SpendBudget, SpendCap
from pairsieve.sources.endpoint import Endpoint
url, folder = sys.argv[1], Path(sys.argv[2])
cap = SpendCap(tokens=10**9)
with (folder / "kept").open("a") as kept, SpendBudget(cap, folder / "spent.jsonl") as budget:
    def keep(answers):
        for answer in answers:
            print(answer.id, file=kept, flush=True)
    done = {int(line) for line in (folder / "kept").read_text().split()}
    ids = np.array([i for i in range(1, 41) if i not in done], np.int64)
    endpoint = Endpoint(url=url, model="m", concurrency=4)
    texts = lambda pair: (f"left {pair}", "right 1")
    LanguageModelSource(endpoint, Prompt("d"), texts, budget, np.random.default_rng(0), keep).answer(ids)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_process_stopped_or_killed_goes_on_where_it_was(tmp_path: Path, how: signal.Signals) -> None:
    with OpenAIServer(lambda asked: replace(dearest(asked), delay_seconds=0.1)) as server:
        command = [sys.executable, "-c", SCRIPT, server.url, str(tmp_path)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while len(server.asked) < 12 and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(how)
        process.wait(timeout=30)
        kept = (tmp_path / "kept").read_text().split()
        assert 8 <= len(kept) < 40
        if how == signal.SIGINT:
            assert len(kept) == len(server.asked)  # what was under way was waited for
        subprocess.run(command, check=True, timeout=60)
        everything = (tmp_path / "kept").read_text().split()
        assert sorted(map(int, everything)) == list(range(1, 41))
        with SpendBudget(SpendCap(tokens=10**9), tmp_path / "spent.jsonl") as budget:
            told = budget.spent.prompt_tokens + budget.spent.completion_tokens
        assert budget.spent.requests == len(server.asked) and told >= sum(server.billed)
