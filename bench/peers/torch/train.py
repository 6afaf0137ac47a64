"""Trains the chapter's decoder on a UTF-8 text file: the same tokenizer rule, split, schedule and optimiser as plumb, other
random numbers.

    /usr/bin/python3 bench/peers/torch/train.py corpus.txt --steps 1200 --lr 3e-3 [--threads 2] [--json]
"""
import argparse
import collections
import json
import sys
import time

import torch

from model import Decoder, adamw, add_config_arguments, clip, config_from, lr_at


def tokenize(text, most):
    """Ids of the characters: 0 is unknown, then the most - 1 most frequent, ties by code point."""
    counts = collections.Counter(text)
    order = sorted(counts, key=lambda c: (-counts[c], ord(c)))[:most - 1]
    ids = {c: i + 1 for i, c in enumerate(order)}
    return torch.tensor([ids.get(c, 0) for c in text]), len(order) + 1


def windows(ids, block, batch, generator):
    at = torch.randint(len(ids) - block, (batch,), generator=generator)
    rows = at[:, None] + torch.arange(block)
    return ids[rows], ids[rows + 1]


@torch.no_grad()
def validation_loss(model, ids, batch=32):
    """Mean over every target of the split, in windows that follow each other; the last is shorter."""
    block, total = model.cfg.block_size, 0.0
    whole = (len(ids) - 1) // block
    x, y = ids[:whole * block].view(-1, block), ids[1:whole * block + 1].view(-1, block)
    for i in range(0, whole, batch):
        total += model(x[i:i + batch], y[i:i + batch])[1].item() * x[i:i + batch].numel()
    rest = ids[whole * block:]
    if len(rest) > 1:
        total += model(rest[None, :-1], rest[None, 1:])[1].item() * (len(rest) - 1)
    return total / (len(ids) - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    add_config_arguments(parser)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--eval-every", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)

    cfg = config_from(args)
    ids, cfg.vocab_size = tokenize(open(args.text, encoding="utf-8", newline="").read(), cfg.vocab_size)
    cut = int(len(ids) * 0.9)
    train, val = ids[:cut], ids[cut:]
    model = Decoder(cfg)
    optimiser = adamw(model, args.lr)
    generator = torch.Generator().manual_seed(args.seed)
    losses, begin = [], time.perf_counter()
    for step in range(args.steps):
        for group in optimiser.param_groups:
            group["lr"] = lr_at(step, args.lr, args.warmup, args.steps)
        _, loss = model(*windows(train, cfg.block_size, args.batch, generator))
        losses.append(loss.item())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = clip(model)
        optimiser.step()
        if (step + 1) % args.eval_every == 0 or step == 0:
            print(f"step {step + 1:>5}  loss {losses[-1]:.4f}  gradient norm {norm:.3f}", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - begin
    tail = losses[-50:]
    answer = {"steps": args.steps, "vocab_size": cfg.vocab_size, "tokens": len(ids), "initial_loss": losses[0],
              "train_loss": sum(tail) / len(tail), "val_loss": validation_loss(model, val),
              "tokens_per_s": args.steps * args.batch * cfg.block_size / seconds}
    if args.json:
        print(json.dumps(answer))
    else:
        print("  ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in answer.items()))


if __name__ == "__main__":
    main()
