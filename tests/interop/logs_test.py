"""Logs of other trainers through `plumb compare`: what is read, and what is said of the rest. What is refused is in bad_input_test.py."""

import base64
import json
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from rig import Folder, plumb  # noqa: E402

# Written by tensorboardX 2.6.5: train/loss 7.0625, 6.5, nan and lr 1e-3, 2e-3, 3e-3 at steps 0, 10, 20, and a histogram.
TENSORBOARDX = base64.b64decode("""
GAAAAAAAAACjf0siCZ3/VcBLw9pBGg1icmFpbi5FdmVudDoycF9Ueh4AAAAAAAAA2dwSMgkYJ1bAS8PaQSoTChEKCnRyYWluL2xvc3MVAADiQGSwyNIWAAAA
AAAAAE9hvigJ8HhWwEvD2kEqCwoJCgJschVvEoM6BC2cTCAAAAAAAAAAKe2pUAnueVbAS8PaQRAKKhMKEQoKdHJhaW4vbG9zcxUAANBAQn4aphgAAAAAAAAA
o39LIgmmelbAS8PaQRAKKgsKCQoCbHIVbxIDO6hnS1EgAAAAAAAAACntqVAJ0n9WwEvD2kEQFCoTChEKCnRyYWluL2xvc3MVAADAf8gFJrYYAAAAAAAAAKN/
SyIJuoBWwEvD2kEQFCoLCgkKAmxyFaabRDuMO8aWbAAAAAAAAAD12rDXCaKZVsBLw9pBEBQqXwpdCgFoKlgRAAAAAAAACEAZAAAAAAAAEEAhAAAAAAAAGEAp
AAAAAAAALEAyGAAAAAAAAAAAAAAAAAAA+D8AAAAAAAAIQDoYAAAAAAAAAAAAAAAAAAAAQAAAAAAAAABAyJt5BQ==""")
# Written by tensorboard 2.21.0: eval/loss 2.5 and -1.25 at steps 1 and 2 (float_val), loss 3.5 at 2 (tensor_content), x 0.5 at
# step 3 (double_val).
TENSORBOARD = base64.b64decode("""
SAAAAAAAAAD+kkidCQZVcsBLw9pBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2ZpbGVfd3JpdGVyVl5ocCQA
AAAAAAAAQiuATQkAAAAAAADwPxABKhcKFQoJZXZhbC9sb3NzQggIASoEAAAgQF+8s40kAAAAAAAAAEIrgE0JAAAAAAAA8D8QAioXChUKCWV2YWwvbG9zc0II
CAEqBAAAoL/1e8VCHwAAAAAAAABRS0QYCQAAAAAAAPA/EAIqEgoQCgRsb3NzQggIASIEAABgQGn+WBggAAAAAAAAACntqVAJAAAAAAAA8D8QAyoTChEKAXhC
DAgCMggAAAAAAADgP7TEZrc=""")
CSV = "step,loss,lr\n0,5.5,0.1\n10,4.5,0.2\n"
# The record of step 20's loss, NaN, and all after it.
NAN_RECORD = TENSORBOARDX.index(b"\x00\x00\xc0\x7f") - 31


class Logs(Folder):
    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def read(self, name, content):
        """(last values, what was said) of a log."""
        path = self.write(name, content)
        other = self.write("other.csv", CSV)
        run = plumb("compare", path, other, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        last = {metric: values[0] for metric, values in json.loads(run.stdout)["last"].items()}
        return last, "\n".join(line for line in run.stderr.splitlines() if "other.csv" not in line)

    def test_tensorboard(self):
        last, said = self.read("events.out.tfevents.1", TENSORBOARDX)
        self.assertEqual(last["loss"], "NaN")
        before, _ = self.read("events.out.tfevents.1", TENSORBOARDX[:NAN_RECORD])
        self.assertEqual((before["loss"], before["train_loss"]), (6.5, (7.0625 + 6.5) / 2))
        self.assertIn("has no cross_entropy, val_loss, grad_norm", said)
        last, _ = self.read("events.out.tfevents.2", TENSORBOARD)
        self.assertEqual((last["val_loss"], last["loss"], last["x"]), (-1.25, 3.5, 0.5))

    def test_a_folder_of_event_files(self):
        self.write("tb/events.out.tfevents.1.a", TENSORBOARDX)
        self.write("tb/events.out.tfevents.2.b", TENSORBOARDX[:NAN_RECORD])
        run = plumb("compare", str(self.folder / "tb"), self.write("other.csv", CSV), "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        last = json.loads(run.stdout)["last"]
        self.assertEqual((last["loss"][0], last["train_loss"][0]), (6.5, (7.0625 + 6.5) / 2))
        self.assertIn("the steps go back to 0", run.stderr)

    def test_a_log_that_is_too_large_is_refused_unread(self):
        path = self.write("huge.csv", CSV)
        os.truncate(path, 40 << 30)  # a hole: read whole, it would not fit into memory
        run = plumb("compare", path, self.write("other.csv", CSV))
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("is larger than the 256 MB that a log may have", run.stderr)
        folder = self.folder / "run"
        folder.mkdir()
        os.truncate(self.write("run/trace.jsonl", '{"row":"header","schema":"plumb-trace/1"}\n'), 40 << 30)
        run = plumb("compare", str(folder), self.write("other.csv", CSV))
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("is larger than the 2048 MB that a trace may have", run.stderr)
        run = plumb("compare", "/dev/zero", self.write("other.csv", CSV))
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("/dev/zero is larger than", run.stderr)

    def test_csv(self):
        last, said = self.read("a.csv", '\ufeffiter;Train/Loss;Learning Rate;note;grad_norm\r\n1;7.5;0.1;"a; ""b""";\r\n2;6.5;0.2;;1.5\r\n')
        self.assertEqual((last["loss"], last["train_loss"], last["grad_norm"]), (6.5, 7.0, 1.5))
        self.assertNotIn("note", last)
        self.assertNotIn("grad_norm", said)
        self.assertIn("act_std", said)

    def test_json_lines(self):
        last, said = self.read("a.jsonl", '{"step": 0, "train": {"loss": 5}, "grad_norm": NaN}\n{"message": "saved"}\n'
                                          '{"step": 5, "train": {"loss": 4.5}, "eval_loss": "inf"}\n{"step": 9, "lo')
        self.assertEqual((last["loss"], last["grad_norm"], last["val_loss"]), (4.5, "NaN", "Infinity"))
        self.assertIn("line 4) is cut off", said)

    def test_json_lines_without_a_step(self):
        _, said = self.read("a.jsonl", '{"step": 0, "loss": 5}\n{"epoch": 1}\n')
        self.assertIn("1 object of", said)

    def test_an_array_of_objects(self):
        last, _ = self.read("a.json", json.dumps([{"step": 0, "loss": 5}, {"step": 1, "loss": 4}], indent=1))
        self.assertEqual(last["loss"], 4)

    def test_json_lines_that_mention_other_formats(self):
        last, _ = self.read("a.jsonl", '{"schema": "v2", "step": 0, "loss": 5}\n{"step": 1, "loss": 4, "note": "log_history"}\n')
        self.assertEqual(last["loss"], 4)

    def test_names_that_mean_the_same(self):
        last, said = self.read("a.csv", "step,loss,train_loss\n100,5,\n200,4,\n1,,9\n")
        self.assertEqual((last["loss"], last["train_loss"], last["train_loss (logged)"]), (4, 4.5, 9))
        self.assertIn("'train_loss' is kept as 'train_loss (logged)': the loss is 'loss'", said)

    def test_numbers_too_small_or_too_large(self):
        last, _ = self.read("a.csv", "step,loss,grad_norm,x\n0,1e-400,-1e400,+2\n")
        self.assertEqual((last["loss"], last["grad_norm"], last["x"]), (0, "-Infinity", 2))

    def test_a_log_that_is_being_written(self):
        for tail in ("1,4.5e-", "1,", "1"):
            last, said = self.read("a.csv", "step,loss\n0,9\n" + tail)
            self.assertEqual(last["loss"], 9, tail)
            if tail != "1,":
                self.assertIn("is cut off", said)

    def test_pandas_index_column(self):
        last, _ = self.read("a.csv", ",step,loss\n0,10,9\n1,20,8\n")
        self.assertEqual((last["loss"], "" in last), (8, False))

    def test_many_columns_are_read_in_time(self):
        n = 2000
        text = "step," + ",".join(f"c{i}" for i in range(n)) + "\n" + "".join(f"{r}" + ",1" * n + "\n" for r in range(50))
        began = time.monotonic()
        self.read("a.csv", text)
        self.assertLess(time.monotonic() - began, 5)

    def test_trainer_state(self):
        state = {"best_metric": None, "log_history": [{"step": 10, "loss": 3.5, "grad_norm": 2.0, "learning_rate": 1e-4},
                                                      {"step": 20, "eval_loss": 3.0},
                                                      {"step": 20, "train_loss": 9.0, "train_runtime": 5.0}]}
        last, _ = self.read("trainer_state.json", json.dumps(state, indent=2))
        self.assertEqual((last["loss"], last["val_loss"], last["grad_norm"]), (3.5, 3.0, 2.0))

    def test_a_run_that_went_back(self):
        last, said = self.read("a.csv", "step,loss\n0,9\n10,8\n20,7\n10,6\n")
        self.assertEqual((last["loss"], last["train_loss"]), (6, 7.5))
        self.assertIn("the steps go back to 10", said)
        last, _ = self.read("a.csv", "step,grad_norm,loss\n0,1,9\n10,2,8\n20,3,7\n10,4,6\n")
        self.assertEqual((last["grad_norm"], last["loss"]), (4, 6))

    def test_a_plumb_trace_says_nothing_of_itself(self):
        header = '{"row":"header","schema":"plumb-trace/1","producer":"plumb 0.1.0","config":null}\n'
        _, said = self.read("trace.jsonl", header + '{"row":"step","step":0,"loss":1}\n')
        self.assertEqual(said, "")

    def test_a_torn_event_file(self):
        for cut in (1, 5, 20):
            last, said = self.read("events.out.tfevents.1", TENSORBOARD[:-cut])
            self.assertEqual(last["loss"], 3.5)
            self.assertIn("is cut off and was left out", said)


if __name__ == "__main__":
    unittest.main()
