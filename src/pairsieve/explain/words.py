"""An explanation as lines of text for a person; on a terminal, in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pairsieve.visible import visible

if TYPE_CHECKING:
    from pairsieve.explain import Asked, AtScore, Explanation, Standing, Word
    from pairsieve.explain.fields import ComparedField

BOLD, DIM, GREEN, RED, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"
BAR = 20  # letters of the longest bar
SHOWN = 400  # letters of a text
WIDEST = 32  # letters of a field's value


def words_of(found: Explanation, colour: bool = False) -> str:
    """The explanation for a person; with `colour`, for a terminal."""

    def ink(words: str, *codes: str) -> str:
        return f"{''.join(codes)}{words}{PLAIN}" if colour else words

    says = f"score {found.score:.4f}, log-odds {found.log_odds:+.2f}"
    chance = f"probability {found.probability:.3f}" if found.probability is not None else ""
    why = (
        "too little is known of such scores to state a probability"
        if found.calibrated
        else "nothing calibrates it"
    )
    first = f"{ink(chance, BOLD)} ({says})" if chance else f"{ink(says, BOLD)}; {why}"
    lines = [
        f"{ink(visible(found.left_key), BOLD)}  {_marked(found.left_text, found.left_words, colour)}",
        f"{ink(visible(found.right_key), BOLD)}  {_marked(found.right_text, found.right_words, colour)}",
        "",
        f"The model of round {found.round}: {first}.",
    ]
    if found.density is not None:
        one, other = found.density
        smooth = found.smoothed_cosine
        after = "" if smooth is None else f", {smooth:.4f} after neighbour smoothing"
        lines.append(
            f"Their cosine is {found.cosine:.4f}{after}. Neighbour density around text 1 is {one:.4f}, "
            f"around text 2 {other:.4f}: the smaller, the more a cosine counts (hubness correction)."
        )
    if found.reranked:
        lines.append("The pair is a candidate: its score is the re-ranker's.")
    if found.standing is not None:
        lines.append(_standing_words(found.standing))
    if found.at_score is not None:
        lines.append(_at_score_words(found.at_score, trained_on=found.asked_split))
    if found.truth is not None:
        lines.append(f"Truth: {'match' if found.truth else 'no match'}.")
    if found.asked is not None:
        lines.append(_asked_words(found.asked))
    elif found.truth is None:
        lines.append("Nobody was asked about it.")
    if found.fields:
        lines += ["", "Field by field:", *_field_table(found.fields)]
    lines += ["", "What made the log-odds:", *_waterfall(found, ink)]
    lines += ["", "What the cosine loses without a word of text 1 or 2 (minus: what it gains):"]
    lines += _bars(found, ink)
    if found.near:
        lines += ["", "Nearest labelled pairs:"]
    for near in found.near:
        label = ink("match   ", GREEN) if near.match else ink("no match", RED)
        keys = f"{visible(near.left_key)}, {visible(near.right_key)}"
        lines.append(f"  {near.similarity:.3f}  {label}  {ink(keys, DIM)}")
        lines += [f"         {visible(near.left_text, 160)}", f"         {visible(near.right_text, 160)}"]
    return "\n".join(lines)


def _waterfall(found: Explanation, ink: Any) -> list[str]:
    """Every part with its bar, from the start to the sum."""
    width = max(len(visible(step.name, WIDEST)) for step in found.waterfall)
    longest = max(abs(step.log_odds) for step in found.waterfall) or 1.0
    lines = []
    for step in found.waterfall:
        bar = "█" * round(BAR * abs(step.log_odds) / longest) or "▏"
        code = GREEN if step.log_odds >= 0 else RED
        lines.append(f"  {visible(step.name, WIDEST):<{width}}  {step.log_odds:+6.2f}  {ink(bar, code)}")
    return [*lines, f"  {'together':<{width}}  {found.log_odds:+6.2f}"]


def _standing_words(held: Standing) -> str:
    words = f"{held.higher:,} of {held.pairs:,} pairs of {held.split} score higher"
    if held.tied > 1:
        words += f", {held.tied - 1:,} {'others score' if held.tied > 2 else 'other scores'} the same"
    return f"{words} (top {_share(held.higher + 1, held.pairs)})."


def _at_score_words(held: AtScore, trained_on: str) -> str:
    if held.precision is None:
        return f"No pair of {held.split} scores as high."
    return (
        f"On {held.split}, {held.reaching:,} pairs score as high: {100 * held.precision:.1f} % of them are "
        f"matches, and they hold {100 * held.recall:.1f} % of all matches"
        + (" (the model learned from some of them)." if held.split == trained_on else ".")
    )


def _asked_words(asked: Asked) -> str:
    answer = {1: "match", 0: "no match", None: asked.state}[asked.label]
    use = "to learn from" if asked.purpose == "train" else "for an audit"
    if asked.why == "review":
        return f"Reviewed after round {asked.round}: {answer}."
    return f"Asked {use} in round {asked.round} ({asked.why}): {answer}."


def _bars(found: Explanation, ink: Any) -> list[str]:
    """The words that matter most, of both texts beside each other in one list; heaviest first."""
    words = [("1", word) for word in found.left_words] + [("2", word) for word in found.right_words]
    words.sort(key=lambda each: (-abs(each[1].loss), each[0], each[1].start))
    shown = words[:12]
    if not shown:
        return ["  (neither text has a word)"]
    width = max(len(visible(word.text, 32)) for _, word in shown)
    longest = max(abs(word.loss) for _, word in shown) or 1.0
    lines = []
    for side, word in shown:
        bar = ("█" * round(BAR * abs(word.loss) / longest)) or "▏"
        code = GREEN if word.loss >= 0 else RED
        lines.append(f"  {side}  {visible(word.text, 32):<{width}}  {word.loss:+.3f}  {ink(bar, code)}")
    return lines


def _field_table(fields: Sequence[ComparedField]) -> list[str]:
    """Name, both values and how alike these are, one field a line."""

    def cell(words: str) -> str:
        words = visible(words) or "–"
        return words if len(words) <= WIDEST else f"{words[: WIDEST - 1]}…"

    rows = [("field", "text 1", "text 2", "alike")]
    for each in fields:
        figure = "" if each.alike is None or each.alike == 1 else f"{each.alike:.2f}  "
        rows.append((cell(each.name), cell(each.left), cell(each.right), f"{figure}{each.words}"))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  " + "  ".join(f"{words:<{width}}" for words, width in zip(row, widths)).rstrip() for row in rows
    ]


def _marked(text: str, words: Sequence[Word], colour: bool) -> str:
    """The text; in colour, the words that carry half of the greatest loss or more stand out."""
    if not colour or not words:
        return visible(text, SHOWN)
    most = max(abs(word.loss) for word in words)
    parts, at = [], 0
    for word in words:
        if most > 0 and abs(word.loss) >= most / 2 and word.end <= SHOWN:
            code = GREEN if word.loss > 0 else RED
            parts += [visible(text[at : word.start]), f"{BOLD}{code}{visible(word.text)}{PLAIN}"]
            at = word.end
    rest = text[at:] if len(text) <= SHOWN else f"{text[at:SHOWN]}… ({len(text):,} characters)"
    return "".join(parts) + visible(rest)


def _share(part: int, whole: int) -> str:
    """A percentage with two digits that count."""
    return f"{100 * part / whole:.2g} %"
