"""Checkpoints in Hugging Face's layout that `plumb sample --ids` runs, and those that it refuses in one sentence rather than run as something else."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import inspecting  # noqa: E402
from inspecting import case  # noqa: E402
import tiny_checkpoints as tiny  # noqa: E402

# What has no part in plumb, or cannot be known.
REFUSED = {
    "gpt_neox": "0.25 of d_head = 4 is no pair",
    "gpt_neox-sequential": "0.25 of d_head = 4 is no pair",
    "stablelm": "0.25 of d_head = 4 is no pair",
    "stablelm-parallel-qk": "0.25 of d_head = 4 is no pair",
    "unknown-like-llama": "plumb does not know",
    "unknown-like-llama-no-config": "holds no checkpoint",
    "unknown-sandwich-no-config": "holds no checkpoint",
    "neox-no-config": "holds no checkpoint",
    "unknown-names": "plumb does not know",
}


def changed(name, config=None, tensors=None):
    c = case(name)
    return tiny.Case(c.name, config or c.config, tensors or c.tensors, c.truth, c.scaled, c.zero_gain)


class Import(inspecting.InAFolder):
    def run_case(self, c, *args):
        folder = self.folder / "m"
        for old in folder.glob("*") if folder.exists() else ():
            old.unlink()
        tiny.write_case(folder, c)
        return inspecting.run("sample", folder, "--ids", "1,2,3", *(args or ("--logits",)))

    def refused(self, c, words):
        done = self.run_case(c)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(words, done.stderr)

    def test_every_case_runs_or_says_why_not(self):
        for c in tiny.CASES:
            with self.subTest(case=c.name):
                if c.name in REFUSED:
                    self.refused(c, REFUSED[c.name])
                    continue
                done = self.run_case(c)
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = json.loads(done.stdout)["logits"]
                self.assertEqual([len(r) for r in rows], [tiny.V] * 3)
                self.assertTrue(all(isinstance(x, float) for r in rows for x in r))

    def test_a_config_that_means_another_model_is_refused(self):
        for name, change, words in (
                ("llama", {"rms_norm_eps": -1}, "norm_eps"),
                ("llama", {"rope_theta": 0}, "rope.base"),
                ("llama", {"rope_theta": "500"}, "no number"),
                ("llama", {"partial_rotary_factor": 3}, "rope.fraction"),
                ("llama", {"max_position_embeddings": 10**9}, "block_size"),
                ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "scaled by 'llama3'"),
                ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4, "attention_factor": 1.1}}, "attention_factor"),
                ("llama", {"num_hidden_layers": 5}, "says 5 layers"),
                ("falcon-rw", {"alibi": "true"}, "alibi in config.json is neither true nor false"),
                ("opt", {"do_layer_norm_before": None}, "do_layer_norm_before in config.json is neither true nor false"),
                ("mistral", {"sliding_window": "8"}, "no whole number"),
                ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}, "max_window_layers"),
                ("gemma2", {"layer_types": ["full_attention"] * tiny.L, "sliding_window": 4}, "layer_types"),
                ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
                ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm"),
                ("opt", {"_remove_final_layer_norm": True}, "_remove_final_layer_norm")):
            with self.subTest(case=name, change=change):
                self.refused(changed(name, config={**case(name).config, **change}), words)

    def test_missing_surplus_and_misshapen_tensors_are_refused(self):
        def without(name, *endings):
            return changed(name, tensors={k: v for k, v in case(name).tensors.items() if not k.endswith(endings)})

        def with_shape(name, tensor, shape):
            return changed(name, tensors={**case(name).tensors, tensor: shape})

        down = "model.layers.0.mlp.down_proj.weight"
        rows, cols = case("llama").tensors[down]
        for c, words in (
                (without("llama", "model.norm.weight"), "no norm after the layers"),
                (without("llama", "gate_proj.weight"), "no gate"),
                (without("qwen3", "q_norm.weight", "k_norm.weight"), "no norm of queries and keys"),
                (without("bloom", "word_embeddings_layernorm.weight", "word_embeddings_layernorm.bias"), "no norm of the embeddings"),
                (without("phi", "lm_head.bias"), "no bias on the logits"),
                (without("llama", "layers.1.self_attn.v_proj.weight"), "blocks.1.attn.v.weight"),
                (changed("opt", {**case("opt").config, "layer_norm_elementwise_affine": False},
                         {k: v for k, v in case("opt").tensors.items() if "layer_norm" not in k}), "the layers have no norms with parameters"),
                (with_shape("llama", down, (cols, rows)), "needs"),
                (with_shape("llama", down, (rows * cols,)), "needs"),
                (with_shape("llama", "model.layers.0.self_attn.k_proj.bias", (8,)), "no place for"),
                (with_shape("opt", "model.decoder.embed_positions.weight", (1, tiny.D)), "needs")):
            with self.subTest(words=words):
                self.refused(c, words)

    def test_quantised_weights_are_refused(self):
        c = case("llama")
        folder = self.folder / "m"
        tiny.write_case(folder, c)
        path = next(folder.glob("*.safetensors"))
        raw = path.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + size])
        entry = header["model.layers.0.self_attn.q_proj.weight"]
        begin = entry["data_offsets"][0]
        count = entry["shape"][0] * entry["shape"][1]
        # The same tensor as bytes; what is left of its four is another tensor.
        header["model.layers.0.self_attn.q_proj.weight"] = {"dtype": "I8", "shape": entry["shape"], "data_offsets": [begin, begin + count]}
        header["left"] = {"dtype": "I8", "shape": [3 * count], "data_offsets": [begin + count, begin + 4 * count]}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size:])
        done = inspecting.run("sample", folder, "--ids", "1", "--logits")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("not read as weights", done.stderr)

    def test_logits_that_are_not_finite_end_with_4(self):
        c = case("llama")
        folder = self.folder / "nan"
        tiny.write_case(folder, c)
        tensors = tiny.tensors_of(c)
        tensors["model.norm.weight"][1][0] = float("nan")
        next(folder.glob("*.safetensors")).write_bytes(tiny.safetensors_bytes(tensors, {"format": "pt"}))
        for more in (("--logits",), ("--tokens", "3")):
            with self.subTest(more=more):
                done = inspecting.run("sample", folder, "--ids", "1,2", *more)
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn("logits are not finite", done.stderr)

    def test_ids_that_are_none_and_every_token_may_be_drawn(self):
        for ids, words in (("1,x", "no list of token ids"), ("1,", "no list of token ids"), (str(tiny.V), "ids are 0 to"), ("-1", "ids are 0 to")):
            with self.subTest(ids=ids):
                tiny.write_case(self.folder / "n", case("llama"))
                done = inspecting.run("sample", self.folder / "n", f"--ids={ids}")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)
        done = self.run_case(case("llama"), "--tokens", "400", "--temperature", "50", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        drawn = json.loads(done.stdout)["ids"][3:]
        self.assertEqual((len(drawn), 0 in drawn), (400, True))


if __name__ == "__main__":
    unittest.main()
