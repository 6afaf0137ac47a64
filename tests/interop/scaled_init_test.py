"""Whether `plumb inspect` sees how weights were drawn."""

import array
import json
import pathlib
import random
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_checkpoints as tiny  # noqa: E402
from inspecting import InAFolder, case, inspect, normal, run  # noqa: E402


class ScaledInit(InAFolder):
    def answer(self, draw):
        """draw(name, shape, rng) → values of every matrix of a llama."""
        c, rng = case("llama"), random.Random(4)
        tensors = {k: (s, draw(k, s, rng) if len(s) == 2 else array.array("f", [1.0] * s[0])) for k, s in c.tensors.items()}
        (self.folder / "config.json").write_text(json.dumps(c.config))
        (self.folder / "model.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        return inspect(self.folder)

    @staticmethod
    def writes(name):
        return "o_proj" in name or "down_proj" in name

    def test_ways_of_drawing(self):
        def uniform(bound):
            return lambda k, s, rng: array.array("f", [rng.uniform(-bound(k, s), bound(k, s)) for _ in range(s[0] * s[1])])

        depth = (2 * tiny.L) ** -0.5
        self.assertEqual(self.answer(uniform(lambda k, s: s[1] ** -0.5))["scaled_init"], "no")  # torch.nn.Linear
        self.assertEqual(self.answer(uniform(lambda k, s: s[1] ** -0.5 * (depth if self.writes(k) else 1)))["scaled_init"], "yes")
        self.assertEqual(self.answer(uniform(lambda k, s: (6 / sum(s)) ** 0.5))["scaled_init"], "no")  # Xavier
        self.assertEqual(self.answer(uniform(lambda k, s: 0.02 * (depth if self.writes(k) else 1)))["scaled_init"], "yes")

    def test_of_ways_that_fit_alike_the_simplest_is_named(self):
        """All matrices of one shape fit one std and one by fan-in."""
        rng, tensors = random.Random(7), {}
        for name in ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"):
            tensors[f"model.layers.0.{name}.weight"] = (64, 64), normal(rng, 64 * 64, 0.02)
        (self.folder / "m.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        self.assertIn("fits a fresh draw (one std)", inspect(self.folder / "m.safetensors")["evidence"]["scaled_init"])

    def test_matrices_of_zeros_were_not_drawn(self):
        rng = random.Random(6)
        answer = self.answer(lambda k, s, _: normal(rng, s[0] * s[1], 0 if "o_proj" in k else 0.02))
        self.assertEqual(answer["scaled_init"], "unknown")
        self.assertIn("model.layers.0.self_attn.o_proj.weight has std 0", answer["evidence"]["scaled_init"])

    def gpt2(self, redraw=lambda name, shape, values: values):
        """A GPT-2 of 64 channels, drawn as its own code does; `redraw` has the last word on every matrix."""
        rng, d, n = random.Random(9), 64, 4
        shapes = {"wte": (96, d), "wpe": (32, d)}
        for i in range(n):
            shapes |= {f"h.{i}.attn.c_attn": (d, 3 * d), f"h.{i}.attn.c_proj": (d, d), f"h.{i}.mlp.c_fc": (d, 4 * d), f"h.{i}.mlp.c_proj": (4 * d, d)}
        tensors = {}
        for name, shape in shapes.items():
            std = 0.02 / (2 * n) ** 0.5 if "c_proj" in name else 0.02
            tensors[name + ".weight"] = shape, redraw(name, shape, normal(rng, shape[0] * shape[1], std))
        for name in [f"h.{i}.{k}" for i in range(n) for k in ("ln_1", "ln_2")] + ["ln_f"]:
            tensors |= {name + ".weight": ((d,), array.array("f", [1.0] * d)), name + ".bias": ((d,), array.array("f", [0.0] * d))}
        (self.folder / "config.json").write_text(json.dumps({**tiny.GPT2_CONFIG, "n_embd": d, "n_layer": n, "n_positions": 32, "vocab_size": 96}))
        (self.folder / "model.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        answer = inspect(self.folder)
        self.assertEqual(answer["warnings"], [])
        return answer["scaled_init"], answer["evidence"]["scaled_init"]

    def test_a_gpt2_whose_weights_say_otherwise_than_its_code(self):
        rng = random.Random(10)

        def drawn(std, only="c_proj"):  # std(in + out)
            return lambda name, shape, values: normal(rng, len(values), std(sum(shape))) if only in name else values

        def scaled(factor):
            return lambda name, shape, values: array.array("f", [v * factor for v in values]) if "c_proj" in name else values

        self.assertEqual(self.gpt2()[0], "yes")
        answer, because = self.gpt2(drawn(lambda fans: (2 / fans) ** 0.5))  # torch.nn.init.xavier_normal_
        self.assertEqual(answer, "no", because)
        self.assertIn("a way of their own (std by both fans), without 1/sqrt(2 n_layer)", because)
        self.assertEqual(self.gpt2(drawn(lambda fans: (2 / fans) ** 0.5 / 8 ** 0.5))[0], "yes")
        # All of them, the fused q, k and v as one matrix.
        self.assertEqual(self.gpt2(drawn(lambda fans: (2 / fans) ** 0.5, "."))[0], "no")
        self.assertEqual(self.gpt2(scaled(8 ** 0.5))[0], "no")
        answer, because = self.gpt2(scaled(2))  # a scale that is neither
        self.assertEqual(answer, "unknown", because)
        answer, because = self.gpt2(drawn(lambda fans: (2 / fans) ** 0.5, "attn.c_proj"))  # half of them
        self.assertEqual(answer, "unknown", because)
        self.assertIn("the outputs fit no way of drawing all of them", because)
        answer, because = self.gpt2(scaled(0))
        self.assertEqual(answer, "unknown", because)
        self.assertIn("c_proj.weight has std 0, so it was not drawn", because)

    def test_a_trained_gpt2_was_drawn_as_its_code_does(self):
        stds = random.Random(11)
        answer, because = self.gpt2(lambda name, shape, values: array.array("f", [v * f for f in (stds.uniform(1, 5),) for v in values]))
        self.assertEqual(answer, "yes", because)
        self.assertIn("gpt2's own code", because)

    def test_of_our_own_run_the_spec_decides_whatever_the_weights_look_like(self):
        small = ("model.n_layer=2", "model.d_model=32", "model.n_head=2", "model.d_ff=32", "model.block_size=16", "data.corpus=LICENSE", "train.steps=1")
        done = run("train", *(s for pair in small for s in ("--set", pair)), "--out", self.folder / "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        file = self.folder / "run" / "checkpoint-0.safetensors"
        answer = inspect(file)
        self.assertEqual(answer["scaled_init"], "yes")
        self.assertNotIn("contradict", answer["evidence"]["scaled_init"])
        data = bytearray(file.read_bytes())
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:start]).items():
            if name.startswith("blocks.") and name.endswith(("attn.o.weight", "ffn.out.weight")):
                begin, end = (start + at for at in entry["data_offsets"])
                values = array.array("f", bytes(data[begin:end]))
                data[begin:end] = array.array("f", [v * 2 for v in values]).tobytes()  # sqrt(2 n_layer)
        (self.folder / "changed.safetensors").write_bytes(data)
        answer = inspect(self.folder / "changed.safetensors")
        self.assertEqual(answer["scaled_init"], "yes")
        self.assertIn("says so; the weights by themselves contradict it", answer["evidence"]["scaled_init"])

    def test_trained_weights_tell_nothing(self):
        rng = random.Random(5)
        stds = {}

        def trained(k, s, _):
            std = stds.setdefault(k, rng.uniform(0.02, 0.2))
            return normal(rng, s[0] * s[1], std)

        answer = self.answer(trained)
        self.assertEqual(answer["scaled_init"], "unknown")
        self.assertIn("fit no fresh draw", answer["evidence"]["scaled_init"])


if __name__ == "__main__":
    unittest.main()
