"""Tiny random encoders for tests: real architectures, a vocabulary written here, a few thousand weights.

They embed nonsense, but through the same code as the real ones: loading, tokenising, training, exporting.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = re.findall(
    r"\w+",
    "how do i can the a is my what where when who to of in on and reset change password account email "
    "delete open close bank card loan city river glacier cave formed long old tall born made query passage",
)
ARCHITECTURES = ("bert", "roberta", "xlnet", "albert")


def tokenizer_file(cls: str, sep: str, pad: str, unk: str, mask: str) -> Any:
    """A wordpiece tokeniser: a few words whole, everything else letter by letter; pairs as A sep B."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = [pad, unk, cls, sep, mask, "?", ".", ",", ":", "!", "'", "-"]
    vocabulary += list(LETTERS) + ["##" + letter for letter in LETTERS]
    vocabulary += [word for word in WORDS if word not in LETTERS]
    ids = {token: place for place, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=unk))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, ids[cls]), (sep, ids[sep])],
    )
    return tokenizer


def write_tiny(architecture: str, folder: Path, seed: int = 0) -> Path:
    """A transformers folder of a tiny random network: 2 layers of 32 dimensions (XLNet: the same)."""
    import torch
    from transformers import (
        AlbertConfig,
        AutoModel,
        BertConfig,
        MPNetConfig,
        PreTrainedTokenizerFast,
        RobertaConfig,
        XLNetConfig,
    )

    special = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_file(**special),
        padding_side="left" if architecture == "xlnet" else "right",
        **{f"{kind}_token": token for kind, token in special.items()},
    )
    vocabulary = len(tokenizer)
    plain = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 160,
        "pad_token_id": 0,
    }
    config: Any
    if architecture == "bert":
        config = BertConfig(**plain)
    elif architecture == "roberta":
        config = RobertaConfig(**plain, type_vocab_size=1, bos_token_id=2, eos_token_id=3)
    elif architecture == "mpnet":
        config = MPNetConfig(**plain | {"pad_token_id": 1}, bos_token_id=2, eos_token_id=3)
    elif architecture == "albert":
        config = AlbertConfig(**plain, embedding_size=16, bos_token_id=2, eos_token_id=3)
    elif architecture == "xlnet":
        config = XLNetConfig(
            vocab_size=vocabulary, d_model=32, n_layer=2, n_head=4, d_inner=64, pad_token_id=0
        )
    else:
        raise ValueError(f"no tiny {architecture}; there are {', '.join(ARCHITECTURES)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AutoModel.from_config(config)
        # The usual initial weights are so small that every text lands on the same point; spread them.
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if parameter.dim() > 1 and "position" not in name:
                    parameter.mul_(6.0)
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_tiny_sentence_transformer(folder: Path, seed: int = 0) -> Path:
    """The tiny BERT in the layout of sentence-transformers: Transformer, mean Pooling, Normalize."""
    write_tiny("bert", folder, seed)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 128, "do_lower_case": False})
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder
