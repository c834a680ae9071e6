"""The HTML page of a report: self-contained, without script, network or other files.

Every word that comes from a user (texts, keys, names, paths) passes through `_text`, and nothing else does.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from pairsieve.audit.estimate import Limits
from pairsieve.contracts import Estimate
from pairsieve.files import write_bytes, write_errors
from pairsieve.measure.figures import digits
from pairsieve.report.facts import Facts, Measured, Missing, ShownPair
from pairsieve.report.listed import DoubtfulPair
from pairsieve.report.pictures import Picture, pictures
from pairsieve.settings import TEST_SPLIT
from pairsieve.visible import visible

PAGE = "index.html"
PICTURES = ("learning-curve", "matches-per-round", "precision-recall", "scores", "seconds")
LONGEST = 700  # characters of a text that are shown
LONGEST_DOUBTFUL = 400  # of a pair in doubt, likewise


def write_report(facts: Facts, out: Path) -> list[Path]:
    """Write the page and its pictures as PNG into the folder `out`; each file whole or not at all.

    The page is written last. Pictures of an earlier report that this one does not have are removed.
    """
    drawn = pictures(facts)
    images = {f"{picture.name}.png": picture.png for picture in drawn}
    with write_errors("the report", out, "Make room there, or choose another folder with `out`"):
        out.mkdir(parents=True, exist_ok=True)
        for name in {f"{name}.png" for name in PICTURES} - images.keys():
            (out / name).unlink(missing_ok=True)
        for name, contents in {**images, PAGE: page(facts, drawn).encode()}.items():
            write_bytes(out / name, contents)
    return [out / PAGE, *(out / name for name in images)]


def page(facts: Facts, drawn: Sequence[Picture]) -> str:
    """The whole page."""
    style = resources.files("pairsieve.report").joinpath("style.css").read_text(encoding="utf-8")
    top = (_head(facts), _tiles(facts), _missing(facts.missing), _figures(drawn, _balanced(facts)))
    middle = (_audits(facts), _reliability(facts), _listed(facts))
    sections = (*top, *middle, _mistakes(facts), _people(facts), _origin(facts))
    body = "\n".join(filter(None, sections))
    name = _text(facts.name)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{name}: pairsieve report</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


# ── its sections ───────────────────────────────────────────────────────────────────────────────────────


def _head(facts: Facts) -> str:
    pool, task = facts.pool, facts.origin.task
    texts = f"{len(pool.left):,}" if pool.space.symmetric else f"{len(pool.left):,} × {len(pool.right):,}"
    question = f"Which of the {pool.space.size:,} pairs of {texts} texts match?"
    lines = [f"{question} Task {_text(task['name'])}, split {_text(pool.name)}. {_text(facts.state)}"]
    if facts.advice:
        lines.append(_text(facts.advice))
    last = f" · last label {_text(facts.last_label[:10])}" if facts.last_label else ""
    words = "".join(f'<p class="lead">{line}</p>' for line in lines)
    return f'<header><p class="kicker">pairsieve report{last}</p><h1>{_text(facts.name)}</h1>{words}</header>'


def _tiles(facts: Facts) -> str:
    tiles = [
        ("Labels", f"{facts.labels:,}", f"of a budget of {facts.budget:,}"),
        ("Matches found", f"{facts.positives:,}", _share(facts.positives, facts.labels)),
    ]
    measured = facts.measured
    if measured is not None:
        figures, interval = measured.figures, measured.interval
        best, at = figures.best_f1, figures.precision_at_recall[0.2].value
        one_in, split = f"{figures.pairs / figures.positives:,.0f}", _text(facts.split or "")
        over = f"over all {figures.pairs:,} pairs of {split}{'' if facts.held_out else ' (not held out)'}"
        elsewhere = interval.method.partition("; ")[2]  # why there is no interval
        if interval.low < interval.high:
            elsewhere = f"{digits(interval.low)} to {digits(interval.high)} on other such texts"
        tiles += [
            ("Average precision", digits(interval.value), f"{over}; {elsewhere}"),
            ("Precision at recall 0.2", digits(at), over),
            ("Best F1", digits(best.value), f"at a score of {best.threshold:.3f}"),
            ("One match in", one_in, f"pairs of {split}"),
        ]
    elif facts.audits:
        last = [*facts.audits.values()][-1]
        shares = {"Average precision": last.average_precision, "Precision": last.precision}
        for words, held in (shares | {"Recall": last.recall}).items():
            if held is None:
                tiles.append((words, "–", "not known: no match was seen"))
                continue
            basis = f"{digits(held.low)} to {digits(held.high)}, by {last.labels:,} audit labels"
            if held.low == held.high:  # of precision, where everything above the line was asked
                basis = "exact: every such pair is labelled"
            tiles.append((words, digits(held.value) if isinstance(held, Estimate) else "–", basis))
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>" for name, value, more in tiles
    )
    return f'<dl class="tiles">{rows}</dl>'


def _missing(missing: Iterable[Missing]) -> str:
    rows = "".join(
        f"<li><strong>{_text(each.what)}</strong>: {_text(each.why)}. <span>To have it: "
        f"<code>{_text(each.how)}</code></span></li>"
        for each in missing
    )
    return f'<section class="note"><h2>What is missing here</h2><ul>{rows}</ul></section>' if rows else ""


def _figures(drawn: Sequence[Picture], beside: str) -> str:
    if not drawn:
        return ""
    drawn_figures = "".join(
        f'<figure id="{picture.name}"><h2>{picture.title}</h2>{picture.svg}<figcaption>{_text(picture.words)}'
        f"</figcaption><details><summary>The numbers</summary>{_table(picture.columns, picture.rows)}"
        "</details></figure>"
        for picture in drawn
    )
    return f'<section class="figures">{drawn_figures}{beside}</section>'


def _balanced(facts: Facts) -> str:
    measured = facts.measured
    if measured is None or not measured.samples:
        return ""
    figures, claims = measured.figures, [sample.claims for sample in measured.samples]
    ap = figures.average_precision.value
    rows = [
        ("Pairs", f"{figures.pairs:,}", *(f"{each.pairs:,}" for each in claims)),
        ("Matches among them", f"{figures.positives:,}", *(f"{each.positives:,}" for each in claims)),
        ("Average precision", digits(ap), *(digits(each.average_precision) for each in claims)),
        ("Best F1", digits(figures.best_f1.value), *(digits(each.best_f1.value) for each in claims)),
        ("Accuracy at that F1", digits(_accuracy(measured)), *(digits(each.accuracy) for each in claims)),
    ]
    meant = "; ".join(f"{sample.name}: {sample.what}" for sample in measured.samples)
    words = f"{meant[:1].upper()}{meant[1:]}. The scores are the same, only the pairs counted differ. "
    words += "Judge the model by all pairs."
    if not facts.held_out:
        words += f" Not held out, so too high: pairs of {facts.split} could be asked about and trained on."
    table = _table(("", "All pairs", *(sample.name.capitalize() for sample in measured.samples)), rows)
    title = "<h2>On a balanced sample</h2>"
    return f'<div class="card">{title}{table}<p class="muted">{_text(words)}</p></div>'


def _accuracy(measured: Measured) -> float:
    """Share of all pairs called right at the best F1: (pairs - missed - false alarms) / pairs."""
    best, pairs = measured.curve.best_f1(), measured.figures.pairs
    found = best.recall * measured.curve.positives
    false = found / best.precision - found if best.precision > 0 else 0.0
    return float((pairs - (measured.curve.positives - found) - false) / pairs)


def _reliability(facts: Facts) -> str:
    """Stated and true rates by stated probability."""
    if facts.measured is None or not facts.measured.reliability:
        return ""
    rows = [
        (f"{each.low:.1f} to {each.high:.1f}", f"{each.pairs:,.0f}", digits(each.stated), digits(each.true))
        for each in facts.measured.reliability
    ]
    words = f"All pairs of {facts.split} that nobody labelled, by the probability that the scorer states. "
    words += "Stated: its mean. True: the share of matches. Pairs for which none is stated are in no row."
    table = _table(("Probability", "Pairs", "Stated", "True"), rows)
    return f"<section><h2>Calibration</h2><p>{_text(words)}</p>{table}</section>"


def _audits(facts: Facts) -> str:
    if not facts.audits:
        return ""
    rows = []
    for round_, audit in facts.audits.items():
        about = (str(round_), f"{audit.labels:,}", f"{audit.threshold:.4f}")
        shares = [_interval(each) for each in (audit.precision, audit.recall, audit.average_precision)]
        rows.append((*about, *shares, _interval(audit.positives, "{:,.0f}".format)))
    columns = ("Round", "Labels", "From score", "Precision", "Recall", "Average precision", "Matches")
    words = (
        f"Measured on {_text(facts.pool.name)} by labels drawn with known chances, never used for training. "
        f"Recall, average precision and matches are of the {audit.reach_pairs:,} best-scored "
        "pairs; further down so many labels cannot tell. "
        f"Intervals: {_text(audit.method)}."
    )
    return f"<section><h2>Audits</h2><p>{words}</p>{_table(columns, rows)}</section>"


def _mistakes(facts: Facts) -> str:
    if facts.measured is not None:
        where = f"of all pairs of {_text(facts.split or '')}"
        kinds = (
            (f"Highest-scoring non-matches {where}", facts.measured.false_positives),
            (f"Lowest-scoring matches {where}", facts.measured.false_negatives),
        )
        words = "Where the truth was imputed rather than stated, a “mistake” may be a label that is missing."
    elif facts.labelled is not None:
        kinds = (
            ("Labelled no match, and the model says match", facts.labelled.false_positives),
            ("Labelled match, and the model says no", facts.labelled.false_negatives),
        )
        words = "The model learned from these labels and still disagrees: some may be slips of a labeller."
    else:
        return ""
    columns = "".join(f"<div><h3>{title}</h3>{_pairs(pairs)}</div>" for title, pairs in kinds)
    return (
        f'<section><h2>Worst errors</h2><p class="muted">{words}</p>'
        f'<div class="two">{columns}</div></section>'
    )


def _pairs(pairs: Sequence[ShownPair]) -> str:
    if not pairs:
        return '<p class="muted">None.</p>'
    items = []
    for pair in pairs:
        rank = f", rank {pair.rank:,}" if pair.rank is not None else ""
        chance = f", probability {pair.probability:.3f}" if pair.probability is not None else ""
        sides = (pair.left_key, pair.left_text), (pair.right_key, pair.right_text)
        items.append(_pair(sides, LONGEST, f"score {pair.score:.4f}{chance}{rank}"))
    return f'<ol class="pairs">{"".join(items)}</ol>'


def _pair(sides: Iterable[tuple[str, str]], longest: int, words: str) -> str:
    """The key and text of both sides, and a line of escaped words below them."""
    texts = "".join(
        f'<div><p class="key"><bdi>{_text(key, 120)}</bdi></p><p dir="auto">{_text(text, longest)}</p></div>'
        for key, text in sides
    )
    return f'<li class="pair"><div class="texts">{texts}</div><p class="muted">{words}</p></li>'


def _listed(facts: Facts) -> str:
    """The list and the groups, and the pairs most in doubt."""
    found = facts.listed
    if found is None:
        return ""
    words = f"With its defaults, <code>pairsieve match</code> lists {found.matches:,} pairs of "
    words += _text(found.split)
    if found.groups:
        groups = f"{found.groups:,} groups, the largest of {max(found.sizes, default=0):,} texts"
        words += f", and <code>pairsieve cluster</code> makes {groups}"
    parts = [f"<p>{words}. The threshold is {found.threshold:.4f}.</p>"]
    if found.sizes:
        rows = [(f"{size:,}", f"{count:,}") for size, count in found.sizes.items()]
        parts.append(_table(("Texts in a group", "Groups"), rows))
    if found.doubtful:
        items = "".join(_doubtful(pair) for pair in found.doubtful)
        review = f"<code>pairsieve label {_text(shlex.quote(facts.name))}</code>, page Review"
        parts.append(f"<h3>Most in doubt</h3><p>More of them, to confirm or to correct: {review}.</p>")
        parts.append(f'<ol class="pairs">{items}</ol>')
    return f"<section><h2>The list</h2>{''.join(parts)}</section>"


def _doubtful(pair: DoubtfulPair) -> str:
    """A pair in doubt, with the parts of its log-odds in one line."""
    where = "in the list" if pair.listed else "left out"
    steps = "; ".join(f"{_text(step.name, 40)} {step.log_odds:+.2f}" for step in pair.steps)
    total = f"Log-odds {sum(step.log_odds for step in pair.steps):+.2f}: {steps}."
    kind = "probability" if pair.calibrated else "model score"
    words = f"{where}, {kind} {pair.match_score:.3f}. {total}"
    return _pair(zip(pair.keys, pair.texts), LONGEST_DOUBTFUL, words)


def _people(facts: Facts) -> str:
    people = facts.people
    if people is None:
        return ""
    rows = [
        (who, *(f"{given[kind]:,}" for kind in ("match", "no_match", "unsure")))
        for who, given in people.answers.items()
    ]
    if (alpha := people.agreement) is not None:
        words = (
            f"On the {alpha.n:,} pairs that two or more decided, Krippendorff’s α is {alpha.value:.2f} "
            f"({alpha.low:.2f} to {alpha.high:.2f}): 1 is perfect agreement, 0 is chance."
        )
    else:
        words = "Agreement is not known: it needs pairs that two or more decided, and answers of both kinds."
    if people.disputed:
        words += f" {people.disputed:,} disagreements are not settled."
    table = _table(("Who", "Match", "No match", "Unsure"), rows)
    return f"<section><h2>Who answered</h2><p>{words}</p>{table}</section>"


def _origin(facts: Facts) -> str:
    origin = facts.origin
    commands = "\n".join(map(_text, origin.commands))
    settings = "".join(
        f"<tr{' class=chosen' if chosen else ''}><td><code>{_text(key)}</code></td>"
        f"<td>{_text(value) or '–'}</td><td>{_text(meaning)}</td></tr>"
        for key, value, meaning, chosen in origin.settings
    )
    prints = _table(("What", "Fingerprint (sha256)"), list(origin.fingerprints.items()), numbers=False)
    columns = ("Split", "Left texts", "Right texts", "Pairs", "Known matches", "Stated non-matches")
    counts = ("left", "right", "pairs", "positives", "stated_negatives")
    of_splits = origin.task["splits"].items()
    splits = _table(columns, [(name, *(f"{row[count]:,}" for count in counts)) for name, row in of_splits])
    provenance = _text(json.dumps(origin.task["provenance"], ensure_ascii=False, sort_keys=True), 2000)
    versions = ", ".join(f"{_text(name)} {_text(version)}" for name, version in origin.versions.items())
    not_read = "" if facts.split == TEST_SPLIT else " The test split was not looked at."
    return (
        f"<section><h2>Reproduce</h2><p>With the task folder of the fingerprint below:</p>"
        f"<pre>{commands}</pre>{prints}"
        f"<details open><summary>Settings (bold: not the default)</summary>"
        f'<div class="scroll"><table class="settings"><thead><tr><th scope="col">Key</th>'
        f'<th scope="col">Value</th><th scope="col">Meaning</th></tr></thead>'
        f"<tbody>{settings}</tbody></table></div></details>"
        f"<details open><summary>Task: {_text(origin.task['name'])}, {_text(origin.task['relation'])}"
        f"</summary>{splits}"
        f'<p class="muted">Provenance: {provenance}</p></details></section>'
        f"<footer><p>{versions}.{not_read}</p></footer>"
    )


# ── words and tables ────────────────────────────────────────────────────────────────────────────────


def _text(words: str, most: int | None = None) -> str:
    """Words as HTML shows them: escaped, and control characters made visible."""
    return escape(visible(str(words), most))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """A table with escaped cells; with `numbers`, all columns but the first stand to the right."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    kind = ' class="numbers"' if numbers else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _share(count: int, whole: int) -> str:
    return f"{100 * count / whole:.1f}\u00a0% of the labels" if whole else "no label yet"


def _interval(held: Estimate | Limits | None, shown: Callable[[float], str] = digits) -> str:
    if held is None:
        return "not known"
    limits = f"{shown(held.low)} to {shown(held.high)}"
    return f"{shown(held.value)} ({limits})" if isinstance(held, Estimate) else limits
