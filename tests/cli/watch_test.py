"""What the doctor says while a run goes on: as it arises, once for each cause, and nothing of a healthy run."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import SMALL, Folder, plumb  # noqa: E402

LOUD = ["--set", "init.std=2"]  # the loss starts far above ln V
FEW = ["--set", "train.eval_every=0", "--set", "probe.every=10"]


class Watch(Folder):
    def said(self, *args, name="run"):
        out = self.folder / name
        run = plumb("train", *SMALL, *FEW, *args, "--out", str(out))
        self.assertEqual(run.returncode, 0, run.stderr)
        return [line for line in run.stderr.splitlines() if "doctor, step" in line], out

    def test_a_finding_is_said_as_it_arises_and_once(self):
        lines, out = self.said(*LOUD)
        loud = [line for line in lines if "init_too_large" in line]
        self.assertEqual(len(loud), 1, lines)
        # Looked at from step 25 on, and said when the next look has it too.
        self.assertTrue(loud[0].startswith("doctor, step 35: init_too_large: The loss starts at "), loud)
        self.assertTrue(loud[0].endswith(f"`plumb doctor {out}` looks closer"), loud)

    def test_a_healthy_run_is_left_in_peace(self):
        self.assertEqual(self.said("--set", "train.steps=330", "--set", "train.batch_size=4")[0], [])

    def test_quiet_is_quiet(self):
        run = plumb("train", *SMALL, *LOUD, "--quiet", "--out", str(self.folder / "run"))
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_without_probes_the_losses_are_read(self):
        self.assertTrue(any("init_too_large" in line for line in self.said(*LOUD, "--no-probes")[0]))

    def test_of_several_runs_each_has_its_own(self):
        for name, std in (("calm", 0.02), ("loud", 2)):
            (self.folder / f"{name}.toml").write_text(f"[init]\nstd = {std}\n")
        lines, _ = self.said(str(self.folder / "calm.toml"), str(self.folder / "loud.toml"), name="both")
        self.assertEqual({line.split(":")[0] for line in lines}, {"loud"}, lines)

    def test_a_run_that_goes_on_remembers_how_it_began(self):
        # Its first loss is in the trace alone.
        out = self.folder / "run"
        plumb("train", *SMALL, *LOUD, *FEW, "--set", "train.checkpoint_every=10", "--set", "train.keep_checkpoints=9",
              "--out", str(out))
        for step in (30, 40, 50, 60):
            (out / f"checkpoint-{step}.safetensors").unlink()
        resumed = plumb("resume", str(out))
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("init_too_large", [line for line in resumed.stderr.splitlines() if "doctor, step" in line][0])


if __name__ == "__main__":
    unittest.main()
