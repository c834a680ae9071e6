"""The pages themselves: nothing from elsewhere, nothing inline, and colours that people can read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pairsieve.web

ASSETS = Path(pairsieve.web.__file__).parent / "assets"


def test_the_pages_hold_no_inline_script_style_or_foreign_address() -> None:
    for file in ASSETS.iterdir():
        text = file.read_text(encoding="utf-8")
        assert "https://" not in text, file.name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), file.name
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "eval(" not in text, file.name
        if file.suffix == ".html":
            assert "<style" not in text and " style=" not in text and " onclick" not in text, file.name
            assert all("src=" in line for line in text.splitlines() if "<script" in line), file.name


def colours(dark: bool) -> dict[str, str]:
    """The variables of the light or the dark palette; dark ones replace light ones."""
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    text = blocks[0] + (blocks[1] if dark else "")
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", text))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("dark", [False, True])
def test_words_reach_4_5_and_borders_and_lines_3_as_wcag_aa_asks(dark: bool) -> None:
    use = colours(dark)
    words = [(front, back) for front in ("ink", "muted", "accent") for back in ("ground", "card")]
    words += [("ink", "mark"), ("on-accent", "accent")]
    words += [("on-answer", answer) for answer in ("match", "no-match", "unsure")]
    for front, back in words:
        assert contrast(use[front], use[back]) >= 4.5, (front, back)
    for front in ("edge", "series-0", "series-1", "series-2", "series-3", "accent"):
        assert contrast(use[front], use["card"]) >= 3, front
