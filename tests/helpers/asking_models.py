"""What tests of language models share: pairs with a known answer, a model to ask, servers in a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openai_server import Behaviour, OpenAIServer, completion, honest
from pairsieve.contracts import Answer
from pairsieve.pairs import pair_ids, pair_rows
from pairsieve.sources.endpoint import Endpoint
from pairsieve.sources.language_model import LanguageModelSource
from pairsieve.sources.prompt import Example, Prompt
from pairsieve.sources.spending import SpendBudget, SpendCap

PROMPT = Prompt("A pair matches when the two numbers have an even sum.", (Example("left 1", "right 3", 1),))


def texts(pair: int) -> tuple[str, str]:
    left, right = pair_rows(np.array([pair]))
    return f"left {left[0]}", f"right {right[0]}"


def some_ids(count: int) -> np.ndarray:
    return pair_ids(np.arange(count), np.arange(count) * 3 % 7 + 1)


def truth(ids: Sequence[int]) -> list[Answer]:
    rows = [pair_rows(np.array([pair])) for pair in ids]
    return [Answer(int(pair), int((left[0] + right[0]) % 2 == 0)) for pair, (left, right) in zip(ids, rows)]


def source(server: OpenAIServer, cap: SpendCap | None = None, **more: Any) -> LanguageModelSource:
    on_answer = more.pop("on_answer", None)
    budget = more.pop("budget", None) or SpendBudget(cap or SpendCap(requests=10_000))
    patience: dict[str, Any] = {"timeout_seconds": 5.0, "first_wait_seconds": 0.002, "retries": 3}
    endpoint = Endpoint(url=server.url, model="tiny-model", **(patience | more))
    return LanguageModelSource(endpoint, PROMPT, texts, budget, np.random.default_rng(0), on_answer)


def first(*behaviours: Behaviour, then: Behaviour = honest) -> Behaviour:
    """The first requests are met so, one each; all later ones by `then`."""
    return lambda asked: (behaviours[asked.number - 1] if asked.number <= len(behaviours) else then)(asked)


def saying(content: Any) -> Behaviour:
    return lambda asked: completion(asked, content)
