"""What `plumb inspect` and import make of flags of a config that are neither true nor false."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_checkpoints as tiny  # noqa: E402
from inspecting import InAFolder, case, inspect, run  # noqa: E402


class Flags(InAFolder):
    def with_config(self, name, alone=False, **more):
        c = case(name)
        folder = tiny.write_case(self.folder / "m", tiny.Case(name, {**c.config, **more}, c.tensors, None, c.scaled, c.zero_gain))
        return inspect(folder / "config.json" if alone else folder)

    def unclear(self, answer, question, key):
        self.assertIn(answer[question], ("unknown", None), question)
        self.assertIn(f"{key} in config.json is neither true nor false", answer["evidence"][question])
        self.assertIn(f"{key} in config.json is neither true nor false: answers that only it decides are unknown", " ".join(answer["warnings"]))

    def test_what_an_unclear_flag_decides_is_unknown(self):
        for name, alone, key, question in (
                ("opt-350m", False, "do_layer_norm_before", "placement"), ("opt", True, "do_layer_norm_before", "final_norm"),
                ("gpt_neox", False, "use_parallel_residual", "placement"), ("stablelm", True, "use_parallel_residual", "placement"),
                ("falcon-7b", True, "parallel_attn", "placement"), ("falcon-7b", True, "multi_query", "attention"),
                ("falcon-40b", True, "new_decoder_architecture", "attention"), ("llama", True, "tie_word_embeddings", "tied")):
            for value in (None, "yes", 2):
                with self.subTest(name=name, key=key, value=value):
                    self.unclear(self.with_config(name, alone, **{key: value}), question, key)
        self.unclear(self.with_config("falcon-7b", alibi="no"), "position", "alibi")
        self.unclear(self.with_config("phi", True, qk_layernorm="no"), "qk_norm", "qk_layernorm")

    def test_where_the_tensors_decide_there_is_a_warning(self):
        for name, key in (("opt", "do_layer_norm_before"), ("falcon-7b", "parallel_attn"), ("falcon-7b", "multi_query"), ("phi-qk", "qk_layernorm")):
            with self.subTest(name=name, key=key):
                answer = self.with_config(name, **{key: "yes"})
                self.expect(answer, case(name).truth)
                self.assertEqual([key in w for w in answer["warnings"]], [True])

    def test_null_where_the_default_is_false_is_false(self):
        """transformers 5 writes "use_bidirectional_attention": null into every config of Gemma 2."""
        for name, key in (("gemma2", "use_bidirectional_attention"), ("stablelm", "qk_layernorm"), ("falcon-7b", "alibi")):
            with self.subTest(name=name, key=key):
                answer = self.with_config(name, **{key: None})
                self.expect(answer, case(name).truth)
                self.assertEqual(answer["warnings"], [])
        self.with_config("gemma2", use_bidirectional_attention=None)
        done = run("sample", self.folder / "m", "--ids", "1", "--logits")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_import_refuses_what_inspect_warns_of(self):
        for name, key in (("falcon-7b", "multi_query"), ("llama", "tie_word_embeddings"), ("gpt2", "scale_attn_weights")):
            with self.subTest(name=name, key=key):
                self.assertIn(key, " ".join(self.with_config(name, **{key: None})["warnings"]))
                done = run("sample", self.folder / "m", "--ids", "1", "--logits")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(f"{key} in config.json is neither true nor false", done.stderr)

    def test_of_an_unknown_architecture(self):
        file = self.folder / "config.json"
        file.write_text(json.dumps({"hidden_size": tiny.D, "parallel_attn": "yes"}))
        (self.folder / "model.safetensors").write_bytes(tiny.safetensors_bytes(tiny.tensors_of(case("unknown-like-llama-no-config"))))
        self.unclear(inspect(self.folder), "placement", "parallel_attn")


if __name__ == "__main__":
    unittest.main()
