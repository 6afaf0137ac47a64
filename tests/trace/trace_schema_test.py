"""A run's trace against docs/trace.schema.json by Debian's jsonschema, its checksums by zlib, its names by docs/trace.md."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

from trace_rows import METRICS, SCHEMA, check_file, errors_of, lines_of, rows_of

PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))
SMALL = ["model.n_layer=2", "model.d_model=32", "model.d_ff=32", "model.block_size=16", "train.batch_size=8", "train.steps=6",
         "train.warmup=2", "train.eval_every=3", "probe.every=2", "data.corpus=LICENSE"]


def train(folder, *sets):
    flags = [word for pair in (*SMALL, *sets) for word in ("--set", pair)]
    return subprocess.run([PLUMB, "train", *flags, "--out", f"{folder}/run", "--quiet"], cwd=ROOT, capture_output=True,
                          text=True, timeout=120)


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        run = train(cls.folder.name)
        if run.returncode != 0:
            raise AssertionError(run.stderr)
        cls.path = f"{cls.folder.name}/run/trace.jsonl"
        cls.rows = rows_of(lines_of(cls.path))

    def test_every_row_is_valid_with_zlibs_checksum_and_documented_names(self):
        check_file(self, self.path)
        self.assertEqual({row["row"] for row in self.rows[1:]}, {"fact", "step"})

    def test_losses_at_every_step_and_probes_at_every_second(self):
        steps = [row for row in self.rows if row["row"] == "step"]
        self.assertEqual([row["step"] for row in steps if "loss" in row], list(range(6)))
        self.assertEqual([row["step"] for row in steps if "layers" in row], [0, 2, 4])
        self.assertEqual([row["step"] for row in steps if "adjacent_kl" in row], [0, 2, 4])
        for name in ("act_std", "grad_std", "attn_entropy", "attn_max_logit", "norm_in_std", "weight_rms", "update_ratio"):
            self.assertEqual([row["step"] for row in steps if name in row.get("layers", {})], [0, 2, 4], name)
        self.assertEqual([row["step"] for row in steps if "val_loss" in row], [3, 6])
        for row in steps:
            for name, values in row.get("layers", {}).items():
                self.assertEqual(len(values), 2, name)

    def test_a_run_that_breaks_writes_no_null(self):
        with tempfile.TemporaryDirectory() as folder:
            run = train(folder, "train.lr=1e30", "train.warmup=0")
            self.assertEqual(run.returncode, 4, run.stderr)
            rows = rows_of(lines_of(f"{folder}/run/trace.jsonl"))
        last = [row for row in rows if row["row"] == "step"][-1]
        self.assertTrue({last["loss"], last["grad_norm"]} & {"NaN", "Infinity"}, last)
        self.assertEqual([error for error in errors_of(rows) if error], [])


class Schema(unittest.TestCase):
    def test_has_the_metrics_of_the_table_and_no_others(self):
        step = SCHEMA["$defs"]["step"]["properties"]
        described = {name: ("number", text) for name, text in step.items() if name not in ("row", "crc", "step", "layers")}
        described.update({name: ("per layer", text) for name, text in step["layers"]["properties"].items()})
        self.assertGreater(len(METRICS), 10)
        self.assertEqual(set(described), {name for name, *_ in METRICS})
        for name, kind, unit, meaning in METRICS:
            with self.subTest(name=name):
                self.assertEqual(described[name][0], kind)
                self.assertEqual(described[name][1]["description"], meaning if unit == "-" else f"{meaning} ({unit})")
                self.assertEqual(described[name][1]["$ref"], "#/$defs/number" if kind == "number" else "#/$defs/per_layer")

    # Each bad row differs from a good one by what its name says, so that nothing else can be what is refused.
    def test_broken_rows_are_refused(self):
        header = {"row": "header", "schema": "plumb-trace/1", "producer": "x 1", "config": None, "crc": "00ff00ff"}
        fact = {"row": "fact", "name": "tied", "value": None}
        step = {"row": "step", "step": 3, "loss": 1.5, "new": 2, "layers": {"act_std": [1, "NaN"], "new": ["-Infinity"]},
                "crc": "00ff00ff"}
        good = [header, fact, step, {**step, "loss": "Infinity"}, {**step, "new": {"a": [1]}}, {"row": "picture", "data": None}]
        self.assertEqual(errors_of(good), [None] * len(good))

        def without(row, key):
            return {k: v for k, v in row.items() if k != key}

        bad = {
            "no row": without(step, "row"),
            "row is a number": {**step, "row": 1},
            "no object": [step],
            "no schema": without(header, "schema"),
            "another schema": {**header, "schema": "plumb-trace/2"},
            "no producer": without(header, "producer"),
            "config is text": {**header, "config": "n_layer = 12"},
            "no name": without(fact, "name"),
            "no value": without(fact, "value"),
            "no step": without(step, "step"),
            "half a step": {**step, "step": 2.5},
            "step before the first": {**step, "step": -1},
            "NaN as null": {**step, "loss": None},
            "NaN of another metric as null": {**step, "new": None},
            "number as text": {**step, "loss": "1.5"},
            "another spelling of NaN": {**step, "loss": "nan"},
            "text for a metric that is not known": {**step, "new": "high"},
            "an array for a scalar": {**step, "loss": [1.5]},
            "layers is an array": {**step, "layers": [1, 2]},
            "a layer metric is a number": {**step, "layers": {"act_std": 1}},
            "a layer metric that is not known is a number": {**step, "layers": {"new": 1}},
            "NaN of a layer as null": {**step, "layers": {"act_std": [1, None]}},
            "crc of 7 digits": {**step, "crc": "0ff00ff"},
            "crc of 9 digits": {**step, "crc": "000ff00ff"},
            "crc in capitals": {**step, "crc": "00FF00FF"},
            "crc is a number": {**step, "crc": 12345678},
        }
        for (name, row), error in zip(bad.items(), errors_of(list(bad.values())), strict=True):
            self.assertIsNotNone(error, f"{name}: {row}")


if __name__ == "__main__":
    unittest.main()
