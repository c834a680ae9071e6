"""Ablation of training and selection settings: one change at a time, AP over all dev pairs by round.

    python -m experiments.bench.training_ablation --task TASK --encoder FOLDER [--left-prefix P]
        [--right-prefix P] [--seeds 1] [--batches 2048,3072,4608,6912] [--json FILE] NAME:KEY=VALUE,...
        [NAME:...]

Each variant is a whole collecting loop in memory (frozen encoder first, then uncertainty), with settings of
`TrainingSettings` and `LossSettings` changed as given; `paper:` changes nothing. `steer=1` moves the logit
asked about towards batches that are half matches; `transitive=1` buys no label that follows from others;
`closure=1` also trains on as many matches that follow. Prints dev AP, exact over all
pairs, after every round. The test split is never read.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.definitions import split_recipe
from pairsieve.contracts import generator_for
from pairsieve.measure.curve import measure_exactly
from pairsieve.models import encoder_named, learner_named
from pairsieve.models.encoder import Tokens, embed_tokens
from pairsieve.models.full import positive_groups
from pairsieve.pairs import is_member, pair_ids, pair_rows
from pairsieve.scan import open_scan
from pairsieve.search import ExactSearch
from pairsieve.tasks import load_task
from pairsieve.transitivity import OPEN, grouped, implied


class TokenisedTask:
    """A task's training and dev splits, tokenised once, with the frozen encoder's first choice."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.task = load_task(args.task)
        self.train, self.dev = self.task.splits["train"], self.task.splits["dev"]
        self.encoder = encoder_named(args.encoder, 128, args.left_prefix, args.right_prefix)
        self.tokens: dict[tuple[str, str], Tokens] = {}
        for name, part in (("train", self.train), ("dev", self.dev)):
            self.tokens[name, "left"] = self.tokenised(part.left, "left", args.cache)
            self.tokens[name, "right"] = (
                self.tokens[name, "left"]
                if part.space.symmetric
                else self.tokenised(part.right, "right", args.cache)
            )
        self.frozen = self.search([self.encoder.network] * 2)

    def tokenised(self, texts: Any, side: str, cache: Path | None) -> Tokens:
        place = cache and cache / f"{texts.fingerprint[:16]}-{self.encoder.prefix(side).strip(' :')}.npz"
        if place and place.exists():
            kept = np.load(place)
            return Tokens(kept["ids"], kept["starts"])
        tokens = self.encoder.tokens(texts.texts, side)
        if place:
            cache.mkdir(parents=True, exist_ok=True)  # type: ignore[union-attr]
            np.savez(place, ids=tokens.ids, starts=tokens.starts)
        return tokens

    def rows(self, networks: list[Any], name: str) -> tuple[Any, Any]:
        left = embed_tokens(networks[0], self.tokens[name, "left"], self.encoder.pad, self.encoder.device)
        if self.tokens[name, "right"] is self.tokens[name, "left"]:
            return left, None
        return left, embed_tokens(
            networks[-1], self.tokens[name, "right"], self.encoder.pad, self.encoder.device
        )

    def search(self, networks: list[Any]) -> ExactSearch:
        return ExactSearch(open_scan(self.train.space, *self.rows(networks, "train")))

    def dev_ap(self, networks: list[Any]) -> float:
        scan = open_scan(self.dev.space, *self.rows(networks, "dev"))
        return measure_exactly(scan, self.dev.positives).curve.average_precision()


def loop(data: TokenisedTask, changes: dict[str, Any], seed: int, sizes: list[int]) -> dict[str, Any]:
    changes = dict(changes)
    steer, transitive, closure = (changes.pop(key, 0) for key in ("steer", "transitive", "closure"))
    learner: Any = learner_named("full", data.encoder, **changes)
    asked = inferred = np.empty(0, np.int64)
    offset = 0.0
    aps, positives, spent = [], [], {"train": 0.0, "embed+dev": 0.0, "select": 0.0}
    search, matcher = data.frozen, None
    for number, size in enumerate(sizes, 1):
        began = time.perf_counter()
        if matcher is None:
            centre = 1.0
        else:
            centre = (offset - matcher.bias) / matcher.weight if matcher.weight else 2.0
            centre = float(np.clip(centre, -2, 2))
        many = 4 * size if transitive else size
        known = np.union1d(asked, inferred)
        found = search.best(many, known) if matcher is None else search.closest(centre, many, known)
        bought, implied_now = bought_of(data, found.pairs, centre, size, asked, bool(transitive))
        asked, inferred = np.union1d(asked, bought), np.union1d(inferred, implied_now)
        rate = np.clip(is_member(bought, data.train.positives).mean(), 0.02, 0.98)
        if matcher is not None and steer:
            offset -= steer * float(np.log(rate / (1 - rate)))
        spent["select"] += time.perf_counter() - began
        taught = np.union1d(asked, inferred)
        if closure:
            taught = np.union1d(taught, closed(data, taught, closure, generator_for(seed, number, "more")))
        labels = is_member(taught, data.train.positives)
        left, right = pair_rows(taught)
        began = time.perf_counter()
        groups = positive_groups(left, right, labels, data.train.space.symmetric)
        matcher = learner.fit_tokens(
            data.tokens["train", "left"],
            data.tokens["train", "right"],
            left,
            right,
            labels,
            generator_for(seed, number, "train"),
            groups,
        )
        spent["train"] += time.perf_counter() - began
        began = time.perf_counter()
        networks = [matcher.left.network, matcher.right.network]
        aps.append(data.dev_ap(networks))
        positives.append((len(asked), int(is_member(asked, data.train.positives).sum()), len(taught)))
        if number < len(sizes):
            search = data.search(networks)
        spent["embed+dev"] += time.perf_counter() - began
    return {"ap": aps, "positives": positives, "seconds": {k: round(v, 1) for k, v in spent.items()}}


def bought_of(
    data: TokenisedTask, pairs: Any, centre: float, size: int, asked: Any, transitive: bool
) -> tuple[Any, Any]:
    """The pairs bought, the nearest first, and those that followed from labels on the way."""
    if not transitive:
        return pairs.ids, np.empty(0, np.int64)
    order = pairs.ids[np.argsort(np.abs(pairs.scores - centre), kind="stable")]
    bought, inferred, at = asked, np.empty(0, np.int64), 0
    while len(bought) < len(asked) + size and at < len(order):
        part = order[at : at + max(1, size // 16)]
        right = is_member(bought, data.train.positives)
        known = implied(data.train.space, part, bought[right], bought[~right])
        open_ = known.ids[known.labels == OPEN]
        room = len(asked) + size - len(bought)
        open_ = np.sort(open_[:room])
        inferred = np.union1d(inferred, np.setdiff1d(part, open_)) if len(open_) < room else inferred
        bought = np.union1d(bought, open_)
        at += len(part)
    return np.setdiff1d(bought, asked), inferred


def closed(data: TokenisedTask, taught: Any, share: float, rng: np.random.Generator) -> Any:
    """Matches that follow from the matches taught, by a chain; as many as `share` of those, at random."""
    positives = taught[is_member(taught, data.train.positives)]
    groups = grouped(data.train.space, positives, np.empty(0, np.int64))
    order = np.argsort(groups.group, kind="stable")
    texts, group = groups.texts[order], groups.group[order]
    first = np.searchsorted(group, group, "left")
    count = np.searchsorted(group, group, "right") - first
    weight = (count - 1).astype(float)
    at = rng.choice(len(texts), size=int(share * len(positives)), p=weight / weight.sum())
    other = first[at] + rng.integers(0, count[at])
    one, two = texts[at], texts[other]
    keep = one != two
    return np.setdiff1d(pair_ids(np.minimum(one, two)[keep], np.maximum(one, two)[keep]), taught)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--left-prefix", default="")
    parser.add_argument("--right-prefix", default="")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--batches", default="2048,3072,4608,6912")
    parser.add_argument("--cache", type=Path, default=None, help="keep token ids here between runs")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--until", type=float, default=1e9, help="begin no variant after so many seconds")
    args = parser.parse_args()
    began = time.perf_counter()
    data = TokenisedTask(args)
    print(f"{args.task.name}: ready after {time.perf_counter() - began:.1f} s", flush=True)
    results: list[dict[str, Any]] = []
    for variant in args.variants:
        name, changes = split_recipe(variant)
        for seed in range(args.seeds):
            if time.perf_counter() - began > args.until:
                print("out of time", flush=True)
                return
            try:
                row = loop(data, changes, seed, [int(size) for size in args.batches.split(",")])
            except Exception as error:
                print(f"{name:16} seed {seed}: {type(error).__name__}: {error}", flush=True)
                continue
            results.append({"task": args.task.name, "name": name, "changes": changes, "seed": seed, **row})
            print(
                f"{name:16} seed {seed}  dev AP {' '.join(f'{ap:.4f}' for ap in row['ap'])}  "
                f"positives {row['positives']}  {row['seconds']}",
                flush=True,
            )
            if args.json:
                args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
