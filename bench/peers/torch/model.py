"""The chapter's decoder in PyTorch 1.13, with plumb's parameter names: the peer that plumb is timed and checked against.

Weights are [out, in]. Pre-LN, Post-LN or no norm; learned positions; tied or own head; attention without a T x T mask
buffer for more than one block; GELU in its erf form.
"""
import dataclasses
import json
import math

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Config:
    """Field names and defaults are those of plumb's [model] and [init]."""
    n_layer: int = 12
    d_model: int = 128
    n_head: int = 4
    n_kv_head: int = 0  # 0: n_head
    d_ff: int = 256
    block_size: int = 64
    vocab_size: int = 1200
    norm: str = "layer"  # layer rms none
    norm_eps: float = 1e-5
    placement: str = "pre"  # pre post
    final_norm: bool = None  # None: as the placement needs
    tied_embeddings: bool = True
    attention_bias: bool = False
    ffn_bias: bool = True
    std: float = 0.02
    residual_scale: bool = True  # x 1/sqrt(2 n_layer) on what writes to the stream

    def __post_init__(self):
        self.n_kv_head = self.n_kv_head or self.n_head
        if self.final_norm is None:
            self.final_norm = self.placement == "pre"
        if self.norm not in ("layer", "rms", "none"):
            raise ValueError(f"norm '{self.norm}' is none of layer, rms, none")
        if self.placement not in ("pre", "post"):
            raise ValueError(f"placement '{self.placement}' is neither pre nor post")
        if self.d_model % self.n_head or self.n_head % self.n_kv_head:
            raise ValueError(f"d_model {self.d_model}, n_head {self.n_head} and n_kv_head {self.n_kv_head} do not divide")

    @staticmethod
    def of(values):
        """From a dict; an unknown field is an error that lists the known ones."""
        known = [f.name for f in dataclasses.fields(Config)]
        for name in values:
            if name not in known:
                raise ValueError(f"unknown field '{name}'; known: {', '.join(known)}")
        return Config(**values)


class Norm(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.kind, self.eps, self.d = cfg.norm, cfg.norm_eps, cfg.d_model
        if cfg.norm != "none":
            self.gamma = nn.Parameter(torch.ones(cfg.d_model))
        if cfg.norm == "layer":
            self.beta = nn.Parameter(torch.zeros(cfg.d_model))

    def forward(self, x):
        if self.kind == "layer":
            return F.layer_norm(x, (self.d,), self.gamma, self.beta, self.eps)
        if self.kind == "rms":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.gamma
        return x


class Attention(nn.Module):
    """Causal, with n_head / n_kv_head query heads to a key head."""

    def __init__(self, cfg):
        super().__init__()
        self.n_head, self.n_kv_head, self.d_head = cfg.n_head, cfg.n_kv_head, cfg.d_model // cfg.n_head
        kv = self.n_kv_head * self.d_head
        self.norm = Norm(cfg)
        self.q = nn.Linear(cfg.d_model, cfg.d_model, bias=cfg.attention_bias)
        self.k = nn.Linear(cfg.d_model, kv, bias=cfg.attention_bias)
        self.v = nn.Linear(cfg.d_model, kv, bias=cfg.attention_bias)
        self.o = nn.Linear(cfg.d_model, cfg.d_model, bias=cfg.attention_bias)

    def qkv(self, x):
        """One product for all three, as plumb does it."""
        if self.q.bias is None:
            y = F.linear(x, torch.cat([self.q.weight, self.k.weight, self.v.weight]))
        else:
            y = F.linear(x, torch.cat([self.q.weight, self.k.weight, self.v.weight]),
                         torch.cat([self.q.bias, self.k.bias, self.v.bias]))
        return y.split([self.q.out_features, self.k.out_features, self.v.out_features], dim=-1)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(x)
        q = q.view(b, t, self.n_head, self.d_head).transpose(1, 2)
        k = k.view(b, t, self.n_kv_head, self.d_head).transpose(1, 2)
        v = v.view(b, t, self.n_kv_head, self.d_head).transpose(1, 2)
        if self.n_kv_head != self.n_head:
            k = k.repeat_interleave(self.n_head // self.n_kv_head, dim=1)
            v = v.repeat_interleave(self.n_head // self.n_kv_head, dim=1)
        scores = (q * (1 / math.sqrt(self.d_head))) @ k.transpose(-1, -2) + mask
        context = torch.softmax(scores, dim=-1) @ v
        return self.o(context.transpose(1, 2).reshape(b, t, c))


class Ffn(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm = Norm(cfg)
        self.add_module("in", nn.Linear(cfg.d_model, cfg.d_ff, bias=cfg.ffn_bias))
        self.add_module("out", nn.Linear(cfg.d_ff, cfg.d_model, bias=cfg.ffn_bias))

    def forward(self, x):
        return self.out(F.gelu(getattr(self, "in")(x)))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.post = cfg.placement == "post"
        self.attn, self.ffn = Attention(cfg), Ffn(cfg)

    def forward(self, x, mask):
        if self.post:
            x = self.attn.norm(x + self.attn(x, mask))
            return self.ffn.norm(x + self.ffn(x))
        x = x + self.attn(self.attn.norm(x), mask)
        return x + self.ffn(self.ffn.norm(x))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.pos = nn.Embedding(cfg.block_size, cfg.d_model)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layer)])
        if cfg.final_norm:
            self.final_norm = Norm(cfg)
        if not cfg.tied_embeddings:
            self.head = nn.Linear(cfg.d_model, cfg.vocab_size, bias=False)
        mask = torch.full((cfg.block_size, cfg.block_size), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)
        self.reset(cfg)

    @torch.no_grad()
    def reset(self, cfg):
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                writes = name.endswith("attn.o.weight") or name.endswith("ffn.out.weight")
                p.normal_(0, cfg.std / math.sqrt(2 * cfg.n_layer) if writes and cfg.residual_scale else cfg.std)
            elif name.endswith("bias"):
                p.zero_()

    def forward(self, idx, targets=None, keep=None):
        """Logits, and the mean loss in nats where targets are given. `keep`: a list that receives the stream, embedded and
        after each block, with its gradient retained."""
        t = idx.shape[1]
        if t > self.cfg.block_size:
            raise ValueError(f"{t} positions, block_size is {self.cfg.block_size}")
        x = self.embed(idx) + self.pos.weight[:t]
        mask = self.mask[:t, :t]
        for i in range(len(self.blocks) + 1):
            if i > 0:
                x = self.blocks[i - 1](x, mask)
            if keep is not None:
                x.retain_grad()
                keep.append(x)
        if self.cfg.final_norm:
            x = self.final_norm(x)
        logits = F.linear(x, self.embed.weight if self.cfg.tied_embeddings else self.head.weight)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def adamw(model, lr=3e-3, weight_decay=0.1, foreach=True):
    """No decay for parameters with fewer than two dims."""
    two, one = [p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": two, "weight_decay": weight_decay}, {"params": one, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8, foreach=foreach)


def clip(model, limit=1.0):
    """torch.nn.utils.clip_grad_norm_, with one call for all tensors. Returns the norm before clipping."""
    grads = [p.grad for p in model.parameters()]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    coefficient = float(limit / (norm + 1e-6))
    if coefficient < 1:
        torch._foreach_mul_(grads, coefficient)
    return float(norm)


def lr_at(step, lr, warmup, steps, min_lr=0.0):
    """Warm-up to `lr`, then a cosine to `min_lr`; `step` counts from 0."""
    if step < warmup:
        return lr * (step + 1) / warmup
    if step >= steps:
        return min_lr
    return min_lr + 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) * (lr - min_lr)


def add_config_arguments(parser):
    parser.add_argument("--config", default="{}", help="fields of Config as a JSON object, or a file that holds one")
    parser.add_argument("--layers", type=int, help="n_layer")
    parser.add_argument("--seed", type=int, default=0)


def config_from(args):
    text = args.config if args.config.lstrip().startswith("{") else open(args.config, encoding="utf-8").read()
    values = json.loads(text)
    if args.layers:
        values["n_layer"] = args.layers
    return Config.of(values)
