"""The list and the groups in a report, and the pairs in most doubt with what made their score."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from pairsieve.campaign import Campaign
from pairsieve.matches.review import review_list
from pairsieve.pairs import is_member
from pairsieve.scorer.waterfall import Step, waterfalls
from pairsieve.tasks.joined import without_gaps
from pairsieve.visible import visible

SHOWN = 5  # pairs in most doubt
LONGEST = 400  # characters of a text
MOST_PAIRS = 300_000_000  # of a space that is looked through for a list


@dataclass(frozen=True)
class DoubtfulPair:
    """A pair near the threshold, or one whose score goes against the list."""

    keys: tuple[str, str]
    texts: tuple[str, str]
    listed: bool
    opinion: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Listed:
    """What `match` and `cluster` give with their defaults."""

    split: str
    threshold: float
    matches: int
    groups: int  # of two texts or more; 0 for two collections
    sizes: dict[int, int]  # {texts of a group: how many groups}
    calibrated: bool
    doubtful: tuple[DoubtfulPair, ...]


def listed(campaign: Campaign) -> Listed | None:
    """The default list of the campaign's own split; None where it is too large to look through."""
    split = campaign.split
    if split.space.size > MOST_PAIRS:
        return None
    found = review_list(campaign)
    known = np.concatenate([campaign.ledger.labels(purpose)[0] for purpose in ("train", "audit")])
    open_pairs = np.flatnonzero(~is_member(found.ids, np.sort(known)))[:SHOWN]
    ids = found.ids[open_pairs]
    left, right = split.keys(ids)
    texts = [[without_gaps(text) for text in side] for side in split.texts(ids)]
    shown = [
        DoubtfulPair((left[at], right[at]), (texts[0][at], texts[1][at]), *about, steps)
        for at, (about, steps) in enumerate(
            zip(
                zip(found.listed[open_pairs].tolist(), found.opinion[open_pairs].tolist()),
                waterfalls(found.scored, split, ids),
            )
        )
    ]
    sizes: dict[int, int] = {}
    for members, _, _ in found.groups:
        sizes[len(members)] = sizes.get(len(members), 0) + 1
    return Listed(
        split.name,
        found.threshold,
        found.matches,
        found.all_groups,
        dict(sorted(sizes.items())),
        found.calibrated,
        tuple(shown),
    )


def section(found: Listed | None, name: str) -> str:
    """The list as a section of the page."""
    if found is None:
        return ""
    pairs = f"{found.matches:,} pairs of {escape(found.split)}"
    words = f"With its defaults, <code>pairsieve match</code> lists {pairs}"
    if found.groups:
        groups = f"{found.groups:,} groups, the largest of {max(found.sizes, default=0):,} texts"
        words += f", and <code>pairsieve cluster</code> makes {groups}"
    parts = [f"<p>{words}. The threshold is {found.threshold:.4f}.</p>"]
    if found.sizes:
        rows = "".join(f"<tr><td>{size:,}</td><td>{count:,}</td></tr>" for size, count in found.sizes.items())
        head = "<tr><th>Texts in a group</th><th>Groups</th></tr>"
        parts.append(f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>')
    if found.doubtful:
        kind = "probability" if found.calibrated else "model score"
        items = "".join(_doubtful(pair, kind) for pair in found.doubtful)
        review = f"<code>pairsieve label {escape(shlex.quote(visible(name)))}</code>, page Review"
        parts.append(f"<h3>Most in doubt</h3><p>More of them, to confirm or to correct: {review}.</p>")
        parts.append(f'<ol class="pairs">{items}</ol>')
    return f"<section><h2>The list</h2>{''.join(parts)}</section>"


def _doubtful(pair: DoubtfulPair, kind: str) -> str:
    texts = "".join(
        f'<div><p class="key"><bdi>{escape(visible(key, 120))}</bdi></p>'
        f'<p dir="auto">{escape(visible(text, LONGEST))}</p></div>'
        for key, text in zip(pair.keys, pair.texts)
    )
    where = "in the list" if pair.listed else "left out"
    return (
        f'<li class="pair"><div class="texts">{texts}</div>'
        f'<p class="muted">{where}, {kind} {pair.opinion:.3f}. {_sum(pair.steps)}</p></li>'
    )


def _sum(steps: Sequence[Step]) -> str:
    """The parts of the log-odds in one line."""
    parts = "; ".join(f"{escape(visible(step.name, 40))} {step.log_odds:+.2f}" for step in steps)
    return f"Log-odds {sum(step.log_odds for step in steps):+.2f}: {parts}."
