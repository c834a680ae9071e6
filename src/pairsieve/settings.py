"""What was this campaign told to do? The campaign file `campaign.toml` <-> frozen, validated settings.

Every setting is declared once, with its default, its meaning and what is allowed; the file's comments,
the checks and the error messages are made from that. A key that nobody knows is an error that names
the nearest known one, never a setting silently ignored.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from pairsieve.errors import SettingsError, nearest

CAMPAIGN_FILE = "campaign.toml"
MOST_LABELS = 10**12  # a schedule beyond this is a slip of the pen, not a budget


@dataclass(frozen=True)
class Rule:
    """What a setting may be: in words, and as a test."""

    allowed: str
    holds: Callable[[Any], bool]


def _whole(low: int, high: int) -> Rule:
    return Rule(f"a whole number from {low} to {high}", lambda v: type(v) is int and low <= v <= high)


def _number(low: float, high: float, optional: bool = False) -> Rule:
    def holds(value: Any) -> bool:
        if value is None:
            return optional
        return type(value) in (int, float) and math.isfinite(value) and low <= value <= high

    return Rule(f"a number from {low:g} to {high:g}" + (", or left out" if optional else ""), holds)


def _is_text(value: Any, empty: bool) -> bool:
    if not isinstance(value, str) or not (empty or value.strip()):
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in value)  # half a character: not UTF-8


def _text(empty: bool = False) -> Rule:
    words = "a text, which may be empty" if empty else "a text that is not empty"
    return Rule(words, lambda v: _is_text(v, empty))


def _one_of(*names: str) -> Rule:
    return Rule("one of " + ", ".join(map(repr, names)), lambda v: isinstance(v, str) and v in names)


def _device() -> Rule:
    return Rule(
        "'auto', 'cpu', 'cuda' or 'cuda:N'",
        lambda v: isinstance(v, str) and re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", v) is not None,
    )


def _flag() -> Rule:
    return Rule("true or false", lambda v: isinstance(v, bool))


def _names() -> Rule:
    return Rule(
        "a list of different texts, none empty",
        lambda v: isinstance(v, tuple) and all(_is_text(n, empty=False) for n in v) and len({*v}) == len(v),
    )


def _about(meaning: str, rule: Rule) -> dict[str, Any]:
    return {"meaning": meaning, "rule": rule}


def _setting(default: Any, meaning: str, rule: Rule) -> Any:
    return field(default=default, metadata=_about(meaning, rule))


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How many labels each round buys: nᵢ = first_batch · growthⁱ⁻¹ (the paper: 2048 and 3/2)."""

    first_batch: int = _setting(2048, "labels bought in round 1", _whole(1, 10**9))
    growth: float = _setting(1.5, "each round buys this many times the last", _number(1, 100))
    rounds: int = _setting(4, "rounds in all; the paper: 4 on WikiQA, 10 on QQP", _whole(1, 1000))

    def __post_init__(self) -> None:
        _check(self, table="schedule.")
        last = math.log(self.first_batch) + (self.rounds - 1) * math.log(self.growth)
        if last > math.log(MOST_LABELS):  # in logarithms, so that no power overflows
            raise SettingsError(
                f"schedule: round {self.rounds} would buy {self.first_batch} · {self.growth:g}^"
                f"{self.rounds - 1} labels, more than {MOST_LABELS:,}. "
                "Lower schedule.rounds, schedule.growth or schedule.first_batch."
            )

    def batches(self) -> tuple[int, ...]:
        """Labels bought in each round: nᵢ to the nearest whole number, halves upward.

        From 2048 with 3/2, ten rounds are whole as they stand (2048 = 2¹¹): 232,100 in all.
        """
        return tuple(math.floor(self.first_batch * self.growth**i + 0.5) for i in range(self.rounds))

    def budget(self) -> int:
        """Labels bought in all rounds together."""
        return sum(self.batches())


@dataclass(frozen=True, kw_only=True)
class CampaignSettings:
    """Everything a campaign was told. Names of plug-ins are looked up where the plug-ins live."""

    task: str = field(metadata=_about("folder of the task, seen from the campaign's own folder", _text()))
    task_fingerprint: str = _setting(
        "", "the task's contents when the campaign began; another task is refused", _text(empty=True)
    )
    split: str = _setting("train", "the split whose pairs are asked about", _text())
    measure_splits: tuple[str, ...] = _setting(
        ("dev",), "splits measured after each round; needs their truth", _names()
    )
    strategy: str = _setting("uncertainty", "what picks the pairs from round 2 on", _text())
    seed_set: str = _setting(
        "static",
        "what picks the pairs of round 1: nearest by the untrained encoder, stated pairs, or at random",
        _one_of("static", "stated", "random"),
    )
    encoder: str = _setting("all-MiniLM-L6-v2", "text encoder: a name or a folder", _text())
    left_prefix: str = _setting("", "put before each left text, as some encoders want it", _text(empty=True))
    right_prefix: str = _setting("", "put before each right text", _text(empty=True))
    max_length: int = _setting(128, "tokens of a text that are read", _whole(2, 100_000))
    separate_encoders: bool = _setting(
        False, "train one encoder per side; for directed relations inside one collection", _flag()
    )
    learner: str = _setting("auto", "how the matcher is trained; auto: what the device allows", _text())
    recipe: str = _setting(
        "best",
        "how the full learner trains, where it asks, and how pairs are scored: our best, or the paper's own",
        _one_of("best", "paper"),
    )
    crowding: float | None = _setting(
        None,
        "how much a pair counts less where its texts have near rivals; left out: 0.25, the paper's recipe 0",
        _number(0, 0.5, optional=True),
    )
    leaning: float | None = _setting(
        None,
        "how much a text leans on its nearest; left out: 1, the paper's recipe 0",
        _number(0, 2, optional=True),
    )
    learning_rate: float | None = _setting(
        None, "step size of training; left out: the encoder's own", _number(1e-9, 10, optional=True)
    )
    search: str = _setting(
        "exact",
        "over all pairs, or over the nearest neighbours of each text: exactly or by an index",
        _one_of("exact", "neighbours", "faiss-ivf", "faiss-hnsw"),
    )
    neighbours: int = _setting(
        100, "neighbours per text, unless search is exact; the paper: 100 WikiQA, 1000 QQP", _whole(1, 10**6)
    )
    recall_rows: int = _setting(256, "texts on which an index's recall is measured", _whole(1, 10**6))
    seed: int = _setting(0, "of all random numbers", _whole(0, 2**63 - 1))
    device: str = _setting("auto", "where the encoder runs", _device())
    transitivity: bool = _setting(
        False, "infer labels that follow from others instead of asking; one collection only", _flag()
    )
    stop_when: str = _setting(
        "", 'stop early by a rule such as "positives < 5% and labels >= 5000"', _text(empty=True)
    )
    ledger: str = _setting(
        "ledger.sqlite", "questions and answers: a file in this folder, or a database's URL", _text()
    )
    schedule: Schedule = field(
        default_factory=Schedule, metadata={"meaning": "how many labels are bought, when"}
    )

    def __post_init__(self) -> None:
        _check(self)
        if not isinstance(self.schedule, Schedule):
            raise SettingsError(f"schedule is {self.schedule!r}. Allowed: a table with {_known('schedule')}.")

    def task_folder(self, campaign_folder: Path) -> Path:
        """The task's folder, found from the campaign's."""
        return (campaign_folder / self.task).resolve()

    def ledger_place(self, campaign_folder: Path) -> str | Path:
        """What `open_ledger` is given: a URL as it stands, a file inside the campaign's folder."""
        return self.ledger if "://" in self.ledger else campaign_folder / self.ledger


def portable_task(task_folder: Path, campaign_folder: Path) -> str:
    """How the campaign file names the task: relative, so that both can move together, where possible."""
    target, start = task_folder.resolve(), campaign_folder.resolve()
    try:
        return Path(os.path.relpath(target, start)).as_posix()
    except ValueError:  # another drive on Windows
        return target.as_posix()


def load_settings(path: Path) -> CampaignSettings:
    """The settings in a campaign file, checked; every complaint names the file and the key."""
    try:
        with path.open("rb") as file:
            given = tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: there is no campaign file. Create a campaign with: "
            f"pairsieve init {path.parent} --task TASK"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"{path}: cannot be read as TOML: {error}. Correct the file and run again."
        ) from None
    try:
        return settings_from(given)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error} Correct the file and run again.") from None


def settings_from(given: Mapping[str, Any]) -> CampaignSettings:
    """Settings from nested plain values, as TOML has them; what is left out has its default."""
    schedule = given.get("schedule", {})
    if not isinstance(schedule, Mapping):
        raise SettingsError(f"schedule is {schedule!r}. Allowed: a table with {_known('schedule')}.")
    top = {key: value for key, value in given.items() if key != "schedule"}
    _refuse_unknown(top, CampaignSettings, "")
    _refuse_unknown(schedule, Schedule, "schedule.")
    if "task" not in top:
        raise SettingsError("task is missing: the folder of the task the campaign is about.")
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in top.items()
    }
    return CampaignSettings(**values, schedule=Schedule(**schedule))


def save_settings(path: Path, settings: CampaignSettings) -> None:
    """Write the campaign file, whole or not at all, with the meaning of each key beside it."""
    try:
        write_atomically(path, settings_text(settings))
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be written ({error.strerror}); the file is as it was. "
            "Make room or allow writing there, and run again."
        ) from None


def settings_text(settings: CampaignSettings) -> str:
    """The campaign file as text: `# meaning`, then `key = value`; a key left out is written as a comment."""
    lines = ["# Settings of a pairsieve campaign. Delete a line to have its default back.", ""]
    for part, table in ((settings, ""), (settings.schedule, "schedule")):
        if table:
            lines += [f"[{table}]"]
        for each in _own_fields(part):
            value = getattr(part, each.name)
            lines += [f"# {each.metadata['meaning']}; {each.metadata['rule'].allowed}"]
            lines += [f"# {each.name} =" if value is None else f"{each.name} = {_toml(value)}", ""]
    return "\n".join(lines)


def settings_table() -> list[tuple[str, str, str, str]]:
    """(key, default, allowed, meaning) of every setting, for help and documentation."""
    rows = []
    for kind, table in ((CampaignSettings, ""), (Schedule, "schedule.")):
        for each in _own_fields(kind):
            absent = each.default is MISSING or each.default is None
            default = "" if absent else _toml(each.default)
            rows.append((table + each.name, default, each.metadata["rule"].allowed, each.metadata["meaning"]))
    return rows


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file whole: written beside it, forced to disk, renamed; a crash leaves old or new."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        if os.name != "nt":  # the new name itself is on disk only when the folder is
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
    finally:
        beside.unlink(missing_ok=True)


def _own_fields(part: Any) -> Iterator[Field[Any]]:
    return (each for each in fields(part) if "rule" in each.metadata)


def _check(part: Any, table: str = "") -> None:
    for each in _own_fields(part):
        value, rule = getattr(part, each.name), each.metadata["rule"]
        if not rule.holds(value):
            close = difflib.get_close_matches(str(value), re.findall(r"'([^']+)'", rule.allowed), n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise SettingsError(f"{table}{each.name} is {value!r}. Allowed: {rule.allowed}.{guess}")


def _known(table: str) -> str:
    kind = Schedule if table == "schedule" else CampaignSettings
    return ", ".join(each.name for each in fields(kind))


def _refuse_unknown(given: Mapping[str, Any], kind: type[Any], table: str) -> None:
    known = {each.name for each in fields(kind)}
    moved = {each.name: "schedule." + each.name for each in fields(Schedule)} if not table else {}
    for key in given:
        if key in moved:
            raise SettingsError(f"{key} stands outside its table. Write it below [schedule].")
        if key not in known:
            raise SettingsError(f"unknown key {table + key!r}. {nearest(key, known)}.")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's; only DEL must be escaped in TOML and is not in JSON.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
