"""The performance page: docs/performance.md from the stored results of the benches.

    python -m experiments.bench.performance            # the page from experiments/bench/results/*.json
    python -m experiments.bench.performance --run      # first run the benches of a machine without a GPU
    python -m experiments.bench.performance --run startup sklearn_ap

A result is a list of claims as `claims.py` writes them, in one file for each bench; `growth.json` holds the
costs by size. No number on the page comes from anywhere else.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from pairsieve.files import write_text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS, PAGE = HERE / "results", ROOT / "docs" / "performance.md"
GROWTH = "growth"
BENCHES = (
    "startup",
    "embedding_cpu",
    "precision",
    "short_campaigns",
    "first_pair",
    "projection_round",
    "sklearn_ap",
    "paraphrase_mining",
    "trainer_peer",
    "dedupe_peer",
    "memory",
    "growth",
    "exact_cpu",
    "neighbours_cpu",
)
KEYS = ("claim", "ours", "ours_s", "peer", "peer_s", "ratio", "asked", "peak_gib", "size")
ELSEWHERE = "a machine that its bench did not describe"

HEAD = """# How fast, and with how much memory

Written by `python -m experiments.bench.performance` from `experiments/bench/results`; no figure on this page
is typed by hand. `python -m experiments.bench.NAME` runs the bench of that name. Every line is a bench that
measured ours and the peer (or the ceiling) in the same run. The ratio is the peer's seconds over ours: above
1 we are faster. A row is the vector of one text. Peak memory is that of our process, interpreter, libraries
and data included. Where others were using the machine, the notes give the load, and the processor seconds of
ours and the peer, which others' work hardly moves. A heading names the version of pairsieve that was
measured; those of 0.1.0 have not been measured again since.
"""

GPUS = """## Several GPUs

`--distributed gpus` spreads an exact pass over all GPUs of a machine: the
space is cut into blocks of two bands of rows, and each GPU takes the next block when it has finished one.
Embedding and training use one GPU. The cut, the queue of devices and the merging are tested with faked
devices (`tests/integration/test_cluster.py`). On a machine with several GPUs it **was not run**: no line
above says what it gains. With `--distributed` and the address of a Ray cluster the cut is the same,
a GPU to a block.
"""

BACKENDS = """## Embedding without a GPU

A batch holds about a thousand tokens and belongs to one core from end to end; a collection is tokenised once.
BERT, RoBERTa and MPNet networks take the back-end `packed`: texts without padding, products by oneDNN.
Others are left to plain PyTorch, the reference, or with `pip install 'pairsieve[onnx]'` to ONNX Runtime
wherever a collection has tokens enough to pay for converting the network. Rows are compared with those of
PyTorch first, and no cosine may be off by more than 1e-5, so all share one cache. The environment variable
`PAIRSIEVE_CPU_BACKEND` (`packed`, `torch` or `onnx`) settles the choice. OpenVINO was tried and left out: on
one core as fast as ONNX Runtime, but with two at work on texts of many lengths its process crashed
(2026.4.1).

A new campaign takes bfloat16 (`--precision auto`, the default) from 20,000 texts on, where the processor
multiplies it by itself and no cosine of a sample of the texts is off by more than 0.01; not where the encoder
is trained as a whole. No clock decides. Its embeddings are others, with their own place in the cache: cosines
differ by about 0.001. `--precision float32` has the network's own. What was taken stands in
`campaign.toml` and is not decided again ([decision 16](decisions/0016-precision.md)).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--run", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; all without names"
    )
    asked = parser.parse_args()
    if asked.run is not None:
        run(asked.run or list(BENCHES))
    page = written(read(RESULTS))
    write_text(PAGE, page)
    print(f"{PAGE.relative_to(ROOT)}: {page.count(chr(10))} lines")


def run(names: list[str]) -> None:
    """The benches one after the other; one that fails is named and leaves its old result."""
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        if name not in BENCHES:
            raise SystemExit(f"No bench {name!r}; there are {', '.join(BENCHES)}.")
        print(f"── {name}", flush=True)
        command = [sys.executable, "-m", f"experiments.bench.{name}", "--json", str(RESULTS / f"{name}.json")]
        done = subprocess.run(command, cwd=ROOT)
        if done.returncode:
            print(f"{name} failed with {done.returncode}; its old result stays.", file=sys.stderr)


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every result by its bench's name; a file of another shape is refused by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        lines = json.loads(path.read_text(encoding="utf-8"))
        wanted = ("what", "texts", "seconds", "measured") if path.stem == GROWTH else KEYS
        if not isinstance(lines, list) or any(key not in line for line in lines for key in wanted):
            raise SystemExit(f"{path}: not a list of claims with {', '.join(wanted)}.")
        found[path.stem] = lines
    return found


def written(results: dict[str, list[dict[str, Any]]]) -> str:
    """The page."""
    by_machine: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for bench, lines in results.items():
        if bench != GROWTH:
            for line in lines:
                by_machine[line.get("machine") or ELSEWHERE].append((bench, line))
    parts = [HEAD]
    for where, found in sorted(by_machine.items(), key=lambda item: -len(item[1])):
        parts.append(f"## On {where}\n")
        parts.append(claims_table([line for line in found if line[1]["peer_s"] is not None]))
        memory = [line for line in found if line[1]["peer_s"] is None]
        if memory:
            parts.append("Memory of the commands, each a process of its own:\n")
            parts.append(memory_table(memory))
        notes = [(line["claim"], noted(line)) for _, line in found if line["peer_s"] is not None]
        if any(words for _, words in notes):
            parts.append("Notes:\n")
            parts.append("".join(f"- {claim}: {words}.\n" for claim, words in notes if words))
    if GROWTH in results:
        parts.append(growth_section(results[GROWTH]))
    parts += [GPUS, BACKENDS]
    return "\n".join(parts)


def noted(line: dict[str, Any]) -> str:
    """A claim's note, and whatever else its bench measured."""
    more = [
        f"{key.replace('_', ' ')} {line[key]:.2g}" for key in line if key not in (*KEYS, "note", "machine")
    ]
    return "; ".join([words for words in (line.get("note"),) if words] + more)


def claims_table(lines: list[tuple[str, dict[str, Any]]]) -> str:
    rows = [
        "| what | size | ours | beside it | ratio | asked | peak memory | bench |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | --- |",
    ]
    for bench, line in lines:
        cells = [
            line["claim"],
            line["size"],
            f"{seconds(line['ours_s'])}, {line['ours']}",
            f"{seconds(line['peer_s'])}, {line['peer']}",
            f"{line['peer_s'] / line['ours_s']:.2f}",
            line["asked"],
            gib(line["peak_gib"]),
            f"`{bench}`",
        ]
        rows.append("| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def memory_table(lines: list[tuple[str, dict[str, Any]]]) -> str:
    rows = ["| command | size | seconds | peak memory | bound |", "| --- | --- | ---: | ---: | --- |"]
    for _, line in lines:
        name = str(line["claim"]).removeprefix("Memory: ")
        cells = (f"`{name}`", line["size"], seconds(line["ours_s"]), gib(line["peak_gib"]), line["asked"])
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def growth_section(costs: list[dict[str, Any]]) -> str:
    """Sizes down, kinds of work across; what was not measured is marked."""
    kinds = list(dict.fromkeys(cost["what"] for cost in costs))
    at = {(cost["what"], cost["texts"]): cost for cost in costs}
    rows = [
        f"## From {min(cost['texts'] for cost in costs):,} texts to a million\n",
        f"By `growth` on {costs[0]['machine']}. Plain: measured, with its peak memory. *Slanted*:",
        "by arithmetic from a measured time, as the notes say. `million` runs a million in full.\n",
        "| texts | pairs | " + " | ".join(kinds) + " |",
        "| ---: | ---: |" + " ---: |" * len(kinds),
    ]
    for texts in sorted({cost["texts"] for cost in costs}):
        cells = [growth_cell(at.get((kind, texts))) for kind in kinds]
        rows.append(f"| {texts:,} | {texts * (texts - 1) // 2:,} | " + " | ".join(cells) + " |")
    notes = [f"- {c['what']}, {c['texts']:,}: {c['note']}." for c in costs]
    exponents = [words for kind in kinds if (words := exponent(kind, costs))]
    return "\n".join([*rows, "", *exponents, *notes]) + "\n"


def growth_cell(cost: dict[str, Any] | None) -> str:
    if cost is None:
        return ""
    words = seconds(cost["seconds"])
    return f"{words}, {gib(cost['peak_gib'])}" if cost["measured"] else f"*{words}*"


def exponent(kind: str, costs: list[dict[str, Any]]) -> str:
    """By which power of the texts a kind of work grew from each measured size to the next."""
    known = sorted(
        (cost["texts"], cost["seconds"]) for cost in costs if cost["what"] == kind and cost["measured"]
    )
    steps = [
        f"{math.log(slower / quicker) / math.log(more / less):.2f} to {more:,}"
        for (less, quicker), (more, slower) in pairwise(known)
    ]
    return f"- {kind}: texts to the power, from {known[0][0]:,} texts: {', '.join(steps)}." if steps else ""


def seconds(value: float) -> str:
    if value >= 7200:
        return f"{value / 3600:,.1f} h"
    if value >= 100:
        return f"{value:,.0f} s"
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s" if value >= 0.1 else f"{value * 1000:.1f} ms"


def gib(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} GiB"


if __name__ == "__main__":
    main()
