"""The settings of a campaign: the file `campaign.toml` <-> frozen, validated dataclasses.

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from pairsieve.errors import SettingsError, nearest
from pairsieve.files import read_limited, write_text

FORMAT = 2  # of campaign folders: one scorer, in the field's words
CAMPAIGN_FILE = "campaign.toml"
TEST_SPLIT = "test"  # the split nobody looks at unless asked, and whose truth decides nothing
MOST_BYTES = 1 << 20  # of a campaign file
ACCEPTING = "# What is edited after the first run is taken up by: pairsieve run DIR --accept-settings"
MEASURED = ("best", "exact", "uncertainty")  # recipe, search, strategy with which a campaign measures itself
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


def _is_text(value: Any, empty: bool = False) -> bool:
    if not isinstance(value, str) or not (empty or value.strip()):
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in value)  # half a character: not UTF-8


def _one_of(*names: str) -> Rule:
    return Rule("one of " + ", ".join(map(repr, names)), lambda v: isinstance(v, str) and v in names)


_TEXT = Rule("a text that is not empty", _is_text)
_ANY_TEXT = Rule("a text, which may be empty", lambda v: _is_text(v, empty=True))
_FLAG = Rule("true or false", lambda v: isinstance(v, bool))
_NAMES = Rule(
    "a list of different texts, none empty",
    lambda v: isinstance(v, tuple) and all(map(_is_text, v)) and len({*v}) == len(v),
)
_DEVICE = Rule(
    "'auto', 'cpu', 'cuda' or 'cuda:N'",
    lambda v: isinstance(v, str) and re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", v) is not None,
)


def _setting(default: Any, meaning: str, rule: Rule, argument: Rule | None = None) -> Any:
    """argument: what may be asked for at creation, where that is more than a campaign's file may hold."""
    return field(default=default, metadata={"meaning": meaning, "rule": rule, "argument": argument or rule})


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How many labels each round asks for: nᵢ = first_batch · growthⁱ⁻¹ (the paper: 2048 and 3/2)."""

    first_batch: int = _setting(40, "labels asked for in round 1", _whole(1, 10**9))
    growth: float = _setting(1.0, "each round asks for this many times the last", _number(1, 100))
    rounds: int = _setting(10, "rounds in all; the paper: 4 on WikiQA, 10 on QQP", _whole(1, 1000))

    def __post_init__(self) -> None:
        _check(self, table="schedule.")
        last = math.log(self.first_batch) + (self.rounds - 1) * math.log(self.growth)
        if last > math.log(MOST_LABELS):  # in logarithms, so that no power overflows
            raise SettingsError(
                f"schedule: round {self.rounds} would ask for {self.first_batch} · {self.growth:g}^"
                f"{self.rounds - 1} labels, more than {MOST_LABELS:,}. "
                "Lower `rounds`, `growth` or `first_batch`."
            )

    def batches(self) -> tuple[int, ...]:
        """Labels of each round: nᵢ to the nearest whole number, halves upward.

        From 2048 with 3/2, ten rounds are whole as they stand (2048 = 2¹¹): 232,100 in all.
        """
        return tuple(math.floor(self.first_batch * self.growth**i + 0.5) for i in range(self.rounds))

    def budget(self) -> int:
        """Labels of all rounds together."""
        return sum(self.batches())


@dataclass(frozen=True, kw_only=True)
class CampaignSettings:
    """All settings of a campaign. Names of plug-ins are looked up where the plug-ins live."""

    task: str = _setting(MISSING, "folder of the task, seen from the campaign's own folder", _TEXT)
    task_fingerprint: str = _setting(
        "", "the task's contents when the campaign began; another task is refused", _ANY_TEXT
    )
    campaign_id: str = _setting("", "names this campaign; its ledger is refused to any other", _ANY_TEXT)
    split: str = _setting("train", "the split whose pairs are asked about", _TEXT)
    measure_splits: tuple[str, ...] = _setting(
        ("dev",), "splits measured after each round; needs their truth", _NAMES
    )
    strategy: str = _setting("uncertainty", "what picks the pairs from round 2 on", _TEXT)
    seed_set: str = _setting(
        "auto",
        "what picks the pairs of round 1: spread over ranks, nearest by the untrained encoder (static), "
        "stated pairs, or at random; auto: spread, under the paper's recipe static",
        _one_of("auto", "spread", "static", "stated", "random"),
    )
    encoder: str = _setting("all-MiniLM-L6-v2", "text encoder: a name or a folder", _TEXT)
    left_prefix: str = _setting("", "put before each left text, as some encoders need it", _ANY_TEXT)
    right_prefix: str = _setting("", "put before each right text", _ANY_TEXT)
    max_length: int = _setting(128, "tokens of a text that are read", _whole(2, 100_000))
    separate_encoders: bool = _setting(
        False, "train one encoder per side; for directed relations inside one collection", _FLAG
    )
    learner: str = _setting("auto", "how the matcher is trained; auto: what the device allows", _TEXT)
    recipe: str = _setting(
        "best",
        "how the full learner trains, where it asks, and how pairs are scored: our best, or the paper's own",
        _one_of("best", "paper"),
    )
    hubness_correction: float | None = _setting(
        None,
        "how much a pair counts less where its texts have near neighbours; left out: 0.25, paper's recipe 0",
        _number(0, 0.5, optional=True),
    )
    neighbour_smoothing: float | None = _setting(
        None,
        "how much a text's row is averaged with its nearest neighbour's; left out: 1, paper's recipe 0",
        _number(0, 2, optional=True),
    )
    reranker: str = _setting(
        "auto",
        "second model over candidate pairs; auto: where out-of-fold labels rank better with it, "
        "never under the paper's recipe",
        _one_of("auto", "off", "on", "cross-encoder"),
    )
    learning_rate: float | None = _setting(
        None, "step size of training; left out: the encoder's own", _number(1e-9, 10, optional=True)
    )
    search: str = _setting(
        "exact",
        "over all pairs, or over the nearest neighbours of each text: exactly or by an index",
        _one_of("exact", "neighbours", "ivf", "faiss-ivf", "faiss-hnsw"),
    )
    neighbours: int = _setting(
        100, "neighbours per text, unless search is exact; the paper: 100 WikiQA, 1000 QQP", _whole(1, 10**6)
    )
    recall_rows: int = _setting(256, "texts on which an index's recall is measured", _whole(1, 10**6))
    seed: int = _setting(0, "seed of all random numbers", _whole(0, 2**63 - 1))
    device: str = _setting("auto", "where the encoder runs", _DEVICE)
    precision: str = _setting(
        "float32",
        "of the encoder's products; bfloat16: on the CPU, faster where the processor has it, cosines differ "
        "by about 0.001; by default (`auto`) what pays is taken at creation, and written here",
        _one_of("float32", "bfloat16"),
        argument=_one_of("auto", "float32", "bfloat16"),
    )
    transitivity: bool = _setting(
        False, "infer labels that follow from others instead of asking; one collection only", _FLAG
    )
    measuring_share: float | None = _setting(
        None,
        "share of each batch from round 2 on that is drawn from all pairs with known chances, to measure and "
        "not to train; left out: 0.1 with the best recipe, uncertainty and exact search, else 0",
        _number(0, 0.9, optional=True),
    )
    stop_when: str = _setting(
        "", 'stop early by a rule such as "positives < 5% and labels >= 5000"', _ANY_TEXT
    )
    ledger: str = _setting(
        "ledger.sqlite", "questions and answers: a file in this folder, or a database's URL", _TEXT
    )
    schedule: Schedule = field(
        default_factory=Schedule, metadata={"meaning": "how many labels are asked for, when"}
    )

    def __post_init__(self) -> None:
        _check(self)
        if not isinstance(self.schedule, Schedule):
            raise _no_schedule(self.schedule)

    @property
    def first_strategy(self) -> str:
        """The strategy of round 1, where the later one needs a model."""
        usual = "static" if self.recipe == "paper" else "spread"
        return usual if self.seed_set == "auto" else self.seed_set

    def measuring_labels(self, round: int) -> int:
        """How many labels of a round are drawn to measure by."""
        share = self.measuring_share
        if share is None:
            share = 0.1 if (self.recipe, self.search, self.strategy) == MEASURED else 0.0
        return 0 if round == 1 else math.floor(share * self.schedule.batches()[round - 1] + 0.5)

    def task_folder(self, campaign_folder: Path) -> Path:
        """The task's folder, found from the campaign's."""
        return (campaign_folder / self.task).resolve()

    @property
    def holds_password(self) -> bool:
        """Whether the ledger's URL may hold a password; better kept in ~/.pgpass."""
        return "://" in self.ledger and bool(re.search(r"//[^/@]*:.*@|password", self.ledger))

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


def without_password(words: str) -> str:
    """A database's URL as it may be shown to others: `scheme://user:***@host`.

    A password may hold any character, also "/" and "@": it ends at the last "@".
    """
    return re.sub(r"(://[^/@\s:]*:)\S*(?=@)|(password=)[^&\s]*", r"\1\2***", words)


def load_settings(path: Path) -> CampaignSettings:
    """The settings in a campaign file, checked; every complaint names the file and the key."""
    try:
        given = tomllib.loads(read_limited(path, MOST_BYTES).decode())
    except FileNotFoundError:
        remedy = f"Create a campaign with: pairsieve init {path.parent} --task TASK"
        if (path.parent / "task.json").is_file():
            remedy = "This is a task folder. Create a campaign of it with: "
            remedy += f"pairsieve init CAMPAIGN --task {path.parent}"
        raise SettingsError(f"{path}: there is no campaign file. {remedy}") from None
    except (OSError, ValueError, RecursionError) as error:  # TOML's and Unicode's errors are ValueErrors
        what = f"{path}: cannot be read as TOML: {error}"
        raise SettingsError(f"{what}. Correct the file and run again.") from None
    if given.pop("format", None) != FORMAT:
        raise SettingsError(
            f"{path}: this campaign was begun by another version of pairsieve, whose scores mean something "
            f"else (this one reads format = {FORMAT}). Its answers are safe in its ledger: "
            f"take them out with the pairsieve that wrote them (pairsieve ledger export {path.parent}), and "
            "begin a new campaign with pairsieve init."
        )
    try:
        return settings_from(given)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error} Correct the file and run again.") from None


def settings_from(given: Mapping[str, Any]) -> CampaignSettings:
    """Settings from nested plain values, as TOML has them; what is left out has its default."""
    schedule = given.get("schedule", {})
    if not isinstance(schedule, Mapping):
        raise _no_schedule(schedule)
    top = {key: value for key, value in given.items() if key != "schedule"}
    _refuse_unknown(top, CampaignSettings, "")
    _refuse_unknown(schedule, Schedule, "schedule.")
    if "task" not in top:
        raise SettingsError("task is missing: the folder of the task the campaign is about.")
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in top.items()}
    return CampaignSettings(**values, schedule=Schedule(**schedule))


def save_settings(path: Path, settings: CampaignSettings) -> None:
    """Write the campaign file, whole or not at all, with the meaning of each key beside it."""
    try:
        write_text(path, settings_text(settings), private=settings.holds_password)
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be written ({error.strerror}); the file is as it was. "
            "Make room or allow writing there, and run again."
        ) from None


def settings_text(settings: CampaignSettings) -> str:
    """The campaign file as text: `# meaning`, then `key = value`; a key left out is written as a comment."""
    lines = ["# Settings of a pairsieve campaign. Delete a line to have its default back.", ACCEPTING, ""]
    lines += ["# how this file is written; leave it", f"format = {FORMAT}", ""]
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


def _own_fields(part: Any) -> Iterator[Field[Any]]:
    return (each for each in fields(part) if "rule" in each.metadata)


def _check(part: Any, table: str = "") -> None:
    for each in _own_fields(part):
        value, rule = getattr(part, each.name), each.metadata["rule"]
        if not rule.holds(value):
            raise SettingsError(f"{table}{each.name} is {value!r}. {_allowed(value, rule)}")


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuse a value that no setting of that name, or of the schedule, may have; named as an argument."""
    every = (*_own_fields(CampaignSettings), *_own_fields(Schedule))
    rules = {each.name: each.metadata["argument"] for each in every}
    for name, value in given.items():
        if name in rules and not rules[name].holds(value):
            raise SettingsError(f"`{name}={value!r}`. {_allowed(value, rules[name])}")


def _allowed(value: object, rule: Rule) -> str:
    close = difflib.get_close_matches(str(value), re.findall(r"'([^']+)'", rule.allowed), n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    return f"Allowed: {rule.allowed}.{guess}"


def _no_schedule(given: object) -> SettingsError:
    known = ", ".join(each.name for each in fields(Schedule))
    return SettingsError(f"schedule is {given!r}. Allowed: a table with {known}.")


def _refuse_unknown(given: Mapping[str, Any], kind: type[Any], table: str) -> None:
    known = {each.name for each in fields(kind)}
    moved = {each.name for each in fields(Schedule)} if not table else set()
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


PAPER_SCHEDULE = Schedule(first_batch=2048, growth=1.5, rounds=4)  # 16,640 labels
