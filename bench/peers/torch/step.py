"""Milliseconds of a full training step (forward, backward, clipping, AdamW) at batch 32 x 64, with several settings of
threads, each in a process of its own; the best is the peer's answer to `plumb bench step`. "cpu_ms_best" is the processor
time of all its threads, which a busy machine disturbs less (and which threads that spin while they wait inflate).

    /usr/bin/python3 bench/peers/torch/step.py --json
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# OpenMP threads are ATen's; PyTorch does not set OpenBLAS's (Debian's is the pthread build), so both are in the environment.
# Two pools that spin while they wait take the cores from each other: PASSIVE lets OpenMP's sleep. OpenBLAS 0.3.21 chooses its
# Zen kernels on AMD; the Haswell ones can be faster.
CORES = [{}, {"OPENBLAS_CORETYPE": "Haswell"}]
THREADS = [{"OMP_NUM_THREADS": omp, "OPENBLAS_NUM_THREADS": blas, **wait} for omp, blas, wait in [
    ("1", "1", {}), ("1", "2", {}), ("2", "1", {}), ("2", "2", {}), ("2", "1", {"OMP_WAIT_POLICY": "PASSIVE"}),
    ("2", "2", {"OMP_WAIT_POLICY": "PASSIVE"})]]
SETTINGS = [{**threads, **core} for threads in THREADS for core in CORES]


def measure(args):
    import torch
    from model import Decoder, adamw, clip, config_from

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
    torch.manual_seed(args.seed)
    cfg = config_from(args)
    model, batch = Decoder(cfg), args.batch
    optimiser = adamw(model)
    x, y = (torch.randint(cfg.vocab_size, (batch, cfg.block_size)) for _ in range(2))

    def step():
        optimiser.zero_grad(set_to_none=True)
        _, loss = model(x, y)
        loss.backward()
        clip(model)
        optimiser.step()
        return loss.item()

    for _ in range(3):
        loss = step()
    times, cpu = [], []
    for _ in range(args.steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        loss = step()
        times.append(1e3 * (time.perf_counter() - begin))
        cpu.append(1e3 * (time.process_time() - cpu_begin))
    return {"ms_per_step": min(times), "ms_best": min(times), "ms_median": statistics.median(times), "cpu_ms_best": min(cpu), "loss": loss, "torch": torch.__version__,
            "parallel": [line.strip() for line in torch.__config__.parallel_info().splitlines() if "backend" in line][0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="{}", help="fields of Config as a JSON object, or a file that holds one")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20, help="timed steps a setting")
    parser.add_argument("--rounds", type=int, default=1, help="times to go through all settings; each keeps its best")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help="measure in this process with the environment as it is")
    args = parser.parse_args()
    if args.here:
        print(json.dumps(measure(args)))
        return
    results = [{"environment": setting, "ms_best": float("inf"), "ms_median": float("inf")} for setting in SETTINGS]
    for _ in range(args.rounds):
        for result in results:
            run = subprocess.run([sys.executable, __file__, "--here", *sys.argv[1:]], check=True, capture_output=True,
                                 text=True, env={**os.environ, **result["environment"]})
            answer = json.loads(run.stdout)
            for key in ("ms_best", "ms_median"):
                answer[key] = min(answer[key], result[key])
            result.update(answer)
            if not args.json:
                print(f"{result['ms_best']:8.1f} ms best {result['ms_median']:8.1f} ms median {result['cpu_ms_best']:8.1f} ms of "
                      f"processor  {result['environment']}", flush=True)
    best = min(results, key=lambda r: r["ms_best"])
    if args.json:
        print(json.dumps({"ms_per_step": best["ms_best"], "ms_median": best["ms_median"],
                          "environment": best["environment"], "settings": results}))


if __name__ == "__main__":
    main()
