"""How activations and gradients spread over depth at initialisation, for several depths: population std of the stream after
block 1 ("first") and after block L ("last"), and of the loss's gradient with respect to it. Random tokens and targets.

    /usr/bin/python3 bench/peers/torch/matched.py [--json]
"""
import argparse
import json
import statistics

import torch

from model import Config, Decoder

ARMS = [("pre, unscaled", {"residual_scale": False}), ("pre, 1/sqrt(2L)", {"residual_scale": True}),
        ("post, unscaled", {"placement": "post", "residual_scale": False}),
        ("post, 1/sqrt(2L)", {"placement": "post", "residual_scale": True})]


def profile(fields, layers, seed, batch):
    torch.manual_seed(seed)
    cfg = Config.of({**fields, "n_layer": layers})
    model = Decoder(cfg)
    x, y = (torch.randint(cfg.vocab_size, (batch, cfg.block_size)) for _ in range(2))
    stream = []
    model(x, y, keep=stream)[1].backward()
    std = lambda t: t.detach().std(unbiased=False).item()
    return {"act_embedded": std(stream[0]), "act_first": std(stream[1]), "act_last": std(stream[-1]),
            "grad_first": std(stream[1].grad), "grad_last": std(stream[-1].grad)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", type=int, nargs="+", default=[6, 12, 24, 48])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    if not args.json:
        print("| arm | L | act first | act last | last/first | last/embedded | grad first | grad last | first/last |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, fields in ARMS:
        for layers in args.depths:
            runs = [profile(fields, layers, seed, args.batch) for seed in range(args.seeds)]
            row = {key: statistics.fmean(r[key] for r in runs) for key in runs[0]}
            row.update(arm=name, n_layer=layers, act_last_over_first=row["act_last"] / row["act_first"],
                       act_last_over_embedded=row["act_last"] / row["act_embedded"],
                       grad_first_over_last=row["grad_first"] / row["grad_last"])
            rows.append(row)
            if not args.json:
                print(f"| {name} | {layers} | {row['act_first']:.4f} | {row['act_last']:.4f} | {row['act_last_over_first']:.2f} | "
                      f"{row['act_last_over_embedded']:.2f} | {row['grad_first']:.3e} | {row['grad_last']:.3e} | "
                      f"{row['grad_first_over_last']:.2f} |", flush=True)
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
