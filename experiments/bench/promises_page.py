"""Writes docs/promises.md from the rows that six benches kept in experiments/bench/results/promises.

    python -m experiments.bench.promises_page

audit_coverage.json (audit_coverage), campaign_coverage.json (campaign_coverage), promises.json (promises),
reliability.json (reliability), measuring_cost.json (measuring_cost) and inferred_errors.json
(inferred_errors); nothing is run for it. A bench without kept rows is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.measuring_cost import FIGURES, mean_cost
from experiments.bench.reliability import FEWEST_PAIRS, MOST_OFF
from pairsieve.files import write_text

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results" / "promises"
MOVED = ("precision", "recall in reach", "positives in reach", "AP in reach")
PAGE = ROOT / "docs" / "promises.md"
SCENARIOS = {  # what the benches call them, where that says too little
    "half invisible": "half of the matches score like non-matches",
    "a third invisible": "a third of the matches score like non-matches",
}

HEAD = """# Promises

How often what is printed holds. Written by `python -m experiments.bench.promises_page` from the rows in
`experiments/bench/results/promises`; every table names the command of its rows."""

COVERAGE = """## Intervals from drawn labels

A ranking of 200,000 pairs with known truth; labels are drawn, answered and estimated as an audit does. A
scenario is one such ranking: good, weak or random, or hard in another way. "200 known": every other one of
the best 400 pairs had a label before.

Coverage: the share of repeats in which the 95 % limits hold the truth. Nine measures have limits: precision;
matches, matches left, recall and AP, each over all pairs and within reach. The lowest coverage is given, and
of which measure it is. The last three columns have three numbers each: the truth; the mean value, and in
brackets by how many standard errors it is off; the mean width of the interval.

No recall or AP is given as a value with fewer than 150 labels or 20 matches within reach, and nothing where
the rate of wrong answers is known or estimated. "1 in 20 wrong, as given": nothing is known of that rate, and
the truth is what the answers would say of every pair, so that one pair in twenty matches wherever it ranks.
Made by `python -m experiments.bench.audit_coverage`."""

MOVING = """## Limits beside a list in a campaign

A campaign over 20,000 pairs with 300 matches, under a scorer that changes from round to round. A tenth of
each batch of 40 is drawn under the ranking of the round before; the others are asked near the end of the
list. Coverage: the lowest of precision, precision of new pairs, recall, matches, matches left and AP within
reach, of the list as it is written. The last columns have two numbers each: the truth and the mean width of
the limits. There is no value: where a ranking moves no unbiased one is of use
([why](decisions/0018-moved-draws.md)).

The last six scenarios are hard on purpose: half of the matches, or 150 non-matches, come up from below in the
round that is measured; the scorer gets worse; matches are few; half of each batch is drawn, also under a
scorer that moves much. Made by `python -m experiments.bench.campaign_coverage`."""

LISTS = """## Lists with a precision or recall

`match --precision` and `match --recall` check what is asked, with at most 100 labels at 95 % confidence. Here
each finished campaign is checked 20 times with other random pairs. A cell has three numbers: for 0.8, 0.9 and
0.95 asked, in this order. Campaigns are named by table, labels and seed.

| column | meaning |
| --- | --- |
| shown | share of the checks in which a list passed |
| kept | of the lists that passed, the share that keeps what was asked: \
a precision on the pairs that nobody labelled; a recall of all matches, wherever they score |
| kept within reach | the same for a recall of the matches within reach, which is what is promised |
| found | median recall of the list, divided by the recall of the best threshold, which knows the truth; \
where a recall is asked, precision in place of recall; 0 where no list passed |
| possible | the same, of a check that knows the truth: by all 100 labels it tests the longest list \
that passes in half of the draws. 100 labels cannot show a precision that is hardly above the one asked |
| check labels | mean number of labels asked |

What was chosen while looking at some of these campaigns: how far a recall's check reaches, at seed 0 of
amazon-google, cora, people, products, qqp-5k and short-names with 400 labels; what is counted beyond that, at
cora and short-names; the form of a precision's check, at seed 0 of abt-buy, codes, demo, people, products,
qqp-5k, settlements and short-names with 400 labels; where its lists begin, at seven campaigns of 200 labels
(abt-buy, codes, cora, demo, qqp-5k, settlements, short-names). Precision rows with 1,000 labels, of people
and products, of seed 2 but for abt-buy, and of codes, demo and qqp-5k with 400 labels are of the plan before,
which began with shorter lists. febrl1 and febrl2 are held-out tables. Each row is one check of a finished
campaign. Who checks again until a list passes is wrong more often. Made by
`python -m experiments.bench.promises --kept FOLDER`
from the campaigns of `python -m experiments.bench.strangers --out FOLDER --keep`."""

PROBABILITIES = """## Probabilities

All pairs that nobody labelled, by stated probability, in bins with at least 100 pairs: the mean stated
probability beside the true share of matches. It is that of `match`'s column, of `/match` (the service),
`explain` and `export`. A test split ("test") is held out: nobody was asked about its texts. "-split": a table
of which half is train and a quarter each is dev and test, made by
`python -m experiments.bench.split_campaigns --out FOLDER`; dev's truth calibrates, as it does for demo-splits
(`strangers`). Else the labels drawn in the campaign calibrate. "none": pairs for which no probability is
stated, for too little is known of such scores, and the share of matches among them; no bin holds them. The
rules of what is known were fixed on simulated rankings and groups, and while looking at seed 0 of cora-split,
settlements-split, demo-splits, demo, cora, settlements, abt-buy, amazon-google, dblp-acm and short-names; the
other campaigns were run after. With 200 labels 18 are drawn, fewer than the 20 that a calibration takes.
Made by
`python -m experiments.bench.reliability --kept FOLDER` and
`python -m experiments.bench.reliability --campaign FOLDER/*/campaign --cache FOLDER/cache`."""

COST = """## What measuring costs

The share of each batch that is drawn to measure by does not train. F1 of the list and AP with it and without
it, under the same budget. Made by `python -m experiments.bench.measuring_cost` from two runs of
`python -m experiments.bench.strangers`, the second with `--share 0`."""

INFERRED = """## Inferred labels

What is inferred by transitivity where some answers are wrong. Inferred: labels that stand. Error: the share
of them that is wrong; beside it what it would be if one "no match" kept groups apart and nothing were asked
twice. Stated limit: the mean 95 % limit that `status` prints. Covered: how often the error is within it. Made
by `python -m experiments.bench.inferred_errors`."""


def markdown(words: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A section: words, then a table."""
    lines = [head, ["---"] * len(head), *rows]
    return f"{words}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def moving(rows: list[dict[str, Any]]) -> str:
    """The same of campaigns, by scenario and round."""
    head = ["scenario", "round", "repeats", "lowest coverage", "of", "precision", "recall in reach"]
    table = markdown(MOVING, [*head, "matches in reach", "AP in reach"], _covered(rows, "round", MOVED))
    lowest = [min(each["coverage"] or 1.0 for each in row["figures"].values()) for row in rows]
    good = sum(each >= 0.93 for each in lowest)
    return (
        f"{table}\n\nIn {good} of {len(rows)} lines every measure is covered in at least 0.93 of the repeats."
    )


def coverage(rows: list[dict[str, Any]]) -> str:
    """The lowest coverage of any measure by scenario and number of labels, and the bias of values."""
    shown = _covered(rows, "labels", ("precision", "recall in reach", "AP in reach"))
    head = ["scenario", "labels", "repeats", "lowest coverage", "of"]
    values = {
        f"{name} of {scenario(row)}, {row['labels']:,} labels ({_off(each):+.1f})": _off(each)
        for row in rows
        for name, each in row["figures"].items()
        if each["mean"] is not None and _off(each)
    }
    off = [name for name, z in values.items() if abs(z) > 2]
    end = f"Of {len(values)} mean values {len(off)} are more than two standard errors off; 1 in 22 is by "
    end += "chance" + (f": {'; '.join(off)}." if off else ".")
    table = markdown(COVERAGE, [*head, "precision", "recall in reach", "AP in reach"], shown)
    return f"{table}\n\n{end}"


def _covered(rows: list[dict[str, Any]], by: str, named: Sequence[str]) -> list[list[str]]:
    """One line a row: the lowest coverage, then truth, mean, its error and the width of some figures."""
    shown = []
    for row in rows:
        figures = row["figures"]
        covered = {name: each["coverage"] for name, each in figures.items() if each["coverage"] is not None}
        least = min(covered, key=lambda name: covered[name]) if covered else None
        cells = [scenario(row), f"{row[by]:,}", f"{row['repeats']:,}"]
        cells += [_number(covered[least]) if least else "-", least or "-"]
        for name in named:
            each = figures[name]
            mean = "-" if each["mean"] is None else f"{each['mean']:.3f} ({_off(each):+.1f})"
            middle = [mean] if by == "labels" else []
            cells.append(", ".join([_number(each["truth"]), *middle, _number(each["width"])]))
        shown.append(cells)
    return shown


def scenario(row: dict[str, Any]) -> str:
    """The name of what was simulated."""
    return SCENARIOS.get(row["regime"], row["regime"])


def _off(figure: dict[str, Any]) -> float:
    """By how many standard errors a mean value is off; 0 where the difference is one of rounding."""
    return 0.0 if abs(figure["mean"] - figure["truth"]) < 1e-9 else float(figure["z"])


def promises(rows: list[dict[str, Any]]) -> str:
    """Lists asked for a precision or recall: one row a campaign and kind, then sums by number of labels."""
    kept: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        kept.setdefault((row["campaign"], row["asked"].split()[0]), []).append(row)
    shown = []
    for (campaign, kind), mine in kept.items():
        named = ("shown", "kept", "found", "possible")
        cells = [" / ".join(_number(row.get(name), ".2f") for row in mine) for name in named]
        within = " / ".join(_number(row["within"], ".2f") for row in mine) if kind == "recall" else "-"
        labels = " / ".join(_number(row["labels"], ".0f") for row in mine)
        shown.append([campaign, kind, cells[0], cells[1], within, *cells[2:], labels])
    head = ["campaign", "asked", "shown", "kept", "kept within reach", "found", "possible", "check labels"]
    sums = [
        _summed(mine, kind, labels)
        for kind in ("precision", "recall")
        for labels in sorted({_budget(row) for row in rows})
        if (mine := [row for row in rows if row["asked"].startswith(kind) and _budget(row) == labels])
    ]
    names = ["asked", "labels", "campaigns", "lists shown", "kept", "kept within reach", "median found"]
    return f"{markdown(LISTS, head, shown)}\n\n{markdown('In summary, over campaigns:', names, sums)}"


def _budget(row: dict[str, Any]) -> int:
    """The labels of a campaign, from its name TABLE.LABELS.SEED."""
    return int(row["campaign"].rsplit(".", 2)[1])


def _summed(rows: list[dict[str, Any]], kind: str, labels: int) -> list[str]:
    lists = [row for row in rows if row["kept"] is not None]
    weight = max(sum(row["shown"] for row in lists), 1e-9)
    kept = [
        f"{sum(row[name] * row['shown'] for row in lists) / weight:.1%}"
        if name == "kept" or kind == "recall"
        else "-"
        for name in ("kept", "within")
    ]
    found = float(np.median([row["found"] for row in rows]))
    shown = f"{np.mean([row['shown'] for row in rows]):.1%}"
    return [kind, f"{labels:,}", str(len({row["campaign"] for row in rows})), shown, *kept, f"{found:.2f}"]


def reliable(rows: list[dict[str, Any]]) -> str:
    """Stated and true rates."""
    shown = []
    for row in rows:
        name = row["campaign"] + ("" if row["split"] in ("all", "train") else f", {row['split']}")
        for each in row["bins"]:
            if each["pairs"] >= FEWEST_PAIRS:
                cells = [name, f"{row['drawn']:,}", f"{each['from']:.1f} to {each['to']:.1f}"]
                cells += [f"{each['pairs']:,.0f}", _number(each["stated"]), _number(each["true"])]
                shown.append(cells)
        if row["none"] and row["none"]["pairs"]:
            pairs, matches = row["none"]["pairs"], row["none"]["matches"]
            shown.append([name, f"{row['drawn']:,}", "none", f"{pairs:,}", "-", _number(matches / pairs)])
    head = ["campaign", "labels drawn", "probability", "pairs", "stated", "true"]
    worst = [row["worst"] for row in rows if row["worst"] is not None]
    good = sum(each <= MOST_OFF for each in worst)
    tables = f"In {good} of {len(worst)} tables no bin is off by more than {MOST_OFF:g}"
    of_test = [row["worst"] for row in rows if row["split"] == "test" and row["worst"] is not None]
    end = f"{tables}; the worst is off by {max(worst):.3f}, of held-out splits by {max(of_test):.3f}."
    held_out, own = (
        float(np.median([_none(row) for row in rows if row["none"] and (row["split"] == "test") == test]))
        for test in (True, False)
    )
    most = max((row for row in rows if row["none"]), key=_none)
    end += (
        f" Of the matches without a label a median of {held_out:.0%} has no probability in a test split "
        f"and {own:.0%} in a campaign's own; the most, {_none(most):.0%}, of {most['campaign']}."
    )
    return f"{markdown(PROBABILITIES, head, shown)}\n\n{end}"


def _none(row: dict[str, Any]) -> float:
    """The share of the matches that have no probability."""
    return float(row["none"]["matches"] / max(row["none"]["of"], 1))


def inferred(rows: list[dict[str, Any]]) -> str:
    """The error of inferred labels, true and stated."""
    forms = {"wrong": ".2f", "inferred": ".0f", "asked": ".1f"}
    names = (*forms, "error", "one_negative", "high", "covered")
    shown = [
        [row["groups"], f"{row['labels']:,}", *(_number(row[name], forms.get(name, ".3f")) for name in names)]
        for row in rows
    ]
    head = ["groups of", "labels", "answers wrong", "inferred", "asked all the same", "error"]
    return markdown(INFERRED, [*head, 'error with one "no match"', "stated limit", "covered"], shown)


def cost(rows: list[dict[str, Any]]) -> str:
    """F1 and AP with the measuring share and without it."""
    names = ("f1", "f1_without", "ap", "ap_without")
    shown = [
        [row["table"], f"{row['labels']:,}", str(row["seeds"]), *(_number(row[name]) for name in names)]
        for row in rows
    ]
    ends = []
    for figure in FIGURES:
        mean, error = mean_cost(rows, figure)
        ends.append(f"{figure.upper()} {mean:+.4f} ± {error:.4f}")
    head = ["table", "labels", "seeds", "F1", "F1 without", "AP", "AP without"]
    return f"{markdown(COST, head, shown)}\n\nWith the share less without it, over tables: {'; '.join(ends)}."


PARTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "audit_coverage": coverage,
    "campaign_coverage": moving,
    "promises": promises,
    "reliability": reliable,
    "measuring_cost": cost,
    "inferred_errors": inferred,
}


def page() -> str:
    """The page from the kept rows."""
    parts, missing = [HEAD], []
    for name, write in PARTS.items():
        kept = RESULTS / f"{name}.json"
        if kept.is_file():
            parts.append(write(json.loads(kept.read_text(encoding="utf-8"))))
        else:
            missing.append(f"- `python -m experiments.bench.{name}`")
    if missing:
        parts.append("## Without kept rows\n\n" + "\n".join(missing))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    write_text(PAGE, page())
    print(PAGE)


if __name__ == "__main__":
    main()
