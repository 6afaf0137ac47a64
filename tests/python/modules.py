"""Decoders written in different manners, right ones and wrong ones, with what is true of each: what tracing has to find."""

import math
import types

import torch
import torch.nn.functional as F
from torch import nn

V, D, HEADS, T = 40, 32, 4, 12


def eager(q, k, v, mask_value=-math.inf, diagonal=1):
    """(samples, heads, positions, d_head); the upper triangle from `diagonal` on is masked with `mask_value`."""
    t = q.shape[-2]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    future = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(diagonal)
    return F.softmax(scores.masked_fill(future, mask_value), dim=-1) @ v


def fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class FusedProjections(nn.Module):
    """One matrix for queries, keys and values, as GPT-2 has it."""

    def __init__(self, attend=eager):
        super().__init__()
        self.c_attn, self.c_proj, self.attend = nn.Linear(D, 3 * D), nn.Linear(D, D), attend
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.c_attn(x).split(D, dim=2))
        return self.drop(self.c_proj(self.attend(q, k, v).transpose(1, 2).contiguous().view(b, t, D)))


def mlp():
    return nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))


class Gpt(nn.Module):
    """A GPT-2: options are the ways in which people get it wrong."""

    def __init__(self, n_layer=3, attend=eager, tied=True, final_norm=True, norm=lambda: nn.LayerNorm(D), skip="input", first=0,
                 sandwich=False, declared=None):
        super().__init__()
        self.wte, self.wpe, self.first = nn.Embedding(V, D), nn.Embedding(T + 2, D), first
        self.h = nn.ModuleList([GptBlock(attend, norm, skip, sandwich) for _ in range(n_layer)])
        self.ln_f = norm() if final_norm else nn.Identity()
        self.lm_head = nn.Linear(D, V, bias=False)
        self.apply(small)
        if tied:
            self.lm_head.weight = self.wte.weight
        self.config = types.SimpleNamespace(tie_word_embeddings=tied if declared is None else declared)

    def forward(self, idx, targets=None):
        pos = torch.arange(self.first, idx.shape[1] + self.first, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, V), targets.reshape(-1))
        return logits, loss


class GptBlock(nn.Module):
    def __init__(self, attend, norm, skip, sandwich):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp, self.skip = norm(), FusedProjections(attend), norm(), mlp(), skip
        self.out_1, self.out_2 = (norm(), norm()) if sandwich else (nn.Identity(), nn.Identity())

    def forward(self, x):
        if self.skip == "normed":  # the skip path is taken after the norm
            x = self.ln_1(x)
            x = x + self.attn(x)
            x = self.ln_2(x)
            return x + self.mlp(x)
        if self.skip == "none":
            return self.mlp(self.ln_2(self.attn(self.ln_1(x))))
        if self.skip == "attention only":
            x = x + self.attn(self.ln_1(x))
            return self.mlp(self.ln_2(x))
        if self.skip == "lerp":
            x = torch.lerp(x, self.attn(self.ln_1(x)), 0.5)
            return torch.addcmul(x, self.mlp(self.ln_2(x)), self.ln_2.weight)
        if self.skip == "by hand":  # the second norm is in no module
            x = x + self.attn(self.ln_1(x))
            y = x - x.mean(-1, keepdim=True)
            return x + self.mlp(y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5))
        if self.skip == "stacked":  # a sum that no addition shows
            x = torch.stack([x, self.attn(self.ln_1(x))]).sum(0)
            return torch.stack([x, self.mlp(self.ln_2(x))]).sum(0)
        if self.skip == "post_branch":
            x = x + self.ln_1(self.attn(x))
            return x + self.ln_2(self.mlp(x))
        x = x + self.out_1(self.attn(self.ln_1(x)))
        branch = self.out_2(self.mlp(self.ln_2(x)))
        branch += x
        return branch


class EncoderStack(nn.Module):
    """PyTorch's own layers with a mask, norms after the addition, sinusoidal positions."""

    def __init__(self, norm_first=False):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        position, rate = torch.arange(T)[:, None], torch.exp(torch.arange(0, D, 2) * (-math.log(1e4) / D))
        table = torch.stack([torch.sin(position * rate), torch.cos(position * rate)], -1).reshape(T, D)
        self.register_buffer("table", table)
        layer = nn.TransformerEncoderLayer(D, HEADS, 2 * D, dropout=0.1, batch_first=True, norm_first=norm_first)
        self.stack = nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(D) if norm_first else None, enable_nested_tensor=False)
        self.head = nn.Linear(D, V)

    def forward(self, idx):
        t = idx.shape[1]
        mask = torch.full((t, t), -math.inf, device=idx.device).triu(1)
        return self.head(self.stack(self.embed(idx) * math.sqrt(D) + self.table[:t], mask))


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class SequenceNorm(nn.Module):
    """Statistics over the positions of a sample, one for each feature: it sees the future."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        return self.scale * (x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True) + 1e-6) + self.shift


class Llama(nn.Module):
    """RMSNorm, rotary positions in halves, two key heads for four query heads, SwiGLU, two matrices."""

    def __init__(self, first=0, attend=eager):
        super().__init__()
        self.embed_tokens = nn.Embedding(V, D)
        self.layers = nn.ModuleList([LlamaLayer(attend) for _ in range(2)])
        self.norm, self.output, self.first = RMSNorm(), nn.Linear(D, V, bias=False), first
        self.apply(small)
        self.config = {"tie_word_embeddings": False}

    def forward(self, input_ids):
        dh = D // HEADS
        angle = torch.arange(self.first, self.first + input_ids.shape[1])[:, None] * 1e4 ** (-torch.arange(0, dh, 2) / dh)
        angle = torch.cat([angle, angle], -1)
        hidden, rotary = self.embed_tokens(input_ids), (angle.cos()[None, None], angle.sin()[None, None])
        for layer in self.layers:
            hidden = layer(hidden, rotary)[0]
        return {"logits": self.output(self.norm(hidden)), "hidden": hidden}


def rotate(x, rotary):
    a, b = x.chunk(2, -1)
    return x * rotary[0] + torch.cat([-b, a], -1) * rotary[1]


class LlamaLayer(nn.Module):
    def __init__(self, attend):
        super().__init__()
        kv = 2 * D // HEADS
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(D, n, bias=False) for n in (D, kv, kv, D))
        self.gate, self.up, self.down = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)
        self.input_norm, self.post_norm, self.attend = RMSNorm(), RMSNorm(), attend

    def forward(self, hidden, rotary):
        residual, (b, t, _) = hidden, hidden.shape
        x = self.input_norm(hidden)
        q = rotate(self.q_proj(x).view(b, t, HEADS, -1).transpose(1, 2), rotary)
        k = rotate(self.k_proj(x).view(b, t, 2, -1).transpose(1, 2), rotary).repeat_interleave(2, dim=1)
        v = self.v_proj(x).view(b, t, 2, -1).transpose(1, 2).repeat_interleave(2, dim=1)
        hidden = residual + self.o_proj(self.attend(q, k, v).transpose(1, 2).reshape(b, t, D))
        residual = hidden
        x = self.post_norm(hidden)
        return (residual + self.down(F.silu(self.gate(x)) * self.up(x)),)


class Parallel(nn.Module):
    """GPT-NeoX: both branches read the block's input. Complex rotations; blocks are attributes, not a list; functional norms."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.block_a, self.block_b = ParallelBlock(), ParallelBlock()
        self.gain, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
        self.apply(small)

    def forward(self, idx):
        dh = D // HEADS
        angle = torch.arange(idx.shape[1])[:, None] * 1e4 ** (-torch.arange(0, dh, 2) / dh)
        turn = torch.polar(torch.ones_like(angle), angle)
        x = self.block_b(self.block_a(self.emb(idx), turn), turn)
        return F.layer_norm(x, (D,), self.gain, self.bias) @ self.emb.weight.t()


class ParallelBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.mlp = nn.Linear(D, 3 * D), nn.Linear(D, D), mlp()
        self.g1, self.b1 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
        self.g2, self.b2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x, turn):
        b, t, _ = x.shape
        q, k, v = self.qkv(F.layer_norm(x, (D,), self.g1, self.b1)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = (torch.view_as_real(torch.view_as_complex(y.reshape(*y.shape[:-1], -1, 2)) * turn).flatten(-2) for y in (q, k))
        a = self.out(eager(q, k, v, -1e4).transpose(1, 2).reshape(b, t, D))
        return x + a + self.mlp(F.layer_norm(x, (D,), self.g2, self.b2))


def small(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.1)


INF = "-Infinity"
GPT = {"tied": True, "tied_declared": True, "causal": True, "n_layer": 3, "norm": "layer", "norm_axis": "features", "placement": "pre",
       "final_norm": True, "residual": "add", "skip_after_norm": False, "position": "learned", "position_first": 0, "mask_value": INF,
       "attention": "softmax", "n_head": 4, "n_kv_head": 4}
LLAMA = {**GPT, "n_layer": 2, "tied": False, "tied_declared": False, "tied_equal": False, "norm": "rms", "position": "rope", "n_kv_head": 2}

# name: (module, what is true of it)
RIGHT = {
    "GPT-2": (lambda: Gpt(), GPT),
    "post-LN of PyTorch's layers": (lambda: EncoderStack(), {
        **GPT, "tied": False, "tied_declared": "unknown", "tied_equal": False, "placement": "post", "final_norm": False,
        "position": "sinusoidal", "attention": "mha"}),
    "Llama": (lambda: Llama(), LLAMA),
    "parallel": (lambda: Parallel(), {**GPT, "n_layer": 2, "tied_declared": "unknown", "placement": "parallel", "position": "rope",
                                      "mask_value": -1e4}),
    "sandwich": (lambda: Gpt(sandwich=True), {**GPT, "placement": "sandwich"}),
    "two matrices": (lambda: Gpt(tied=False), {**GPT, "tied": False, "tied_declared": False, "tied_equal": False}),
}
WRONG = {
    "no final norm": (lambda: Gpt(final_norm=False), {**GPT, "final_norm": False}),
    "skip after the norm": (lambda: Gpt(skip="normed"), {**GPT, "skip_after_norm": True}),
    "norm over the sequence": (lambda: Gpt(norm=SequenceNorm), {**GPT, "norm": "instance", "norm_axis": "sequence", "causal": False}),
    "leaking mask": (lambda: Gpt(attend=lambda q, k, v: eager(q, k, v, diagonal=2)), {**GPT, "causal": False}),
    "two matrices though declared one": (lambda: Gpt(tied=False, declared=True), {
        **GPT, "tied": False, "tied_declared": True, "tied_equal": False}),
    "positions from 1": (lambda: Gpt(first=1), {**GPT, "position_first": 1}),
}
# Beyond the twelve.
MORE = {
    "rotary positions from 1": (lambda: Llama(first=1), {**LLAMA, "position_first": 1}),
    "mask of zeros": (lambda: Gpt(attend=lambda q, k, v: eager(q, k, v, 0.0)), {**GPT, "mask_value": 0, "causal": False}),
    "no skip path": (lambda: Gpt(skip="none"), {**GPT, "residual": "none"}),
    "one skip path of two": (lambda: Gpt(skip="attention only"), {**GPT, "residual": "partial"}),
    "norm at the branch's end": (lambda: Gpt(skip="post_branch"), {**GPT, "placement": "post_branch"}),
    "PyTorch's layers, norm first": (lambda: EncoderStack(norm_first=True), {
        **GPT, "tied": False, "tied_declared": "unknown", "tied_equal": False, "position": "sinusoidal", "attention": "mha"}),
    "sums by other functions": (lambda: Gpt(skip="lerp"), GPT),
    "a norm written out by hand": (lambda: Gpt(skip="by hand"), {**GPT, "norm": "unknown", "norm_axis": "unknown", "placement": "unknown"}),
    "sums that do not show": (lambda: Gpt(skip="stacked"), {
        **GPT, "residual": "unknown", "placement": "unknown", "skip_after_norm": "unknown"}),
    "one block": (lambda: Gpt(n_layer=1), {**GPT, "n_layer": 1}),
    "no norm": (lambda: Gpt(norm=nn.Identity), {**GPT, "norm": "none", "norm_axis": "none", "placement": "none", "final_norm": False}),
}
if hasattr(F, "scaled_dot_product_attention"):
    MORE["fused attention"] = (lambda: Gpt(attend=fused), {**GPT, "attention": "sdpa"})
    MORE["fused attention with few key heads"] = (lambda: Llama(attend=fused), {**LLAMA, "attention": "sdpa"})
