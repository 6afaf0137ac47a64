#!/usr/bin/env python3
"""Trains one small model with every entry of every family in fp32 and in narrow formats, and prints what breaks as Markdown tables.

    bench/narrow_formats.py                                every entry: some 360 runs of a few seconds each
    bench/narrow_formats.py --only norm --only ffn.moe     a family, an entry; "cause" is the second table

It calls the program that $PLUMB_CLI names (default: build/release/plumb), which also says what entries there are. Each run is written to
a JSON Lines file as soon as it has ended; after Ctrl-C the same command goes on from there. Runs are known by their settings and the
sha256 of the program's file: those of another build stay in the file and are made again. Progress goes to standard error.
"""
import argparse
import array
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build/release/plumb"))
MODEL = ["model.n_layer=4", "model.d_model=32", "model.d_ff=64", "model.block_size=32", "data.vocab_size=256", "train.batch_size=8",
         "train.eval_every=0", "train.checkpoint_every=0", "train.threads=1", "probe.every=20"]
LEARNS = 0.02  # what a loss must be below the unigram baseline, to be said to have learned
EPS = "train.adam_eps=1e-4"
COLUMNS = {"fp32": [], "fp32, eps": [EPS], "bf16_pure": ["train.precision=bf16_pure"], "fp16_pure": ["train.precision=fp16_pure"],
           "fp16_pure, eps": ["train.precision=fp16_pure", EPS]}
# What an entry needs beside its name: an lr of its own (the best of 0.1, 0.3, 1 and 3 in fp32), or what it implies.
ALSO = {"train.optimizer=sgd": ["train.lr=0.3"], "init.scheme=t_fixup": ["train.warmup=0"]}
# Settings that are numbers, and one value of each that changes what is computed; those that are names or flags the program lists.
NUMBERS = ["model.n_kv_head=1", "model.attention.softcap=5", "model.attention.window=8"]
STORAGE, GROWN = "train.norm_reduce=storage", ["fault.inject=residual_growth", "fault.strength=16"]
CAUSES = {"the defaults": [], **{f"adam_eps {eps}": [f"train.adam_eps={eps}"] for eps in ("1e-7", "1e-6", "1e-5", "1e-4", "1e-3")},
          "beta1 0": ["train.beta1=0"],
          "loss times 8, clipped at 8": ["train.batch_size=1", "train.accumulate=8", "train.grad_clip=8", "fault.inject=loss_normaliser"],
          "A: adam_eps 1e-4, norm_reduce storage": [EPS, STORAGE],
          "A, norm_eps 1e-8": [EPS, STORAGE, "model.norm_eps=1e-8"], "A, norm_eps 1e-12": [EPS, STORAGE, "model.norm_eps=1e-12"],
          "A, writes times 145": [EPS, STORAGE, *GROWN], "adam_eps 1e-4, writes times 145": [EPS, *GROWN]}


def give_up(sentence, status=2):
    print(f"narrow_formats.py: {sentence}", file=sys.stderr)
    sys.exit(status)


def asked(*args):
    """What plumb prints, when it is plumb that is there."""
    try:
        return subprocess.run([PLUMB, *args], capture_output=True, text=True, check=True).stdout
    except OSError as error:
        why = error.strerror
    except (subprocess.CalledProcessError, UnicodeDecodeError):
        why = "it does not answer as plumb does"
    give_up(f"{PLUMB} cannot be used ({why}); ./run builds it, and PLUMB_CLI may name another binary")


def answered(*args):
    text = asked(*args, "--json")
    try:
        return json.loads(text)
    except ValueError:
        give_up(f"{PLUMB} cannot be used (it does not answer as plumb does); ./run builds it, and PLUMB_CLI may name another binary")


def sum_of_binary():
    """A version stays between releases, whatever is built."""
    try:
        return hashlib.sha256(pathlib.Path(shutil.which(PLUMB) or PLUMB).read_bytes()).hexdigest()
    except OSError as error:
        give_up(f"{PLUMB} cannot be read ({error.strerror})")


def attention_settings():
    """section.key=value of every setting of [model.attention] that is a name or a flag, as `plumb config` prints them."""
    section = asked("config").partition("[model.attention]")[2].partition("\n[")[0]
    section = re.sub(r"\n +# +", " ", section)  # a comment of several lines
    for key, default, choices in re.findall(r"^# (\w+) = *(\S*) +#.*?(?:\((\w+(?:, \w+)*)\))?$", section, re.MULTILINE):
        flip = {"true": ["false"], "false": ["true"]}.get(default, [])
        if key != "kind":
            yield from (f"model.attention.{key}={value}" for value in (choices.split(", ") if choices else flip))


def changes(defaults, setting):
    key, _, value = setting.partition("=")
    for part in key.split("."):
        defaults = defaults[part]
    return json.dumps(defaults).strip('"') != value


def rows_wanted(defaults):
    """[(family, name, settings)] of both tables."""
    rows = []
    for entry in answered("explain")["entries"]:
        setting = f"{entry['key']}={entry['name']}"
        rows.append((entry["family"], entry["name"], [setting, *ALSO.get(setting, [])]))
        if entry["family"] == "norm" and entry["name"] in ("layer", "rms"):
            rows.append(("norm", f"{entry['name']}, norm_reduce storage", [setting, STORAGE]))
        if entry["family"] == "attention":
            rows += [("attention", s.rpartition(".")[2].replace("=", " "), [s]) for s in [*attention_settings(), *NUMBERS] if changes(defaults, s)]
    return rows + [("cause", name, settings) for name, settings in CAUSES.items()]


def look_at_checkpoint(folder):
    """Of the last checkpoint: the share of Adam's second moments that are 0 where the first is not, and the largest parameter."""
    newest = max(folder.glob("checkpoint-*.safetensors"), key=lambda path: int(path.stem.rpartition("-")[2]), default=None)
    if newest is None:
        return {}
    data = newest.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    at = {name: start + t["data_offsets"][0] for name, t in json.loads(data[8:start]).items() if t.get("dtype") == "F32"}
    ends = {name: start + t["data_offsets"][1] for name, t in json.loads(data[8:start]).items() if name in at}
    tensor = lambda name: array.array("f", data[at[name]:ends[name]])
    lost = moments = 0
    for name in at:
        second = "optim.v." + name[8:]
        if name.startswith("optim.m.") and second in at:
            pairs = list(zip(tensor(name), tensor(second)))
            moments += len(pairs)
            lost += sum(m != 0 and v == 0 for m, v in pairs)
    largest = max((max(map(abs, tensor(name))), name) for name in at if not name.startswith(("optim.", "state.")) and at[name] < ends[name])
    return {"moments_lost": lost / moments if moments else None, "largest": largest[0], "largest_name": largest[1]}


def look_at_trace(folder):
    """The first tensor that was named as not finite, and the largest standard deviation of the stream that was measured."""
    named, std = None, None
    for line in (folder / "trace.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("name") == "non_finite":
            found = re.search(r"first tensor that is not finite is ([^(;]*[^ (;])", row["value"])
            named = found[1] if found else row["value"].rpartition("; ")[2]
        measured = [x for x in row.get("layers", {}).get("act_std", []) if isinstance(x, float) and math.isfinite(x)]
        std = max([*measured, *([std] if std is not None else [])], default=None)
    return {"named": named, "act_std": std}


def train(settings):
    with tempfile.TemporaryDirectory(prefix="narrow_formats_") as folder:
        run = pathlib.Path(folder) / "run"
        sets = [part for setting in settings for part in ("--set", setting)]
        done = subprocess.run([PLUMB, "train", "--json", "--quiet", "--out", str(run), *sets], capture_output=True, text=True)
        if done.returncode == 2:
            return {"status": "refused", "why": done.stderr.strip()}
        if done.returncode == 130:
            raise KeyboardInterrupt
        if done.returncode not in (0, 4):
            give_up(f"plumb ended with status {done.returncode} on {' '.join(settings)}: {done.stderr.strip()}", 1)
        answer = json.loads(done.stdout)
        return {"status": answer["status"], "steps": answer["steps"], "val_loss": answer["val_loss"], "train_loss": answer["train_loss"],
                "unigram": answer["baselines"]["unigram"], **look_at_trace(run), **look_at_checkpoint(run)}


class Runs:
    """The runs that were made, in memory and in the file."""

    def __init__(self, path, base):
        self.path, self.base, self.found = path, base, {}
        self.version, self.defaults = asked("--version").strip(), answered("config")["config"]
        self.binary = sum_of_binary()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                file.seek(0)
                whole, end, torn = file.read().rpartition(b"\n")
                if torn:
                    file.truncate(len(whole + end))
            for row in map(json.loads, whole.splitlines()):
                self.found[row.get("binary"), *row["settings"]] = row
        except OSError as error:
            give_up(f"{path} cannot be written ({error.strerror}); give another with --out")
        except (ValueError, KeyError, TypeError, AttributeError):
            give_up(f"{path} is not a file of this script's; give another with --out")

    def key(self, settings):
        return (self.binary, *settings)

    def settings(self, more):
        """In full, but for what says no more than the default: an entry that is the default is one run in every family."""
        return self.base + [s for s in more if changes(self.defaults, s)]

    def get(self, more):
        return self.found.get(self.key(self.settings(more)))

    def make(self, family, name, column, more):
        settings = self.settings(more)
        row = {"family": family, "name": name, "column": column, "plumb": self.version, "binary": self.binary, "settings": settings,
               **train(settings)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.found[self.key(settings)] = row
        if row["status"] == "refused":
            print(row["why"], file=sys.stderr)


def cell(run):
    if run is None:
        return "…"
    if run["status"] == "refused":
        return "refused"
    if run["status"] == "non_finite" or run["val_loss"] is None:
        return f"nf @ step {run['steps']}: {run['named']}"
    loss = f"{run['val_loss']:.2f}"
    return loss if run["val_loss"] < run["unigram"] - LEARNS else f"*{loss}*"


def seen(run):
    """Of a run's last checkpoint and its trace, for the second table."""
    if run is None or run["status"] == "refused":
        return "… | … | …"
    number = lambda value, form: "–" if value is None else format(value, form)
    return f"{number(run.get('moments_lost'), '.0%')} | {number(run.get('largest'), '.3g')} | {number(run.get('act_std'), '.3g')}"


def columns_of(family, settings):
    """An adam_eps where Adam's is nobody's is the run without it."""
    names = [name for name in COLUMNS if family != "cause" or not name.endswith("eps")]
    return [(name, [*settings, *(s for s in COLUMNS[name] if s != EPS or "train.optimizer=sgd" not in settings)]) for name in names]


def tables(rows, runs):
    entries = [row for row in rows if row[0] != "cause"]
    causes = [row for row in rows if row[0] == "cause"]
    if entries:
        yield f"| family | entry | {' | '.join(COLUMNS)} |\n| --- | --- |{' --- |' * len(COLUMNS)}"
    for family, name, settings in entries:
        yield f"| {family} | {name} | {' | '.join(cell(runs.get(more)) for _, more in columns_of(family, settings))} |"
    if causes:
        yield "\n| settings | fp32 | bf16_pure | fp16_pure | in fp16: v lost | largest parameter | std of the stream |\n|" + " --- |" * 7
    for family, name, settings in causes:
        made = [runs.get(more) for _, more in columns_of(family, settings)]
        yield f"| {name} | {' | '.join(map(cell, made))} | {seen(made[2])} |"


def make_all(todo, runs):
    start = time.monotonic()
    for i, (family, name, column, more) in enumerate(todo):
        left = f", {(time.monotonic() - start) / i * (len(todo) - i) / 60:.1f} minutes left" if i else ""
        print(f"[{i + 1}/{len(todo)}{left}] {family} {name}: {column}", file=sys.stderr, flush=True)
        runs.make(family, name, column, more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="FAMILY[.ENTRY]", help="may be given many times")
    parser.add_argument("--steps", type=int, default=300, help="updates a run; a tenth of them warms up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/narrow_formats.jsonl", help="the JSON Lines file")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background has it ignored
    if args.steps < 1:
        give_up("--steps must be at least 1")
    base = [*MODEL, f"train.steps={args.steps}", f"train.warmup={max(1, args.steps // 10)}", f"train.seed={args.seed}"]
    runs = Runs(args.out, base)
    rows = rows_wanted(runs.defaults)
    for name in args.only or []:
        if not any(name in (family, f"{family}.{entry}") for family, entry, _ in rows):
            give_up(f"--only {name}: no family or entry of that name; families are {', '.join(dict.fromkeys(row[0] for row in rows))}")
    rows = [row for row in rows if not args.only or {row[0], f"{row[0]}.{row[1]}"} & set(args.only)]
    todo = {}
    for family, name, settings in rows:
        for column, more in columns_of(family, settings):
            if runs.get(more) is None:
                todo.setdefault(runs.key(runs.settings(more)), (family, name, column, more))
    status = 0
    try:
        make_all(list(todo.values()), runs)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        status = 130
    unigram = next((run["unigram"] for key, run in runs.found.items() if key[0] == runs.binary and run.get("unigram")), None)
    print(f"Validation loss after {args.steps} updates, seed {args.seed}; the unigram baseline is {unigram and format(unigram, '.3f')}. "
          f"In italics: not {LEARNS} below it. nf: not finite, and the tensor that was named first. eps: {EPS}.\n")
    print("\n".join(tables(rows, runs)))
    sys.exit(status)


if __name__ == "__main__":
    main()
