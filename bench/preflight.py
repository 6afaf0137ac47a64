#!/usr/bin/env python3
"""Does what `plumb doctor CONFIG` says before training agree with what 600 steps of training then do?

  bench/preflight.py --seed S [--n 48] [--plumb build/ci/plumb] [--jobs 2] [--out FILE.json]

Configs are drawn by one rule: n_layer of 2, 4, 6, 8, 12; lr log-uniform from 1e-4 to 1e-1; placement of pre, post, sandwich,
post_branch; init of gpt2, normal 0.02, normal 0.1, lecun, xavier; warm-up of 0, 30, 100 steps; d_model 64, block 64, batch 8, the
embedded corpus. Trouble, in training: it stopped on a value that is not finite, or the mean loss of the last 50 steps is not below
the unigram's by 0.05, or ends 0.5 above its best. Trouble, before: the doctor calls it sick. Beside it, the rule
"Post-LN and lr > 1e-3".
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import subprocess
import tempfile

STEPS, MARGIN, FAR = 600, 0.05, 0.5


def drawn(rng):
    init = rng.choice([["init.scheme=gpt2"], ["init.scheme=normal", "init.std=0.02"], ["init.scheme=normal", "init.std=0.1"],
                       ["init.scheme=lecun"], ["init.scheme=xavier"]])
    return [f"model.n_layer={rng.choice([2, 4, 6, 8, 12])}", "model.d_model=64", "model.d_ff=128", "model.block_size=64",
            f"model.placement={rng.choice(['pre', 'post', 'sandwich', 'post_branch'])}", *init,
            f"train.lr={10 ** rng.uniform(-4, -1):.3g}", f"train.warmup={rng.choice([0, 30, 100])}", "train.batch_size=8",
            f"train.steps={STEPS}", "train.threads=1", f"train.seed={rng.randrange(1000)}"]


def smoothed(losses, window=30):
    return [sum(losses[i:i + window]) / window for i in range(len(losses) - window + 1)]


def train(plumb, keys):
    with tempfile.TemporaryDirectory() as folder:
        sets = [a for k in keys for a in ("--set", k)]
        done = subprocess.run([plumb, "train", "--json", "--quiet", "--no-probes", "--out", f"{folder}/run", *sets,
                               "--set", "train.eval_every=0", "--set", "train.checkpoint_every=0"], capture_output=True, text=True)
        answer = json.loads(done.stdout)
        losses = []
        for line in (pathlib.Path(folder) / "run" / "trace.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["row"] == "step" and isinstance(row.get("loss"), (int, float)):
                losses.append(row["loss"])
    last = answer["train_loss"]
    unigram = answer["baselines"]["unigram"]
    if answer["status"] != "done":
        return {"trouble": True, "why": answer["status"], "loss": None}
    why = "stuck" if last > unigram - MARGIN else "diverged" if last > min(smoothed(losses)) + FAR else ""
    return {"trouble": bool(why), "why": why, "loss": last, "unigram": unigram}


def doctor(plumb, keys):
    sets = [a for k in keys for a in ("--set", k)]
    done = subprocess.run([plumb, "doctor", "--json", "--quiet", *sets], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    return {"trouble": answer["verdict"] == "sick", "causes": [f["cause"] for f in answer["findings"]]}


def wilson(k, n, z=1.959963984540054):
    p = k / n
    mid, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (mid - half) / (1 + z * z / n), (mid + half) / (1 + z * z / n)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", required=True, help="another one draws other configs")
    parser.add_argument("--n", type=int, default=48)
    parser.add_argument("--plumb", default="build/ci/plumb")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", help="a JSON file with all of it")
    a = parser.parse_args()
    rng = random.Random(f"preflight/{a.seed}")
    cases = [drawn(rng) for _ in range(a.n)]

    def one(keys):
        return {"set": keys, "doctor": doctor(a.plumb, keys), "training": train(a.plumb, keys)}

    rows = []
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for row in pool.map(one, cases):
            rows.append(row)
            value = dict(k.split("=") for k in row["set"])
            row["rule"] = value["model.placement"] == "post" and float(value["train.lr"]) > 1e-3
            row["agrees"] = row["doctor"]["trouble"] == row["training"]["trouble"]
            print(f"{len(rows):3}/{a.n} {'ok   ' if row['agrees'] else 'WRONG'} training {row['training']['why'] or 'fine':10} "
                  f"{row['training']['loss'] or math.nan:7.3f}  doctor {','.join(row['doctor']['causes']) or 'healthy':28} "
                  f"{value['model.placement']:11} L {value['model.n_layer']:>2} lr {value['train.lr']:8} warm {value['train.warmup']:3} "
                  f"{value['init.scheme']} {value.get('init.std', '')}", flush=True)
    right = sum(r["agrees"] for r in rows)
    rule = sum(r["rule"] == r["training"]["trouble"] for r in rows)
    low, high = wilson(right, a.n)
    print(f"\nseed {a.seed}: agreement {right} of {a.n} ({100 * right / a.n:.1f} %; 95 %: {100 * low:.1f} to {100 * high:.1f}); the rule "
          f"\"Post-LN and lr > 1e-3\": {rule} of {a.n}; trouble in training: {sum(r['training']['trouble'] for r in rows)}")
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps({"seed": a.seed, "agreement": right, "rule": rule, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
