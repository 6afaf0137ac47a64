"""What tracing costs a PyTorch training loop: two equal models train side by side, one traced, step after step in random order.

    /usr/bin/python3 bench/peers/torch/trace_overhead.py [--every 25] [--probed 20] [--threads 1] [--json]

Every fifth step is probed here, to see many. From the pairs of steps: p, what a probed step costs more, and u, what another one does
(medians). At one probe in `every` steps tracing costs (p + (every - 1) u) / (every x a plain step), printed with a 95 % bootstrap
interval over pairs, of wall time and of processor time (which a busy machine disturbs less). The first step, which also finds the
model's structure, is told apart.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time

import torch

from model import Decoder, adamw, add_config_arguments, clip, config_from

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
import plumb_trace

PERIOD = 5


def overhead(plain, probed, other, every):
    """Percent, from seconds of plain steps and extra seconds of probed and other ones."""
    return 100 * (statistics.median(probed) + (every - 1) * statistics.median(other)) / (every * statistics.median(plain))


def interval(plain, probed, other, every, draws):
    again = sorted(overhead(plain, draws.choices(probed, k=len(probed)), draws.choices(other, k=len(other)), every) for _ in range(2000))
    return again[50], again[1949]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_config_arguments(parser)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--probed", type=int, default=20, help="probed steps to see")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    cfg, arms, order = config_from(args), [], random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        for traced in (False, True):
            torch.manual_seed(args.seed)
            model = Decoder(cfg)
            trace = plumb_trace.attach(model, f"{folder}/trace.jsonl", every=PERIOD) if traced else None
            arms.append((model, adamw(model), trace))
        seconds, first = [[], []], [0, 0]

        def step(arm, x, y):
            model, optimizer, trace = arms[arm]
            begin = time.perf_counter(), time.process_time()
            optimizer.zero_grad(set_to_none=True)
            _, loss = model(x, y)
            loss.backward()
            if trace:
                trace.step(loss, optimizer)
            clip(model)
            optimizer.step()
            return loss.item(), time.perf_counter() - begin[0], time.process_time() - begin[1]

        for i in range(PERIOD * args.probed + 1):
            x, y = (torch.randint(cfg.vocab_size, (args.batch, cfg.block_size)) for _ in range(2))
            losses = {}
            for arm in order.sample([0, 1], 2):
                losses[arm], wall, cpu = step(arm, x, y)
                if i == 0:
                    first[arm] = wall
                else:
                    seconds[arm].append((wall, cpu))
            assert losses[0] == losses[1], "tracing changed the training"
        arms[1][2].close()
    answer = {"every": args.every, "threads": args.threads, "torch": torch.__version__, "first_step_extra_s": first[1] - first[0]}
    for at, name in enumerate(("wall", "cpu")):
        plain = [s[at] for s in seconds[0]]
        extra = [b[at] - a for a, b in zip(plain, seconds[1])]
        probed, other = extra[PERIOD - 1::PERIOD], [e for i, e in enumerate(extra) if i % PERIOD != PERIOD - 1]
        low, high = interval(plain, probed, other, args.every, order)
        answer[name] = {"percent": overhead(plain, probed, other, args.every), "low": low, "high": high,
                        "plain_ms": 1e3 * statistics.median(plain), "probed_ms": 1e3 * statistics.median(probed),
                        "other_ms": 1e3 * statistics.median(other)}
    if args.json:
        print(json.dumps(answer))
        return
    print(f"PyTorch {answer['torch']}, {args.threads} thread(s), {cfg.n_layer} layers, {args.probed} probed pairs of steps")
    for name, what in (("wall", "wall time"), ("cpu", "processor time")):
        a = answer[name]
        print(f"{what}: {a['percent']:+.2f} % ({a['low']:+.2f} to {a['high']:+.2f}) at every {args.every}; a plain step {a['plain_ms']:.0f} ms, a probed "
              f"one {a['probed_ms']:+.0f}, another {a['other_ms']:+.1f}")
    print(f"the first step, which finds the structure: {answer['first_step_extra_s']:.2f} s more")


if __name__ == "__main__":
    main()
