"""Fine-tuning on a CPU beside sentence-transformers' trainer on the same pairs: steps a second, AP.

    python -m experiments.bench.trainer_peer [--pairs 320] [--texts 1200] [--rate 1e-4] [--json FILE]

The same labelled pairs of synthetic questions (half of them matches, the rest near misses as far as there are
any), the same encoder, batch size, epochs and learning rate; the peer minimises its loss for labelled
pairs, CosineSimilarityLoss. Both are then measured exactly over all pairs of questions that neither has
seen. Needs the packages of the extra `bench`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.bench.claims import Claim, Side, busy, finish, parser

BATCH = 16


def chosen(texts: int, pairs: int) -> tuple[Any, Any, Any, Any]:
    """The train and test splits, and ids and labels of the pairs to learn from."""
    from experiments.synthetic import questions_task

    task = questions_task(texts, 0)
    train, rng = task.splits["train"], np.random.default_rng(0)
    matches = rng.choice(train.positives, pairs // 2, replace=False)
    others = rng.permutation(train.stated_negatives)[: pairs - len(matches)]
    known = np.union1d(train.positives, others)
    others = np.concatenate([others, train.space.sample(pairs - len(matches) - len(others), rng, known)])
    ids = np.sort(np.concatenate([matches, others]))
    return train, task.splits["test"], ids, np.isin(ids, matches)


def average_precision(rows: Any, test: Any) -> float:
    from pairsieve.measure.curve import measure_exactly
    from pairsieve.scan import open_scan

    return measure_exactly(
        open_scan(test.space, rows, device="cpu"), test.positives
    ).curve.average_precision()


def ours(encoder: str, texts: int, pairs: int, rate: float, threads: int) -> Callable[[], Any]:
    import torch

    from pairsieve.models import learner_named

    torch.set_num_threads(threads)
    train, test, ids, labels = chosen(texts, pairs)
    learner = learner_named("full", encoder, "cpu", learning_rate=rate, batch_size=BATCH, epochs=1)
    learner.pretrained().embed(train.left.texts[:32])  # loads
    kept: list[Any] = []

    def work() -> Any:
        if not kept:  # the first turn trains; the second, outside the claim, measures
            kept.append(
                learner.fit((train.left.texts, train.left.texts), ids, labels, np.random.default_rng(0))
            )
            return None
        before = average_precision(learner.pretrained().embed(test.left.texts), test)
        return before, average_precision(kept[0].embed(test.left.texts), test)

    return work


def trainer(encoder: str, texts: int, pairs: int, rate: float, threads: int) -> Callable[[], Any]:
    import torch
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
        losses,
    )

    from pairsieve.models.folders import folder_named
    from pairsieve.pairs import pair_rows

    torch.set_num_threads(threads)
    train, test, ids, labels = chosen(texts, pairs)
    left, right = pair_rows(ids)
    model = SentenceTransformer(str(folder_named(encoder)), device="cpu")
    model.max_seq_length = 128
    data = Dataset.from_dict(
        {
            "one": [train.left.texts[row] for row in left],
            "other": [train.left.texts[row] for row in right],
            "label": labels.astype(float).tolist(),
        }
    )
    arguments = SentenceTransformerTrainingArguments(
        output_dir=tempfile.mkdtemp(),
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        learning_rate=rate,
        warmup_steps=max(1, pairs // BATCH // 10),
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    fitting = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=losses.CosineSimilarityLoss(model)
    )
    model.encode(train.left.texts[:32])
    trained: list[bool] = []

    def work() -> Any:
        if not trained:
            fitting.train()
            trained.append(True)
            return None
        return average_precision(
            model.encode(test.left.texts, normalize_embeddings=True, show_progress_bar=False), test
        )

    return work


def main() -> None:
    from pairsieve.models.folders import BUNDLED

    arguments = parser(__doc__)
    arguments.add_argument("--encoder", default=BUNDLED)
    arguments.add_argument("--texts", type=int, default=1200, help="half to learn from, half to measure on")
    arguments.add_argument("--pairs", type=int, default=320)
    arguments.add_argument("--rate", type=float, default=1e-4)
    asked = arguments.parse_args()
    steps = asked.pairs // BATCH
    inputs = (asked.encoder, asked.texts, asked.pairs, asked.rate, asked.threads)
    sides = [Side(ours, *inputs), Side(trainer, *inputs)]
    our_seconds, peer_seconds = (side.run() for side in sides)
    spent = busy(*sides)
    peaks = []
    for side in sides:
        side.run()
        peaks.append(side.close())
    before, after = sides[0].result
    finish(
        [
            Claim(
                "Fine-tuning the encoder on a CPU beside sentence-transformers' trainer",
                f"pairsieve, learner full ({steps / our_seconds:.2f} steps a second)",
                our_seconds,
                f"SentenceTransformerTrainer ({steps / peer_seconds:.2f} steps a second)",
                peer_seconds,
                peer_seconds / our_seconds,
                "",
                peaks[0],
                f"{asked.pairs:,} labelled pairs, {steps} steps of {BATCH}, {asked.threads} threads, "
                f"{asked.encoder}",
                f"AP over all test pairs {before:.3f} before, {after:.3f} ours, "
                f"{sides[1].result:.3f} the peer's; peer's peak {peaks[1]:.2f} GiB; {spent}",
            )
        ],
        asked.json,
    )


if __name__ == "__main__":
    main()
