"""The few CUDA kernels of a packed training step (`packed.py`); everything else in it is a matrix product.

Rows are tokens without padding between texts: text s owns rows starts[s] to starts[s + 1]. Sums that other
libraries make with atomic additions are made in a fixed order here, so that a step gives the same bits again.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

ROWS = 8  # rows that one program of `ln_backward` adds up; divides every packed size


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def embed_ln(  # type: ignore[no-untyped-def]
    ids, places, word, position, kind, gain, shift, added, out32, out16, mean, scale, width, eps,
    keep: tl.constexpr, split: tl.constexpr, block: tl.constexpr,
):  # Triton reads annotations as code: only constexpr may stand here  # fmt: skip
    """Sum of the three embeddings of a token, then layer norm; one program a token."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < width
    token = tl.load(ids + row).to(tl.int64)
    place = tl.load(places + row).to(tl.int64)
    total = tl.load(word + token * width + at, mask=inside, other=0.0)
    total += tl.load(position + place * width + at, mask=inside, other=0.0)
    total += tl.load(kind + at, mask=inside, other=0.0)
    _norm(total, row, at, inside, gain, shift, added, out32, out16, mean, scale, width, eps, keep, split)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def add_ln(  # type: ignore[no-untyped-def]
    residual, branch, bias, gain, shift, added, out32, out16, mean, scale, width, eps,
    keep: tl.constexpr, split: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Layer norm of residual + (branch + bias); one program a row."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < width
    total = tl.load(residual + row * width + at, mask=inside, other=0.0)
    total += tl.load(branch + row * width + at, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(bias + at, mask=inside, other=0.0)
    _norm(total, row, at, inside, gain, shift, added, out32, out16, mean, scale, width, eps, keep, split)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _norm(  # type: ignore[no-untyped-def]
    total, row, at, inside, gain, shift, added, out32, out16, mean, scale, width, eps,
    keep: tl.constexpr, split: tl.constexpr,
):  # fmt: skip
    """`keep`: what the backward pass needs is written; `split`: see `_store`."""
    middle = tl.sum(tl.where(inside, total, 0.0), 0) / width
    centred = tl.where(inside, total - middle, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
    weight = tl.load(gain + at, mask=inside, other=0.0)
    normal = centred * inverse * weight + tl.load(shift + at, mask=inside, other=0.0)
    tl.store(out32 + row * width + at, normal, mask=inside)
    _store(out16, row, at, width, normal, inside, split)
    if keep:
        tl.store(added + row * width + at, total, mask=inside)
        tl.store(mean + row, middle)
        tl.store(scale + row, inverse)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _store(out, row, at, width, value, inside, split: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[row, at] = value, a factor of the next product.

    `split`: as bfloat16 halves side by side, (low, high, high), each `width` wide (`packed_embedding.py`).
    """
    if split:
        high = value.to(tl.bfloat16)
        low = (value - high.to(tl.float32)).to(tl.bfloat16)
        place = out + row * (3 * width) + at
        tl.store(place, low, mask=inside)
        tl.store(place + width, high, mask=inside)
        tl.store(place + 2 * width, high, mask=inside)
    else:
        tl.store(out + row * width + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def ln_backward(  # type: ignore[no-untyped-def]
    far, near, added, mean, scale, gain, down32, down16, parts, width,
    two: tl.constexpr, turns: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """From the gradient far (+ near) after a layer norm to the one before it, `turns` rows a program.

    parts[program] = sums over its rows of (gradient before, gradient · normalised, gradient): those of the
    bias added before the norm, of the gain and of the shift.
    """
    program = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < width
    weight = tl.load(gain + at, mask=inside, other=0.0)
    of_bias = tl.zeros((block,), tl.float32)
    of_gain = tl.zeros((block,), tl.float32)
    of_shift = tl.zeros((block,), tl.float32)
    for turn in range(turns):
        row = program * turns + turn
        up = tl.load(far + row * width + at, mask=inside, other=0.0)
        if two:
            up += tl.load(near + row * width + at, mask=inside, other=0.0).to(tl.float32)
        inverse = tl.load(scale + row)
        middle = tl.load(mean + row)
        normal = tl.where(
            inside, (tl.load(added + row * width + at, mask=inside, other=0.0) - middle) * inverse, 0.0
        )
        pulled = up * weight
        along = tl.sum(normal * pulled, 0) / width
        level = tl.sum(pulled, 0) / width
        down = tl.where(inside, (pulled - normal * along - level) * inverse, 0.0)
        tl.store(down32 + row * width + at, down, mask=inside)
        tl.store(down16 + row * width + at, down.to(down16.dtype.element_ty), mask=inside)
        of_bias += down
        of_gain += up * normal
        of_shift += up
    base = parts + program * 3 * width + at
    tl.store(base, of_bias, mask=inside)
    tl.store(base + width, of_gain, mask=inside)
    tl.store(base + 2 * width, of_shift, mask=inside)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def gelu(  # type: ignore[no-untyped-def]
    before, bias, after, total, width, split: tl.constexpr, block: tl.constexpr
):
    """after = GELU(before + bias), by the error function as BERT has it."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < total
    value = tl.load(before + at, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + at % width, mask=inside, other=0.0)
    out = value * 0.5 * (1.0 + tl.erf(value * 0.7071067811865476))
    _store(after, at // width, at % width, width, out, inside, split)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def gelu_backward(before, bias, up, down, total, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < total
    value = tl.load(before + at, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + at % width, mask=inside, other=0.0)
    share = 0.5 * (1.0 + tl.erf(value * 0.7071067811865476))
    slope = share + value * 0.3989422804014327 * tl.exp(-0.5 * value * value)
    out = tl.load(up + at, mask=inside, other=0.0).to(tl.float32) * slope
    tl.store(down + at, out.to(down.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _attention(  # type: ignore[no-untyped-def]
    qkv, bias, starts, relative, width, factor, text, part,
    has_relative: tl.constexpr, long: tl.constexpr, head: tl.constexpr,
):  # fmt: skip
    """Rows of one text, where one head's values lie in `qkv` and in the output, q, k, v and the weights."""
    first = tl.load(starts + text).to(tl.int64)
    length = (tl.load(starts + text + 1) - first).to(tl.int32)
    rows, columns = tl.arange(0, long), tl.arange(0, head)
    inside = (rows < length)[:, None]
    place = (first + rows)[:, None] * (3 * width) + part * head + columns[None, :]
    kind = qkv.dtype.element_ty
    lean = bias + part * head + columns
    q = (tl.load(qkv + place, mask=inside, other=0.0).to(tl.float32) + tl.load(lean)[None, :]).to(kind)
    k = tl.load(qkv + place + width, mask=inside, other=0.0).to(tl.float32) + tl.load(lean + width)[None, :]
    v = (tl.load(qkv + place + 2 * width, mask=inside, other=0.0).to(tl.float32)
         + tl.load(lean + 2 * width)[None, :])  # fmt: skip
    k, v = k.to(kind), v.to(kind)
    score = tl.dot(q, tl.trans(k), input_precision="tf32x3") * factor
    if has_relative:
        score += tl.load(relative + part * long * long + rows[:, None] * long + rows[None, :])
    score = tl.where((rows < length)[None, :], score, -1e30)
    weight = tl.exp(score - tl.max(score, 1)[:, None])
    weight = weight / tl.sum(weight, 1)[:, None]
    to = (first + rows)[:, None] * width + part * head + columns[None, :]
    return rows, inside, place, to, q, k, v, weight


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def attend(  # type: ignore[no-untyped-def]
    qkv, bias, starts, relative, out, width, factor,
    has_relative: tl.constexpr, split: tl.constexpr, long: tl.constexpr, head: tl.constexpr,
):  # fmt: skip
    """Self-attention of one head of one text; `long` is a power of two no shorter than the text."""
    text, part = tl.program_id(0), tl.program_id(1)
    kind = qkv.dtype.element_ty
    rows, inside, _place, _to, _q, _k, v, weight = _attention(
        qkv, bias, starts, relative, width, factor, text, part, has_relative, long, head
    )
    mixed = tl.dot(weight.to(kind), v, input_precision="tf32x3")
    row = (tl.load(starts + text).to(tl.int64) + rows)[:, None]
    _store(out, row, (part * head + tl.arange(0, head))[None, :], width, mixed, inside, split)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def attend_backward(  # type: ignore[no-untyped-def]
    qkv, bias, starts, relative, up, down, of_relative, width, factor, heads,
    has_relative: tl.constexpr, adding: tl.constexpr, long: tl.constexpr, head: tl.constexpr,
):  # fmt: skip
    """Gradients of one head of one text; of_relative[text, head] collects those of the relative biases."""
    text, part = tl.program_id(0), tl.program_id(1)
    kind = qkv.dtype.element_ty
    rows, inside, place, to, q, k, v, weight = _attention(
        qkv, bias, starts, relative, width, factor, text, part, has_relative, long, head
    )
    pull = tl.load(up + to, mask=inside, other=0.0)
    of_v = tl.dot(tl.trans(weight.to(kind)), pull)
    of_weight = tl.dot(pull, tl.trans(v))
    of_score = weight * (of_weight - tl.sum(weight * of_weight, 1)[:, None])
    of_score = tl.where(inside, of_score, 0.0)
    if has_relative:
        square = rows[:, None] * long + rows[None, :]
        to_bias = of_relative + (text.to(tl.int64) * heads + part) * long * long + square
        if adding:
            tl.store(to_bias, tl.load(to_bias) + of_score)
        else:
            tl.store(to_bias, of_score)
    small = (of_score * factor).to(kind)
    tl.store(down + place, tl.dot(small, k).to(kind), mask=inside)
    tl.store(down + place + width, tl.dot(tl.trans(small), q).to(kind), mask=inside)
    tl.store(down + place + 2 * width, of_v.to(kind), mask=inside)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def add_by_token(  # type: ignore[no-untyped-def]
    tokens, order, down, out, rows, width, block: tl.constexpr
):
    """out[token] = sum of the rows of that token; `tokens` sorted, order[i] the row of the i-th of them."""
    slot = tl.program_id(0)
    token = tl.load(tokens + slot)
    before = tl.load(tokens + tl.maximum(slot - 1, 0))
    at = tl.arange(0, block)
    inside = at < width
    if (slot == 0) | (before != token):
        total = tl.zeros((block,), tl.float32)
        here = slot
        same = token
        while same == token:
            row = tl.load(order + here).to(tl.int64)
            total += tl.load(down + row * width + at, mask=inside, other=0.0)
            here += 1
            same = tl.load(tokens + tl.minimum(here, rows - 1))
            same = tl.where(here < rows, same, -1)
        tl.store(out + token.to(tl.int64) * width + at, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def add_by_place(  # type: ignore[no-untyped-def]
    starts, down, out, texts, offset, width, block: tl.constexpr
):
    """out[offset + i] = sum over texts of the row of their i-th token."""
    place = tl.program_id(0)
    at = tl.arange(0, block)
    inside = at < width
    total = tl.zeros((block,), tl.float32)
    for text in range(texts):
        row = tl.load(starts + text).to(tl.int64) + place
        end = tl.load(starts + text + 1).to(tl.int64)
        total += tl.load(down + row * width + at, mask=(at < width) & (row + 0 * at < end), other=0.0)
    tl.store(out + (place + offset).to(tl.int64) * width + at, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def adamw(  # type: ignore[no-untyped-def]
    value, first, second, gradient, copy, hyper, total, factor, beta1, beta2, eps, decay,
    has_copy: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """One AdamW step over flat arrays. hyper = (rate, 1 / (1 - beta1^t), 1 / (1 - beta2^t))."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < total
    rate = tl.load(hyper) * factor
    pull = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    old = tl.load(value + at, mask=inside, other=0.0)
    one = tl.load(first + at, mask=inside, other=0.0)
    two = tl.load(second + at, mask=inside, other=0.0)
    one = beta1 * one + (1.0 - beta1) * pull
    two = beta2 * two + (1.0 - beta2) * pull * pull
    size = tl.sqrt(two * tl.load(hyper + 2)) + eps
    new = old - rate * (one * tl.load(hyper + 1) / size + decay * old)
    tl.store(value + at, new, mask=inside)
    tl.store(first + at, one, mask=inside)
    tl.store(second + at, two, mask=inside)
    if has_copy:
        tl.store(copy + at, new.to(copy.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def pool(hidden, starts, out, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[text] = unit mean of its rows; one program a text, rows in their order."""
    text = tl.program_id(0)
    at = tl.arange(0, block)
    inside = at < width
    row = tl.load(starts + text).to(tl.int64)
    end = tl.load(starts + text + 1).to(tl.int64)
    total = tl.zeros((block,), tl.float32)
    while row < end:
        total += tl.load(hidden + row * width + at, mask=inside, other=0.0)
        row += 1
    size = tl.sqrt(tl.sum(total * total, 0))
    tl.store(out + text.to(tl.int64) * width + at, total / tl.maximum(size, 1e-12), mask=inside)


def block_for(width: int) -> int:
    """The power of two that holds a row."""
    return int(triton.next_power_of_2(width))


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    kernel[grid](*args, **constants)
