"""Counts parameters by building real modules: an independent answer to `plumb params`.

    /usr/bin/python3 bench/peers/torch/params.py configs.json     a JSON list of Config fields; - reads standard input
    /usr/bin/python3 bench/peers/torch/params.py --chapter        the chapter's models; exit 1 where a count is not the published one
"""
import argparse
import json
import sys

from model import Config, Decoder

CHAPTER = [
    (1745664, {}), (1742464, {"norm": "rms"}),
    (558336, {"n_layer": 4, "d_ff": 128}), (689920, {"n_layer": 4}), (953088, {"n_layer": 4, "d_ff": 512}),
    (697056, {"n_layer": 4, "d_model": 96, "d_ff": 552}), (697536, {"n_layer": 4, "d_model": 112, "d_ff": 392}),
    (953856, {"n_layer": 6}), (3329280, {"n_layer": 24}), (425984, {"n_layer": 2}),
    (1753856, {"block_size": 128}), (1750656, {"norm": "rms", "block_size": 128}),
]


def part_of(name):
    if name.startswith("embed."):
        return "embedding"
    if name.startswith("pos."):
        return "position"
    if name.startswith("head."):
        return "head"
    if "norm." in name:
        return "norm"
    return "attention" if ".attn." in name else "ffn"


def count(config):
    parts = dict.fromkeys(["embedding", "position", "attention", "ffn", "norm", "residual", "head"], 0)
    for name, p in Decoder(config).named_parameters():
        parts[part_of(name)] += p.numel()
    return {"total": sum(parts.values()), "active": sum(parts.values()), "parts": parts}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="?", default="-")
    parser.add_argument("--chapter", action="store_true")
    args = parser.parse_args()
    if args.chapter:
        wrong = 0
        for expected, fields in CHAPTER:
            got = count(Config.of(fields))["total"]
            wrong += got != expected
            print(f"{got:>10,} {'' if got == expected else f'expected {expected:,} '}{json.dumps(fields)}")
        sys.exit(1 if wrong else 0)
    configs = json.load(sys.stdin if args.configs == "-" else open(args.configs, encoding="utf-8"))
    print(json.dumps([count(Config.of(c)) for c in configs], indent=1))


if __name__ == "__main__":
    main()
