"""Export of a trained encoder as a folder that sentence-transformers loads with one line.

The folder holds the transformer (safetensors, float32), mean pooling, a Dense layer without bias where the
matcher has a linear map, and normalisation; `head.json` beside them says how a cosine becomes log-odds.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.models.encoder import TOKENISER_FILES, Encoder, quietly
from pairsieve.models.folders import read_json, transformer_folder

HEAD_FILE = "head.json"
_DENSE = "2_Dense"


def write_encoder(folder: Path, encoder: Encoder, dense: NDArray[np.float32] | None = None) -> None:
    """Write a sentence-transformers folder: the encoder, then the linear map `dense` (out, in) if any."""
    write_transformer(folder, encoder.network, encoder)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    kinds += [(_DENSE, "Dense")] if dense is not None else []
    kinds += [(f"{len(kinds)}_Normalize", "Normalize")]
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds)
    ]
    for path, _ in kinds[1:]:
        (folder / path).mkdir(exist_ok=True)
    write_json(folder / "modules.json", modules)
    lengths = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", lengths)
    same = encoder.left_prefix == encoder.right_prefix
    prompts = {"left": encoder.left_prefix, "right": encoder.right_prefix}
    usage = {
        "prompts": prompts if any(prompts.values()) else {},
        "default_prompt_name": "left" if same and encoder.left_prefix else None,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "config_sentence_transformers.json", usage)
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    pooling = {f"pooling_mode_{mode}": mode == "mean_tokens" for mode in modes}
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": encoder.dimension, **pooling})
    if dense is not None:
        rows, columns = dense.shape
        layer = {"in_features": int(columns), "out_features": int(rows), "bias": False}
        identity = "torch.nn.modules.linear.Identity"
        write_json(folder / _DENSE / "config.json", {**layer, "activation_function": identity})
        write_matrix(folder / _DENSE / "model.safetensors", dense, "linear.weight")


def write_transformer(folder: Path, network: Any, encoder: Encoder) -> None:
    """Write a transformers folder: a network in safetensors, with the tokeniser of `encoder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with quietly():
        network.save_pretrained(str(folder), max_shard_size="100GB")
    # Copied as they are: a tokeniser that is read and written again need not come out the same.
    for file in sorted(transformer_folder(encoder.folder).glob("*")):
        if file.name in TOKENISER_FILES:
            shutil.copyfile(file, folder / file.name)


def read_dense(folder: Path) -> NDArray[np.float32] | None:
    """The linear map of an exported folder, or None where it has none."""
    path = folder / _DENSE / "model.safetensors"
    return read_matrix(path, "linear.weight") if path.is_file() else None


def read_head(folder: Path) -> dict[str, Any]:
    """The head of an exported folder; an error where the folder is no trained matcher."""
    path = folder / HEAD_FILE
    if not path.is_file():
        raise InputError(
            f"no trained matcher: {HEAD_FILE} is missing",
            where=str(folder),
            why="the head says how a cosine becomes log-odds",
            remedy="Name a folder that a matcher's save() wrote; a bare encoder is opened with encoder_named",
        )
    head = read_json(path)
    for key in ("weight", "bias"):
        value = head.get(key) if isinstance(head, dict) else None
        if not isinstance(value, int | float) or not np.isfinite(value):
            raise InputError(f"{key} is {value!r}, not a finite number", where=str(path))
    return dict(head)


def write_card(folder: Path, head: dict[str, Any], encoder_name: str, trained_on: str) -> None:
    """Write README.md: what the model is, how to use it, what it is not for."""
    folders = {"model": ""} if head["shared"] else {"left": "/left", "right": "/right"}
    one, other = next(iter(folders)), [*folders][-1]
    load = "\n".join(
        f'{name} = SentenceTransformer("path/to/this/folder{inside}")' for name, inside in folders.items()
    )
    prompted = head["left_prefix"] or head["right_prefix"]
    prompts = [f', prompt_name="{side}"' if prompted else "" for side in ("left", "right")]
    weight, bias = float(head["weight"]), float(head["bias"])
    folder.joinpath("README.md").write_text(
        f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, pairsieve]
---

# A matcher of text pairs

Trained by pairsieve (learner `{head["learner"]}`) from the encoder `{encoder_name}` on {trained_on}.
The log-odds of a match, by the pairs that were labelled, are `{weight:.6g} * cosine + {bias:.6g}`.

```python
from sentence_transformers import SentenceTransformer

{load}
a = {one}.encode(["first text"]{prompts[0]})
b = {other}.encode(["second text"]{prompts[1]})
cosine = (a * b).sum(axis=1)
logit = {weight!r} * cosine + {bias!r}
```

Texts are cut at {head["max_length"]} tokens, pooled by their mean and brought to length one. The log-odds
are fitted to pairs chosen for labelling, which hold far more matches than all pairs do, so they give no
probability: use them to rank, and set a threshold on measured precision. The model knows only the kind of
pair it was trained on.
""",
        encoding="utf-8",
    )


def append_to_card(folder: Path, text: str) -> None:
    """Add a section to the model card that `write_card` wrote."""
    card = folder / "README.md"
    card.write_text(f"{card.read_text(encoding='utf-8')}\n{text}", encoding="utf-8")


def write_matrix(path: Path, matrix: NDArray[np.float32], name: str) -> None:
    """One float32 matrix as a safetensors file."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(matrix, dtype=np.float32)}, str(path), metadata={"format": "pt"})


def read_matrix(path: Path, name: str) -> NDArray[np.float32]:
    """The matrix that `write_matrix` wrote; an error, in words, where the file is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        matrix: NDArray[np.float32] = load_file(str(path))[name].astype(np.float32)
    except (OSError, KeyError, SafetensorError) as error:
        raise InputError(
            "a damaged matrix file", where=str(path), why=str(error), remedy="Train or copy the matcher again"
        ) from error
    return matrix


def write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
