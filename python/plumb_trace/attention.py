"""Attention statistics from what an attention call reads, in tiles, so that a fused kernel's scores need not exist at once.

Definitions are the trace's: entropy H / ln(visible keys) of rows that see two keys or more, and the largest score over visible pairs.
"""
import inspect
import math

import torch
import torch.nn.functional as F

TILE = 1 << 22  # scores at a time
FUSED = "scaled_dot_product_attention"


class Stats:
    """Sum and number of normalised entropies and the largest score, as tensors of no dims where the model is: reading them waits."""

    def __init__(self):
        self.sum = self.count = self.max = None

    def add(self, scores, low=-math.inf):
        """scores (…, rows, keys) before the softmax; at `low` and below a pair is masked. NaN counts as seen and wins."""
        scores = scores.detach()
        scores = scores if scores.dtype == torch.float64 else scores.float()
        visible = ~(scores <= low)
        n = visible.sum(-1)
        p = torch.softmax(scores, -1)
        entropy = torch.special.entr(p).sum(-1) / n.clamp(min=2).to(p.dtype).log()
        counted = n >= 2
        total = torch.where(counted, entropy, torch.zeros_like(entropy)).to(sum_dtype(scores)).sum()
        largest = torch.where(visible, scores, torch.full_like(scores, -math.inf)).amax()
        if self.sum is None:
            self.sum, self.count, self.max = total, counted.sum(), largest
        else:
            self.sum, self.count = self.sum + total, self.count + counted.sum()
            self.max = torch.where(torch.isnan(self.max) | (self.max > largest), self.max, largest)

    def entropy(self):
        return self.sum / self.count  # NaN where no row sees two keys


def sum_dtype(t):
    """Sums are in double where the device has it."""
    return torch.float32 if t.device.type == "mps" else torch.float64


def softmax_axis(args, kwargs, dims):
    """The axis, from 0, that a softmax of a tensor of so many dims runs along; None where it is not given as a number."""
    axis = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
    if axis is None:
        return 0 if dims in (0, 1, 3) else 1  # PyTorch's choice where none is given
    return axis % dims if isinstance(axis, int) and -dims <= axis < dims else None


def score_axes(shape, axis, n_token):
    """(rows, keys) of scores whose softmax runs along `axis`, counted from the end, wherever heads and samples stand; None where these are
    no square of positions, or where several axes could be. In squares of the last two axes either may be the keys'."""
    dims = len(shape)
    if dims < 3 or axis is None or shape[axis] != n_token:
        return None
    if shape[-1] == shape[-2]:
        rows = {dims - 1: -2, dims - 2: -1}.get(axis)
        return (rows, axis - dims) if rows else None
    alike = [i for i, n in enumerate(shape) if n == n_token]
    if len(alike) != 2 or alike[1] - alike[0] != 1:
        return None
    return sum(alike) - axis - dims, axis - dims


def fused_arguments(name, args, kwargs):
    """The arguments of scaled_dot_product_attention by their names. PyTorch 1.13's private form has need_attn_weights before is_causal."""
    names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal"]
    if name.startswith("_"):
        names.insert(5, "need_attn_weights")
    return {**dict(zip(names, args)), **kwargs}


def scaled_dot_product(stats, low, query, key, value=None, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False, **_):
    """From the arguments of scaled_dot_product_attention. In `attn_mask` True is seen; a float is added."""
    query, key = (t.detach().reshape((1,) * (4 - t.dim()) + tuple(t.shape)) if t.dim() < 4 else t.detach() for t in (query, key))
    if key.shape[1] != query.shape[1]:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    batch, heads, rows, width = query.shape
    keys = key.shape[2]
    scale = 1 / math.sqrt(width) if scale is None else float(scale)
    mask = None
    if attn_mask is not None:
        mask = attn_mask.detach()
        mask = mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape)) if mask.dim() < 4 else mask
        mask = mask.expand(batch, heads, rows, keys)
    samples = max(1, TILE // (heads * rows * keys))
    some_heads = heads if samples > 1 else max(1, TILE // (rows * keys))
    some_rows = rows if some_heads > 1 or heads == 1 and rows * keys <= TILE else max(1, TILE // keys)
    for b in range(0, batch, samples):
        for h in range(0, heads, some_heads):
            for r in range(0, rows, some_rows):
                at = (slice(b, b + samples), slice(h, h + some_heads), slice(r, r + some_rows))
                scores = (query[at].float() * scale) @ key[at[:2]].float().transpose(-1, -2)
                if is_causal:
                    row = torch.arange(r, r + scores.shape[-2], device=scores.device)
                    scores = scores.masked_fill(torch.arange(keys, device=scores.device) > row[:, None], -math.inf)
                if mask is not None:
                    part = mask[at]
                    scores = scores.masked_fill(~part, -math.inf) if part.dtype == torch.bool else scores + part
                stats.add(scores, low)


def multi_head(stats, low, args, kwargs):
    """From the arguments of F.multi_head_attention_forward: query (rows, batch, features); in masks True is hidden."""
    call = inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs)
    call.apply_defaults()
    a = call.arguments
    if a["bias_k"] is not None or a["add_zero_attn"] or a["static_k"] is not None:
        raise NotImplementedError("bias_k, add_zero_attn and static_k are not followed")
    query, key, heads, width = a["query"], a["key"], a["num_heads"], a["embed_dim_to_check"]
    if query.dim() == 2:
        query, key = query[:, None], key[:, None]
    if a["use_separate_proj_weight"]:
        w_q, w_k = a["q_proj_weight"], a["k_proj_weight"]
    else:
        w_q, w_k, _ = a["in_proj_weight"].chunk(3)
    b_q, b_k = (None, None) if a["in_proj_bias"] is None else a["in_proj_bias"].chunk(3)[:2]

    def split(x, w, b):
        y = F.linear(x.detach().float(), w.detach().float(), None if b is None else b.detach().float())
        return y.reshape(x.shape[0], x.shape[1], heads, width // heads).permute(1, 2, 0, 3)

    q, k = split(query, w_q, b_q), split(key, w_k, b_k)
    mask = None
    for given, shape in ((a["attn_mask"], None), (a["key_padding_mask"], (k.shape[0], 1, 1, k.shape[2]))):
        if given is None:
            continue
        if given.dtype == torch.bool or given.dtype == torch.uint8:
            given = torch.zeros(given.shape, device=given.device).masked_fill(given.bool(), -math.inf)
        if shape is None and given.dim() == 3:
            shape = (-1, heads, *given.shape[1:])
        given = given.reshape(shape) if shape else given
        mask = given if mask is None else mask + given
    scaled_dot_product(stats, low, q, k, attn_mask=mask)
