"""What tracing costs a PyTorch training loop: two equal models train side by side, one traced, step after step in random order.

    /usr/bin/python3 bench/peers/torch/trace_overhead.py [--every 25] [--periods 8] [--threads 1] [--json]

A period is `every` steps, one of them probed; its overhead is the traced steps' time over the plain ones' minus 1. Printed: the mean over
periods with a 95 % t interval, of wall time and of processor time (which a busy machine disturbs less), and the first step apart, which
also finds the model's structure.
"""
import argparse
import json
import math
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

# Two-sided 95 % of Student's t by degrees of freedom; above, the normal's.
T95 = dict(enumerate([12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13], 1))


def interval(values):
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, T95.get(len(values) - 1, 1.96) * statistics.stdev(values) / math.sqrt(len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_config_arguments(parser)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--periods", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    cfg, arms, order = config_from(args), [], random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        for traced in (False, True):
            torch.manual_seed(args.seed)
            model = Decoder(cfg)
            trace = plumb_trace.attach(model, f"{folder}/trace.jsonl", every=args.every) if traced else None
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

        for i in range(args.every * args.periods + 1):
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
    answer = {"every": args.every, "periods": args.periods, "threads": args.threads, "torch": torch.__version__,
              "ms_per_step": 1e3 * statistics.fmean(w for w, _ in seconds[0]), "first_step_extra_s": first[1] - first[0]}
    for at, name in enumerate(("wall", "cpu")):
        sums = [[sum(s[at] for s in arm[p:p + args.every]) for p in range(0, len(arm), args.every)] for arm in seconds]
        mean, half = interval([100 * (b / a - 1) for a, b in zip(*sums)])
        answer[f"{name}_overhead_percent"], answer[f"{name}_half_interval"] = mean, half
    if args.json:
        print(json.dumps(answer))
        return
    print(f"PyTorch {answer['torch']}, {args.threads} threads, {cfg.n_layer} layers: {answer['ms_per_step']:.0f} ms a plain step\n"
          f"traced every {args.every} steps, {args.periods} periods: {answer['wall_overhead_percent']:+.2f} ± {answer['wall_half_interval']:.2f} % "
          f"of wall time, {answer['cpu_overhead_percent']:+.2f} ± {answer['cpu_half_interval']:.2f} % of processor time (95 %)\n"
          f"the first step, which finds the structure: {answer['first_step_extra_s']:.2f} s more")


if __name__ == "__main__":
    main()
