"""The paper's reported results as data, and how its data and counts differ from ours.

Mussmann, Jia and Liang, "On the Importance of Adaptive Data Collection for Extremely Imbalanced Pairwise
Tasks" (2020): BERT-base, means of three seeds, budgets of 232,100 (QQP) and 16,640 (WikiQA) labels.
"""

from __future__ import annotations

from dataclasses import dataclass

QQP, WIKIQA = "QQP", "WikiQA"

# Table 1: positives, pairs, pairs per positive, stated negatives, nearby negatives.
STATISTICS: dict[tuple[str, str], tuple[str, str, str, str, str]] = {
    (QQP, "train"): ("124,625", "38B", "300K", "132,796", "-"),
    (QQP, "dev"): ("60,510", "8.8B", "150K", "61,645", "13.1M"),
    (QQP, "test"): ("43,413", "8.5B", "190K", "60,575", "12.8M"),
    (WIKIQA, "train"): ("1,040", "56M", "53K", "19,320", "-"),
    (WIKIQA, "dev"): ("140", "7.8M", "56K", "2,593", "29,511"),
    (WIKIQA, "test"): ("293", "17M", "57K", "5,872", "63,136"),
}

# Table 2: two balanced measures (QQP: accuracy, F1; WikiQA: clean MAP, F1 of all pairs), P@R20, AP.
CONCATENATION: dict[tuple[str, str], tuple[float, float, float, float]] = {
    (QQP, "BERT"): (0.825, 0.773, 0.030, 0.024),
    (QQP, "XLNet"): (0.830, 0.779, 0.017, 0.014),
    (QQP, "RoBERTa"): (0.844, 0.802, 0.025, 0.020),
    (QQP, "ALBERT"): (0.796, 0.730, 0.035, 0.019),
    (WIKIQA, "BERT"): (0.799, 0.459, 0.065, 0.024),
    (WIKIQA, "XLNet"): (0.805, 0.467, 0.010, 0.010),
    (WIKIQA, "RoBERTa"): (0.846, 0.536, 0.034, 0.023),
    (WIKIQA, "ALBERT"): (0.782, 0.418, 0.007, 0.009),
}

# Tables 3 and 5: P@R20, AP of the cosine model.
STRATEGIES: dict[tuple[str, str], tuple[float, float]] = {
    (QQP, "random"): (0.047, 0.028),
    (QQP, "stated"): (0.293, 0.154),
    (QQP, "static"): (0.492, 0.251),
    (QQP, "stratified-match"): (0.351, 0.190),
    (QQP, "stratified-all"): (0.416, 0.222),
    (QQP, "adaptive"): (0.591, 0.324),
    (QQP, "uncertainty"): (0.602, 0.325),
    (WIKIQA, "random"): (0.013, 0.013),
    (WIKIQA, "stated"): (0.007, 0.022),
    (WIKIQA, "static"): (0.139, 0.082),
    (WIKIQA, "stratified-match"): (0.132, 0.085),
    (WIKIQA, "stratified-all"): (0.137, 0.091),
    (WIKIQA, "adaptive"): (0.271, 0.151),
    (WIKIQA, "uncertainty"): (0.324, 0.201),
}

# Table 4: positives found with 232,100 (QQP) and 16,640 (WikiQA) labels.
POSITIVES: dict[tuple[str, str], int] = {
    (QQP, "random"): 1,
    (QQP, "static"): 16_422,
    (QQP, "adaptive"): 103_181,
    (QQP, "uncertainty"): 87_594,
    (WIKIQA, "random"): 1,
    (WIKIQA, "static"): 169,
    (WIKIQA, "adaptive"): 757,
    (WIKIQA, "uncertainty"): 742,
}
BUDGETS = {QQP: 232_100, WIKIQA: 16_640}

# Table 6, QQP only: P@R20 and AP of the concatenation model on collected data.
COLLECTED: dict[tuple[str, str], tuple[float, float]] = {
    (QQP, "stated"): (0.030, 0.024),
    (QQP, "static"): (0.046, 0.019),
    (QQP, "stratified-match"): (0.290, 0.164),
    (QQP, "uncertainty"): (0.236, 0.089),
}

# Data efficiency, QQP dev: static's AP with all labels, and what uncertainty needs to pass it.
EFFICIENCY = {QQP: (0.219, 232_100, 0.226, 16_640)}

# Manual verification, QQP dev, precision at recall 0.2: imputed, corrected; share of real near errors.
MANUAL: dict[tuple[str, str], tuple[float, float, float]] = {
    (QQP, "uncertainty"): (0.551, 0.793, 0.32),
    (QQP, "stated"): (0.284, 0.414, 0.36),
}


@dataclass(frozen=True)
class Counterpart:
    """The paper's task that a task of ours is compared with, and how its data differ."""

    task: str  # QQP or WikiQA; empty: none
    data: str  # what differs in the data, in words


def counterpart(task: str) -> Counterpart:
    """By the task's name; other tasks are compared with none."""
    name = task.lower()
    if name.startswith("wikiqa"):
        return Counterpart(WIKIQA, "")
    if name == "qqp":
        return Counterpart(QQP, "")
    if name.startswith("qqp"):
        return Counterpart(
            QQP,
            "a part of QQP with fewer questions, few stated negatives and a higher share of matches: its "
            "figures are not comparable with the paper's, only the order of its rows is",
        )
    return Counterpart("", "")


def differences(task: str, encoder: str, learner: str) -> str:
    """What every table with the paper's figures says about their differences."""
    where = counterpart(task)
    trained = {
        "full": "fine-tuned",
        "projection": "frozen under a trained linear map",
        "cross": "fine-tuned on both texts at once",
    }.get(learner, "as it came")
    parts = [f"the encoder ({encoder}, {trained}, instead of BERT-base)"]
    if where.data:
        parts.append(f"the data ({where.data})")
    parts.append(
        "the counting (ours: distinct pairs, searched and measured over all pairs; the released code: the "
        "nearest neighbours of each text, mirrored pairs bought and counted twice, 10 million random pairs)"
    )
    return "What differs from the paper: " + "; ".join(parts) + "."
