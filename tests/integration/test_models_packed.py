"""The packed step does what PyTorch does: rows, gradients, AdamW; in Triton's interpreter, without a GPU.

The interpreter is chosen by an environment variable before Triton is imported, so each story is a process.
"""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packed")]

KINDS = ("bert", "mpnet", "roberta")

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs triton: pip install 'pairsieve[test]'"
)

GRADIENTS = """
import json, sys, numpy as np, torch, transformers as t
from pairsieve.models.encoder import Tokens, pooled
from pairsieve.models import packed_batches as room
from pairsieve.models import packed_embedding
from pairsieve.models.packed import PackedNetwork, pooled_rows
from pairsieve.models.packed_batches import PackedSteps

room.TOKEN_STEPS = (40,)  # an interpreter is slow: little padding

def story(kind):
    config, model = {"bert": (t.BertConfig, t.BertModel), "mpnet": (t.MPNetConfig, t.MPNetModel),
                     "roberta": (t.RobertaConfig, t.RobertaModel)}[kind]
    torch.manual_seed(0)
    # 64 dimensions lay the gradients of a norm side by side, 32 do not: both ways are taken
    pad = 0 if kind == "bert" else 1
    width = 64 if kind == "bert" else 32
    network = model(config(vocab_size=50, hidden_size=width, num_hidden_layers=2, num_attention_heads=2,
                           intermediate_size=48, max_position_embeddings=40, pad_token_id=pad)).eval()
    for parameter in network.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    rng = np.random.default_rng(0)
    texts = [rng.integers(2, 50, size=n).astype(np.int32) for n in (5, 9, 3, 17, 8, 8)]
    tokens = Tokens(np.concatenate(texts), np.cumsum([0] + [len(text) for text in texts]))
    packed = PackedNetwork(network, "cpu", torch.float32)
    rows = np.array([[0, 1, 2, 3], [4, 5, 0, 3]])  # two steps; texts of 3 to 17 tokens, end to end
    steps, found = PackedSteps(tokens, rows, pad, packed.offset, "cpu"), {"rows": 0.0, "gradient": 0.0}
    for step in (0, 1):
        batch = steps.batch(step)
        hidden = packed.forward(batch).detach().requires_grad_()
        mine = pooled_rows(hidden, batch)
        ids, mask = tokens.padded(rows[step], 17, pad)
        network.zero_grad()
        theirs = pooled(network, torch.from_numpy(ids), torch.from_numpy(mask))
        pull = torch.randn(mine.shape)
        (mine * pull).sum().backward()
        (theirs * pull).sum().backward()
        packed.backward(batch, hidden.grad)
        found["rows"] = max(found["rows"], (mine - theirs).abs().max().item())
        for name, parts in packed._sources.items():
            wanted = torch.cat([torch.zeros_like(p) if p.grad is None else p.grad for p in parts])
            error = (wanted - packed._gradient[name]).abs().max() / wanted.abs().max().clamp(min=1e-6)
            found["gradient"] = max(found["gradient"], error.item())
    product = torch.mm  # the CPU's has no out_dtype
    torch.mm = lambda a, b, out_dtype=None: product(a.float(), b.float())
    embedder = packed_embedding.PackedEmbedder(network, "cpu")
    mine = embedder.rows(tokens)
    ids, mask = tokens.padded(np.arange(6), 17, pad)
    theirs = pooled(network, torch.from_numpy(ids), torch.from_numpy(mask))
    torch.mm = product
    found["embedded"] = (mine @ mine.T - theirs @ theirs.T).abs().max().item()
    found["tokens"] = steps.sizes.tolist()
    before = {name: value.clone() for name, value in packed._value.items()}
    adam = packed.adamw(torch.tensor([0.01, 1 / (1 - 0.9), 1 / (1 - 0.999)]), 0.9, 0.999, 1e-6, 0.0)
    for span in packed._spans:  # layer by layer, as the backward pass does it
        adam(packed.matrices, span)
    adam(packed.others, slice(0, len(packed.others.value)))
    found["adamw"] = 0.0
    for name, value in before.items():
        value.grad = packed._gradient[name].clone()
        torch.optim.AdamW([value.requires_grad_()], lr=0.01, eps=1e-6, weight_decay=0.0).step()
        found["adamw"] = max(found["adamw"], (value - packed._value[name]).abs().max().item())
    packed.store()
    found["stored"] = torch.equal(dict(network.named_parameters())["embeddings.word_embeddings.weight"].data,
                                  packed._value["word"])
    return found

print(json.dumps({kind: story(kind) for kind in sys.argv[1:]}))
"""

PASS = """
import contextlib, json, numpy as np, torch, transformers as t
from pairsieve.models.encoder import Tokens
from pairsieve.models import packed_embedding as room

torch.cuda.device = lambda device: contextlib.nullcontext()
product = torch.mm  # the CPU's has no out_dtype
torch.mm = lambda a, b, out_dtype=None: product(a.float(), b.float())
torch.manual_seed(0)
network = t.BertModel(t.BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                   intermediate_size=48, max_position_embeddings=40, pad_token_id=0)).eval()
made = []

class Counted(room.PackedEmbedder):
    def __init__(self, *told):
        made.append(1)
        super().__init__(*told)

room.PackedEmbedder = Counted
texts = [np.arange(2, 2 + n, dtype=np.int32) for n in (5, 9, 3, 7)]
tokens = Tokens(np.concatenate(texts), np.cumsum([0] + [len(text) for text in texts]))
parts = [tokens.take(np.array([0, 1])), tokens.take(np.array([2, 3]))]
kept = {}
in_parts = np.concatenate([room.embed_packed(network, part, 0, "cpu", kept) for part in parts])
built = len(made)
whole = room.embed_packed(network, tokens, 0, "cpu")
room.WORST = 0.0  # no embedder is so exact: refused once, and remembered
refused = {}
answers = [room.embed_packed(network, part, 0, "cpu", refused) for part in parts]
print(json.dumps({"built": built, "after": len(made), "off": float(np.abs(in_parts - whole).max()),
                  "refused": [answer is None for answer in answers]}))
"""


@needs_triton
def test_a_pass_in_parts_builds_its_embedder_once():
    """Two parts of one pass: one embedder; a pass by itself builds its own, and one that is refused one."""
    found = interpreted(PASS)
    assert found["built"] == 1
    assert found["after"] == 3
    assert found["off"] < 1e-6
    assert found["refused"] == [True, True]


@pytest.fixture(scope="module")
def stories():
    """What each kind of network gave, by kind: all in one process."""
    return interpreted(GRADIENTS, *KINDS)


@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_rows_gradients_and_optimiser_are_those_of_pytorch(kind, stories):
    found = stories[kind]
    assert found["rows"] < 1e-6
    assert found["gradient"] < 1e-5  # relative to the largest of each parameter
    assert found["adamw"] < 1e-6
    assert found["embedded"] < 5e-6  # cosines; products of bfloat16 halves
    assert found["stored"]
    assert found["tokens"] == [40, 40]  # 34 and 38 tokens, filled up


def test_texts_of_all_steps_lie_end_to_end():
    """Texts "7 8 9", "5" and "6 6": each step has its own padding, sorted tokens and their rows beside it."""
    from pairsieve.models.encoder import Tokens
    from pairsieve.models.packed_batches import PackedSteps

    tokens = Tokens(np.array([7, 8, 9, 5, 6, 6], np.int32), np.array([0, 3, 4, 6]))
    steps = PackedSteps(tokens, np.array([[0, 1], [2, 0]]), pad=0, offset=2, device="cpu")
    second = steps.batch(1)
    assert steps.shapes() == [(128, 16), (128, 16)]
    assert second.ids[:6].tolist() == [6, 6, 7, 8, 9, 0]
    assert second.positions[:5].tolist() == [2, 3, 2, 3, 4]
    assert second.texts[:6].tolist() == [0, 0, 1, 1, 1, 2]  # 2: no text
    assert second.starts.tolist() == [0, 2, 5]
    assert second.tokens[-5:].tolist() == [6, 6, 7, 8, 9]
    assert second.order[-5:].tolist() == [0, 1, 2, 3, 4]


def interpreted(story, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", story, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
