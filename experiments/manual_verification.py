"""Manual verification of putative false positives: pairs drawn for a reader, labels read from a file.

As in the paper: at the threshold where recall is 0.2 on the dev split, 50 putative false positives among
the near negatives and 50 among the random ones. The file shows neither score nor stratum.

    python -m experiments.manual_verification --task TASK --drawn to-verify.json --labels FILE.csv --rows FILE
        --reader "who read the pairs"

corrects the precision of a run from what was drawn then, without its model, and adds it to the run's rows.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.results import read_file, write_rows
from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError
from pairsieve.files import write_json
from pairsieve.measure.curve import curve_from_scores
from pairsieve.measure.manual import corrected_precision, to_verify
from pairsieve.measure.sampling import POSITIVE, draw
from pairsieve.pairs import Ids, pair_ids, pair_rows
from pairsieve.tables import write_table
from pairsieve.tasks import Split, load_task

if TYPE_CHECKING:
    from experiments.setup import Setup
    from pairsieve.scan import Scan

TO_VERIFY = "to-verify.csv"
DRAWN = "to-verify.json"
EACH = 50  # pairs shown of each stratum
RECALL = 0.2
MEASURE = f"precision_at_recall_{RECALL:g}"
READ_BY = "; read by "  # before the reader's name, at the end of a method


@dataclass(frozen=True)
class Drawn:
    """The pairs shown, by id, and the counts that their labels correct; see `ToVerify`."""

    near: list[int]
    random: list[int]
    true_positives: float
    false_near: float
    false_random: float
    random_weight: float
    reaching: int  # of all pairs, exactly

    def corrected(self, given: dict[int, int], seed: int) -> Estimate:
        """Precision by the labels given, by pair id."""
        near, random = ([given[i] for i in ids if i in given] for ids in (self.near, self.random))
        # All pairs can be counted here: how many far ones reach the threshold is known, not estimated.
        far = float(max(self.reaching - self.true_positives - self.false_near, 0.0))
        exact = far == 0 or len(random) > 0
        return corrected_precision(
            self.true_positives,
            self.false_near,
            far if exact else self.false_random,
            near,
            random if far or not exact else [],
            generator_for(seed, 0, "corrected"),
            random_weight=1.0 if exact else self.random_weight,
        )


def verify_by_hand(
    setup: Setup, split: Split, scan: Scan, seed: int, folder: Path, say: Callable[[str], None]
) -> dict[str, Estimate]:
    """Precision at recall 0.2 by imputed labels and, where a person has labelled, corrected by theirs."""
    near, _ = setup.nearby(split, setup.near)
    sample = draw(split.space, split.positives, near, setup.random, generator_for(0, 0, f"draw {split.name}"))
    scores = scan.scores(sample.ids)
    positive = sample.stratum == POSITIVE
    curve = curve_from_scores(scores[positive], scores[~positive], negative_weights=sample.weights[~positive])
    threshold = float(curve.thresholds[curve.at_recall(RECALL)])
    asked = to_verify(sample, scores, threshold, EACH, EACH, generator_for(seed, 0, "verify"))
    imputed = curve.precision_at_recall(RECALL)
    found = {
        MEASURE: Estimate(imputed, imputed, imputed, len(sample), "imputed labels, far negatives sampled")
    }
    drawn = Drawn(
        asked.near.tolist(),
        asked.random.tolist(),
        asked.true_positives,
        asked.false_near,
        asked.false_random,
        asked.random_weight,
        int(scan.count_reaching(np.array([threshold], np.float32))[0]),
    )
    if setup.labels is None:
        _write_questions(folder / TO_VERIFY, split, drawn)
        write_json(folder / DRAWN, asdict(drawn))
        say(f"{folder / TO_VERIFY}: write 1 or 0 in the column label, and give it back with --labels")
        return found
    found[f"{MEASURE}_corrected"] = drawn.corrected(read_answers(setup.labels, split), seed)
    return found


def _write_questions(path: Path, split: Split, drawn: Drawn) -> None:
    """The pairs of both strata in the order of their ids, so that their order tells nothing."""
    ids: Ids = np.sort(np.array([*drawn.near, *drawn.random], np.int64))
    left, right = (rows.tolist() for rows in pair_rows(ids))
    columns = {
        "left": [split.left.keys[row] for row in left],
        "right": [split.right.keys[row] for row in right],
        "left_text": [split.left.texts[row] for row in left],
        "right_text": [split.right.texts[row] for row in right],
        "label": [""] * len(ids),
    }
    write_table(path, dict.fromkeys(columns, "string"), columns)


def read_answers(path: Path, split: Split) -> dict[int, int]:
    """Labels by pair id from a CSV of left, right (keys) and label: 1, 0, or empty where nobody was sure."""
    left = {key: row for row, key in enumerate(split.left.keys)}
    right = left if split.space.symmetric else {key: row for row, key in enumerate(split.right.keys)}
    found: dict[int, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("the labels cannot be read", where=str(path), why=str(error)) from error
    if not rows or not {"left", "right", "label"} <= rows[0].keys():
        raise InputError(
            "the labels lack a column, or are empty",
            where=str(path),
            why="the columns left, right and label are needed",
            remedy=f"Fill in the column label of {TO_VERIFY}",
        )
    for number, row in enumerate(rows, 2):
        one, other = left.get(row["left"]), right.get(row["right"])
        if one is None or other is None:
            key = row["left"] if one is None else row["right"]
            raise InputError(f"no text has the key {key!r}", where=f"{path}, row {number}")
        answer = (row["label"] or "").strip()
        if answer not in ("", "0", "1"):
            raise InputError(
                f"label {answer!r}", where=f"{path}, row {number}", remedy="Write 1, 0, or leave it empty"
            )
        if answer:
            a, b = (min(one, other), max(one, other)) if split.space.symmetric else (one, other)
            found[int(pair_ids(a, b))] = int(answer)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--drawn", type=Path, required=True, help=f"{DRAWN} of the run's folder")
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True, help="the run's rows, with the imputed precision")
    parser.add_argument("--reader", required=True, help="who read the pairs; the page names them")
    args = parser.parse_args()
    split = load_task(args.task).splits["dev"]
    drawn = Drawn(**json.loads(args.drawn.read_text()))
    given = read_answers(args.labels, split)
    rows = [row for row in read_file(args.rows) if row.measure != f"{MEASURE}_corrected"]
    (imputed,) = [row for row in rows if (row.model, row.measure) == ("manual", MEASURE)]
    found = drawn.corrected(given, imputed.seed)
    corrected = replace(
        imputed,
        **(found.as_json() | {"method": f"{found.method}{READ_BY}{args.reader}"}),
        measure=f"{MEASURE}_corrected",
        source=f"{imputed.source}; python -m experiments.manual_verification --drawn {args.drawn.name} "
        f'--labels {args.labels.name} --reader "{args.reader}"',
    )
    write_rows(args.rows, [*rows, corrected])
    right = {
        name: [given.get(i) for i in ids] for name, ids in (("near", drawn.near), ("random", drawn.random))
    }
    for name, answers in right.items():
        print(f"{name}: {len(answers)} shown, {answers.count(1)} match, {answers.count(0)} do not")
    stated = [given[i] for i in set(given) & set(split.stated_negatives.tolist())]
    print(f"stated non-matches among them: {len(stated)}, of which {sum(stated)} read as matches")
    print(f"precision at recall {RECALL:g}: {imputed.value:.4f} imputed, {found.value:.4f} corrected")


if __name__ == "__main__":
    main()
