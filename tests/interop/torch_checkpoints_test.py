"""`plumb inspect` on what torch.save writes beside plain tensors: views, newer types, tensors of other kinds; and on what torch itself saved."""

import array
import pathlib
import random
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_checkpoints as tiny  # noqa: E402
from inspecting import InAFolder, inspect, normal  # noqa: E402

UP = "model.layers.0.mlp.up_proj.weight"


class Archives(InAFolder):
    def saved(self, entries, storages):
        """The answer for a state dict of {name: opcodes} and its storages."""
        body = b"".join(tiny.text(name) + opcodes for name, opcodes in entries.items())
        return inspect(tiny.write_archive(self.folder / "m.pt", b"ccollections\nOrderedDict\n)R(" + body + b"u", storages))

    def matrix(self, answer):
        return next(m for m in answer["layers"][0]["matrices"] if m["tensor"] == UP)

    def of(self, rows):
        """The statistics of a matrix that is stored as it is."""
        values = array.array("f", [v for row in rows for v in row])
        return self.matrix(self.saved({UP: tiny.tensor_opcodes("0", (len(rows), len(rows[0])))}, {"0": values.tobytes()}))

    def test_views_are_read_by_their_strides(self):
        rng = random.Random(1)
        w = normal(rng, 60 * 70, 0.02)
        for i in range(60):
            w[i * 70 + 5] *= 40  # an outlier among the 70 columns
        for name, shape, strides, offset in (("transposed", (70, 60), (1, 70), 0), ("columns", (60, 20), (70, 3), 2), ("rows", (20, 70), (140, 1), 70),
                                             ("one row for all", (50, 70), (0, 1), 140), ("one column for all", (60, 50), (70, 0), 5),
                                             ("one number", (50, 60), (0, 0), 7), ("windows", (40, 50), (1, 1), 3), ("both", (20, 30), (3, 140), 1)):
            with self.subTest(name):
                rows = [[w[offset + i * strides[0] + j * strides[1]] for j in range(shape[1])] for i in range(shape[0])]
                answer = self.saved({UP: tiny.tensor_opcodes("0", shape, strides=strides, offset=offset)}, {"0": w.tobytes()})
                self.assertEqual(len(answer["warnings"]), 0, answer["warnings"])
                expected, m = self.of(rows), self.matrix(answer)
                for key in expected:
                    if isinstance(expected[key], float):
                        self.assertAlmostEqual(m[key], expected[key], 6, key)
                    else:
                        self.assertEqual(m[key], expected[key], key)

    def test_a_large_transposed_matrix(self):
        """More elements than are read at once."""
        n, m = 1200, 1000
        w = array.array("f", [(i % 1009) / 1009 for i in range(n * m)])
        plain = self.matrix(self.saved({UP: tiny.tensor_opcodes("0", (n, m))}, {"0": w.tobytes()}))
        turned = self.matrix(self.saved({UP: tiny.tensor_opcodes("0", (m, n), strides=(1, m))}, {"0": w.tobytes()}))
        self.assertEqual((turned["out"], turned["in"], turned["std"], turned["mean"]), (m, n, plain["std"], plain["mean"]))

    def test_an_expanded_gain_and_a_tied_transposed_head(self):
        rng = random.Random(2)
        w = normal(rng, 48 * 16, 0.02)
        copy, other = w[:], w[:]
        other[700] += 1
        entries = {"model.norm.weight": tiny.tensor_opcodes("1", (16,), strides=(0,)), "model.embed_tokens.weight": tiny.tensor_opcodes("0", (16, 48), strides=(1, 16))}
        storages = {"0": w.tobytes(), "1": struct.pack("<f", 3.0), "2": copy.tobytes(), "3": other.tobytes()}
        for key, tied, words in (("0", True, "are one storage"), ("2", True, "have the same bytes"), ("3", False, "differ")):
            answer = self.saved({**entries, "lm_head.weight": tiny.tensor_opcodes(key, (16, 48), strides=(1, 16))}, storages)
            self.assertIs(answer["tied"], tied)
            self.assertIn(words, answer["evidence"]["tied"])
            self.assertEqual([(n["min"], n["max"]) for n in answer["ends"]["norms"]], [(3, 3)])
        # One as it is, one transposed: no bytes to compare.
        answer = self.saved({**entries, "lm_head.weight": tiny.tensor_opcodes("2", (16, 48))}, storages)
        self.assertIsNone(answer["tied"])
        self.assertIn("are not compared", answer["evidence"]["tied"])
        answer = self.saved({**entries, "lm_head.weight": tiny.tensor_opcodes("2", (12, 48))}, storages)
        self.assertIs(answer["tied"], False)

    def test_a_view_of_more_elements_than_anybody_reads(self):
        """Four bytes that claim to be a matrix of 2^62 bytes, and overlapping rows of 2^40: named, not read."""
        w = bytes(4 << 20)
        for shape, strides in (((1 << 30, 1 << 30), (0, 0)), ((1 << 19, 1 << 19), (1, 1)), ((1 << 25, 1), (0, 1))):
            answer = self.saved({UP: opcodes_of(shape, strides)}, {"0": w})
            self.assertIn(f"{UP} (a view with many more elements than its storage)", " ".join(answer["warnings"]))
            self.assertEqual(answer["layers"], [])

    def test_newer_types(self):
        one = {"1": struct.pack("<8H", *range(8)), "0": bytes(256)}
        answer = self.saved({UP: tiny.tensor_opcodes("0", (16, 16), dtype="float8_e4m3fn"), "model.norm.weight": tiny.tensor_opcodes("1", (8,), dtype="uint16"),
                             "lm_head.weight": tiny.tensor_opcodes("0", (16, 16), dtype="float8_e5m2")}, one)
        self.assertEqual(answer["warnings"], ["model.norm.weight has shape [8], but d_model is 16."] if answer["d_model"] else [])
        self.assertEqual([(n["min"], n["max"], n["mean"]) for n in answer["ends"]["norms"]], [(0, 7, 3.5)])
        self.assertIn("2 tensors have 8-bit floats: listed, not measured.", answer["notes"])
        # Two tensors of 8-bit floats are compared as bytes.
        answer = self.saved({"model.embed_tokens.weight": tiny.tensor_opcodes("0", (16, 16), dtype="float8_e4m3fn"),
                             "lm_head.weight": tiny.tensor_opcodes("0", (16, 16), dtype="float8_e4m3fn")}, one)
        self.assertIs(answer["tied"], True)

    def test_entries_that_are_not_read_are_named_and_the_rest_is_read(self):
        c = next(c for c in tiny.CASES if c.name == "llama")
        tensors = tiny.tensors_of(c)
        for kind, opcodes in tiny.unread_opcodes().items():
            with self.subTest(kind):
                keys = {name: str(i) for i, name in enumerate(tensors)}
                name = "model.layers.1.self_attn.q_proj.weight"
                entries = {k: tiny.tensor_opcodes(keys[k], shape) for k, (shape, _) in tensors.items()}
                answer = self.saved({**entries, name: opcodes}, {keys[k]: v.tobytes() for k, (_, v) in tensors.items()})
                about = [w for w in answer["warnings"] if "kinds that are not read here" in w]
                self.assertEqual(len(about), 1, answer["warnings"])
                self.assertIn("1 tensors are of kinds that are not read here", about[0])
                self.assertIn(f": {name} ({ {'csr': 'sparse', 'meta': 'on the meta device, without values'}.get(kind, kind)}).", about[0])
                if kind != "nested":  # which has no shape
                    self.assertEqual(len(answer["warnings"]), 1, answer["warnings"])
                self.expect(answer, {"attention": "unknown", "ffn": "glu", "final_norm": True, "tied": False, "scaled_init": "no"})
                self.assertEqual([len(layer["matrices"]) for layer in answer["layers"]], [7, 6, 7])

    def test_a_head_that_is_not_read_is_there(self):
        """Its absence would be a tied or headless model."""
        w = normal(random.Random(3), 16 * 16).tobytes()
        for kind, opcodes in tiny.unread_opcodes().items():
            answer = self.saved({"model.embed_tokens.weight": tiny.tensor_opcodes("0", (16, 16)), "lm_head.weight": opcodes}, {"0": w})
            self.assertIsNone(answer["tied"], kind)

    def test_plain_tensors_with_attributes(self):
        """torch.nn.Buffer, and parameters that carry something."""
        w = normal(random.Random(4), 16 * 16).tobytes()
        plain = tiny.tensor_opcodes("0", (16, 16))
        arguments = plain[plain.index(b"(("):-1]  # the tuple
        state = b"}" + tiny.text("_is_buffer") + b"\x88s"
        for name, opcodes in (("buffer", b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n" + arguments + state + b"tR"),
                              ("parameter", b"ctorch._utils\n_rebuild_parameter_with_state\n(" + plain + b"\x88}" + state + b"tR")):
            answer = self.saved({UP: opcodes, "model.extra_state": b"c_codecs\nencode\n" + tiny.text("x") + tiny.text("latin1") + b"\x86R"}, {"0": w})
            self.assertEqual((answer["warnings"], self.matrix(answer)["out"]), ([], 16), name)


def opcodes_of(shape, strides):
    """tensor_opcodes for sizes whose product no integer of its own has room for."""
    return tiny.tensor_opcodes("0", (1,) * len(shape)).replace(tiny.numbers((1,) * len(shape)), tiny.numbers(shape), 1).replace(
        tiny.numbers((1,) * len(shape)), tiny.numbers(strides), 1)


class OfTorchItself(InAFolder):
    """Whatever PyTorch the machine has saves; in tests/interop/*_slow_test.py the newest one."""

    def test_what_torch_saves(self):
        python = next((p for p in ("/usr/bin/python3", sys.executable) if subprocess.run([p, "-c", "import torch"], capture_output=True).returncode == 0), None)
        if not python:
            self.skipTest("torch is not installed")
        check_what_torch_saves(self, python)


WRITER = '''
import sys, torch
torch.manual_seed(0)
w = torch.randn(64, 80)
rows = {"up_proj": w, "gate_proj": torch.randn(80, 64).t(), "down_proj": w[:, :40], "q": torch.randn(1, 64).expand(64, 64), "k": w.double()[::2]}
entries = {f"model.layers.0.{'mlp' if 'proj' in k else 'self_attn'}.{k}.weight": v for k, v in rows.items()}
for name, value in entries.items():
    m = value.double()
    print(name, *value.shape, float(m.mean()), float(m.std(unbiased=False)))
entries["model.embed_tokens.weight"] = entries["lm_head.weight"] = torch.nn.Parameter(torch.randn(10, 64))
skipped = {"sparse": w.to_sparse(), "csr": w.to_sparse_csr(), "complex": w.to(torch.complex64), "meta": w.to("meta"),
           "quantised": torch.quantize_per_tensor(w, 0.1, 0, torch.qint8),
           "channels": torch.quantize_per_channel(w, torch.ones(64), torch.zeros(64).long(), 0, torch.qint8)}
newer = {}
if hasattr(torch, "float8_e4m3fn"):
    newer = {"float8": w.to(torch.float8_e4m3fn), "uint16": torch.zeros(3, dtype=torch.uint16), "buffer": torch.nn.Buffer(w)}
    skipped |= {"fnuz": w.to(torch.float8_e4m3fnuz), "nested": torch.nested.nested_tensor([w, w[:2]]), "negated": torch._neg_view(w)}
print("skipped", len(skipped))
torch.save({**entries, **{f"model.{k}": v for k, v in {**skipped, **newer}.items()}, "model._extra_state": b"123"}, sys.argv[1])
'''


def check_what_torch_saves(test, python):
    done = subprocess.run([python, "-c", WRITER, test.folder / "m.pt"], capture_output=True, text=True)
    test.assertEqual(done.returncode, 0, done.stderr)
    *truth, (_, skipped) = [line.split() for line in done.stdout.splitlines()]
    answer = inspect(test.folder / "m.pt")
    test.assertIs(answer["tied"], True)
    test.assertTrue(any(w.startswith(f"{skipped} tensors are of kinds that are not read here") for w in answer["warnings"]), answer["warnings"])
    measured = {m["tensor"]: m for m in answer["layers"][0]["matrices"]}
    test.assertEqual(len(measured), len(truth))
    for name, out, inp, mean, std in truth:
        m = measured[name]
        test.assertEqual((m["out"], m["in"]), (int(out), int(inp)), name)
        test.assertAlmostEqual(m["mean"], float(mean), 6, name)
        test.assertAlmostEqual(m["std"], float(std), 6, name)


if __name__ == "__main__":
    unittest.main()
