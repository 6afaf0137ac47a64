"""`plumb inspect` against the truth: tiny checkpoints of every architecture, statistics against independent ones, warnings."""

import array
import json
import math
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_checkpoints as tiny  # noqa: E402
from inspecting import InAFolder, case, inspect, normal, run  # noqa: E402


class Architectures(InAFolder):
    def test_every_answer_is_the_truth_and_has_its_evidence(self):
        for c in tiny.CASES:
            with self.subTest(c.name):
                answer = inspect(tiny.write_case(self.folder / c.name, c))
                self.expect(answer, c.truth, c.name)
                for key in c.truth:
                    self.assertTrue(answer["evidence"][key], key)
                if not c.name.startswith("unknown-names"):
                    self.assertEqual(answer["warnings"], [])
                    self.assertEqual(answer["n_layer"], tiny.L)
                    self.assertEqual(answer["d_model"], tiny.D)

    def test_a_config_alone_gives_the_same_answers_where_it_can(self):
        for c in tiny.CASES:
            if c.config is None or c.name.startswith("unknown"):
                continue
            with self.subTest(c.name):
                file = self.folder / "config.json"
                file.write_text(json.dumps(c.config))
                # Weights alone could tell how they were drawn; GPT-2's code says it.
                scaled = "yes" if c.config["model_type"] == "gpt2" else "unknown"
                self.expect(inspect(file), {**c.truth, "scaled_init": scaled}, c.name)

    def test_sizes_that_the_config_leaves_to_its_class(self):
        """The numbers are the defaults of transformers' configuration files."""
        file = self.folder / "config.json"
        for model_type, size, value in (("qwen3", "d_head", 128), ("gemma", "d_head", 256), ("gemma2", "d_head", 256), ("gemma3_text", "d_head", 256),
                                        ("llama", "d_head", 64), ("mystery", "d_head", None), ("gpt2", "d_ff", 4096), ("falcon", "d_ff", 4096),
                                        ("bloom", "d_ff", 4096), ("gpt_neox", "d_ff", None), ("llama", "d_ff", None), ("llama", "n_kv_head", 16),
                                        ("mistral", "n_kv_head", None), ("falcon", "n_kv_head", 1), ("opt", "n_kv_head", 16)):
            file.write_text(json.dumps({"model_type": model_type, "hidden_size": 1024, "num_attention_heads": 16}))
            self.assertEqual(inspect(file)[size], value, (model_type, size))

        c = case("qwen3")  # a head's size comes from the tensors where they have it
        config = {k: v for k, v in c.config.items() if k != "head_dim"} | {"model_type": "mystery"}
        answer = inspect(tiny.write_case(self.folder / "m", tiny.Case("m", config, c.tensors, None)))
        self.assertEqual((answer["d_head"], answer["n_kv_head"], answer["warnings"]), (8, 2, []))

    def test_the_names_of_gpt2_and_of_those_that_share_some(self):
        def of(tensors):
            (self.folder / "m.safetensors").write_bytes(tiny.safetensors_bytes(tiny.tensors_of(tiny.Case("", None, tensors, None))))
            return inspect(self.folder / "m.safetensors")

        gpt2 = tiny.gpt2_tensors("")
        self.assertEqual(of(gpt2)["architecture"], "gpt2")
        gpt1 = {k.replace("wte", "tokens_embed").replace("wpe", "positions_embed"): s for k, s in gpt2.items() if not k.startswith("ln_f")}
        answer = of(gpt1)  # Post-LN, and its initialisation is not scaled
        self.expect(answer, {"architecture": "unknown", "placement": "unknown", "final_norm": False, "scaled_init": "no", "position": "learned"})
        self.assertEqual(answer["warnings"], [])
        self.assertEqual(of(tiny.gpt2_tensors(conv=False))["architecture"], "unknown")  # GPT-BigCode: q, k and v head by head

    def test_what_nothing_decides_is_unknown(self):
        file = self.folder / "config.json"
        file.write_text(json.dumps({"model_type": "mystery", "hidden_size": 8}))
        answer = inspect(file)
        for key in ("placement", "norm", "scaled_init", "position", "attention", "ffn", "qk_norm"):
            self.assertEqual(answer[key], "unknown", key)
        self.assertIsNone(answer["final_norm"])
        self.assertIsNone(answer["tied"])

    def test_the_name_of_the_epsilon_is_no_proof_of_layer_norm(self):
        """Qwen 1, Mamba, T5 and ChatGLM 2 have RMSNorm."""
        file = self.folder / "config.json"
        for model_type, key in (("qwen", "layer_norm_epsilon"), ("mamba", "layer_norm_epsilon"), ("t5", "layer_norm_epsilon"), ("chatglm", "layernorm_epsilon")):
            file.write_text(json.dumps({"model_type": model_type, key: 1e-5}))
            self.assertEqual(inspect(file)["norm"], "unknown", model_type)

    def test_shards_are_one_model_and_a_single_shard_proves_no_absence(self):
        c = case("llama")
        folder = tiny.write_shards(self.folder / "sharded", c)
        for what in (folder, folder / "model.safetensors.index.json"):
            self.expect(inspect(what), c.truth)
        first = inspect(folder / "model-00001-of-00003.safetensors")
        self.assertTrue(any("one shard of several" in n for n in first["notes"]))
        self.assertTrue(first["final_norm"])  # by the architecture: the tensor may be in another shard
        self.assertEqual(first["warnings"], [])

    def test_half_precision_files(self):
        for dtype in ("BF16", "F16"):
            self.expect(inspect(tiny.write_case(self.folder / dtype, case("llama"), dtype)), tiny.LLAMA_TRUTH, dtype)

    def test_weights_of_four_bits_in_bytes(self):
        """As bitsandbytes saves them: n/2 rows of one byte. Their shapes are not the matrices', and their bytes no weights."""
        c = case("llama")
        tensors = tiny.tensors_of(c)
        header, data = {}, b""
        for name, (shape, values) in tensors.items():
            packed = name.endswith("_proj.weight")
            piece = values.tobytes()[:len(values) // 2] if packed else values.tobytes()
            header[name] = {"dtype": "U8" if packed else "F32", "shape": [len(piece), 1] if packed else list(shape), "data_offsets": [len(data), len(data) + len(piece)]}
            data += piece
        text = json.dumps(header).encode()
        (self.folder / "config.json").write_text(json.dumps(c.config))
        (self.folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        answer = inspect(self.folder)
        self.expect(answer, {**c.truth, "scaled_init": "unknown"})
        self.assertEqual((answer["d_model"], answer["n_head"], answer["n_kv_head"], answer["d_ff"], answer["warnings"]), (tiny.D, tiny.HEADS, 2, tiny.F, []))
        self.assertIn("21 matrices hold integers, which stand for weights by a rule of their own: listed, not measured.", answer["notes"])

    def test_a_header_whose_length_begins_like_a_pickle(self):
        text = json.dumps({"model.norm.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        for version, more in ((2, 0), (3, 0), (4, 0), (5, 0), (2, 1 << 16)):
            length = 0x80 + (version << 8) + more
            (self.folder / "m.safetensors").write_bytes(struct.pack("<Q", length) + text.ljust(length) + bytes(8))
            self.assertEqual(inspect(self.folder / "m.safetensors")["format"], "safetensors", length)

    def test_nanogpt(self):
        answer = inspect(tiny.write_nanogpt(self.folder / "ckpt.pt"))
        self.expect(answer, tiny.NANOGPT_TRUTH)
        self.assertEqual(answer["architecture"], "nanogpt")
        self.assertIn("one storage", answer["evidence"]["tied"])
        self.assertIn("fresh draw", answer["evidence"]["scaled_init"])
        self.assertEqual(answer["warnings"], [])

    def test_model_args_of_somebody_else_are_not_nanogpts(self):
        """llama2.c's ckpt.pt has the key too."""
        answer = inspect(tiny.write_llama2c(self.folder / "ckpt.pt"))
        self.assertEqual(answer["architecture"], "unknown")
        self.expect(answer, {"norm": "unknown", "position": "unknown", "ffn": "glu", "tied": False, "attention": "gqa"})
        self.assertEqual((answer["n_layer"], answer["d_model"], answer["n_head"], answer["n_kv_head"]), (tiny.L, tiny.D, tiny.HEADS, 2))
        self.assertEqual(answer["warnings"], [])

    def test_torch_state_dict_in_the_file_of_transformers(self):
        c = case("opt")
        tensors = tiny.tensors_of(c)
        (self.folder / "config.json").write_text(json.dumps(c.config))
        tiny.write_archive(self.folder / "pytorch_model.bin", tiny.state_dict_opcodes(tensors),
                           {str(i): values.tobytes() for i, (_, values) in enumerate(tensors.values())})
        self.expect(inspect(self.folder), c.truth)

    def test_latent_attention_is_neither_mha_nor_gqa(self):
        """DeepSeek's configs say as many key heads as query heads, and heads of the size that has positions."""
        for model_type, low_rank in (("deepseek_v3", True), ("deepseek_v2", False)):
            rows = {k: s for k, s in tiny.llama_layer().items() if "self_attn" not in k} | tiny.latent_attention(low_rank)
            config = tiny.llama_config(model_type, kv=tiny.HEADS, kv_lora_rank=8, qk_rope_head_dim=2, qk_nope_head_dim=4, head_dim=2, tie_word_embeddings=False)
            folder = tiny.write_case(self.folder / model_type, tiny.Case("mla", config, tiny.llama_like(rows), None))
            answer = inspect(folder)
            self.expect(answer, {"attention": "unknown", "qk_norm": "unknown", "norm": "rms", "ffn": "swiglu", "tied": False, "scaled_init": "no"})
            self.assertIn("multi-head latent attention", answer["evidence"]["attention"])
            self.assertEqual((answer["n_head"], answer["n_kv_head"], answer["d_head"], answer["warnings"]), (tiny.HEADS, None, 6, []))
            (folder / "model.safetensors").unlink()
            answer = inspect(folder)  # the config alone
            self.assertEqual(answer["attention"], "unknown")
            self.assertIn("kv_lora_rank", answer["evidence"]["attention"])
        c = case("llama")  # a key that is left over
        for rank, tensors in ((8, c.tensors), (0, {}), (None, {})):
            config = {**c.config, "model_type": "mystery", "kv_lora_rank": rank}
            folder = self.folder / str(rank)
            if tensors:
                tiny.write_case(folder, tiny.Case("m", config, tensors, None))
            else:
                folder.mkdir()
                (folder / "config.json").write_text(json.dumps(config))
            self.assertEqual(inspect(folder)["attention"], "gqa", rank)

    def test_experts_without_a_router_that_is_known_are_experts(self):
        rows = tiny.llama_layer(extra={**tiny.linear("mlp.experts.0.up_proj", 8, tiny.D), **tiny.linear("mlp.router.classifier", 4, tiny.D)})
        answer = inspect(tiny.write_case(self.folder / "m", tiny.Case("m", tiny.llama_config("mystery"), tiny.llama_like(rows), None)))
        self.assertEqual((answer["ffn"], answer["d_ff"]), ("moe", tiny.F))

    def test_a_norm_outside_of_the_layers_that_does_not_say_where(self):
        """LFM2 calls its final norm embedding_norm."""
        c = tiny.Case("lfm2", tiny.llama_config("lfm2"), tiny.llama_like(tiny.llama_layer(), final="model.embedding_norm"), None)
        self.assertIsNone(inspect(tiny.write_case(self.folder / "m", c))["final_norm"])

    def test_opt_whose_norms_have_no_parameters(self):
        tensors = {k: s for k, s in tiny.opt_tensors(final=False).items() if "layer_norm" not in k}
        for removed in (False, True):
            config = tiny.opt_config(layer_norm_elementwise_affine=False, _remove_final_layer_norm=removed)
            answer = inspect(tiny.write_case(self.folder / "m", tiny.Case("opt", config, tensors, None)))
            self.expect(answer, {"placement": "pre", "norm": "layer", "final_norm": not removed})

    def own_run(self, name, *settings):
        """The folder of a tiny run of plumb of one step, unless the settings have more."""
        small = ("model.n_layer=2", "model.d_model=32", "model.n_head=2", "model.d_ff=32", "model.block_size=16", "data.corpus=LICENSE", "train.steps=1")
        train = run("train", *(s for pair in (*small, *settings) for s in ("--set", pair)), "--out", self.folder / name)
        self.assertEqual(train.returncode, 0, train.stderr)
        return self.folder / name

    def test_our_own_run(self):
        answer = inspect(self.own_run("run", "model.placement=post", "model.norm=rms", "train.steps=2"))
        self.expect(answer, {"placement": "post", "norm": "rms", "final_norm": False, "scaled_init": "yes", "position": "learned", "attention": "mha",
                             "ffn": "gelu", "qk_norm": "none", "tied": True, "architecture": "plumb"})
        self.assertEqual(answer["warnings"], [])

    def test_every_name_of_our_own_runs_is_known(self):
        for i, more in enumerate(("model.residual=hyper_connections", "model.residual=layer_scale", "model.residual=nf", "model.residual=rezero",
                                  "model.residual=skip_init", "model.embedding_scale=learned", "model.d_embed=16", "model.norm=dyt", "init.scheme=fixup",
                                  "model.weight_param=weight_norm")):
            with self.subTest(more):
                self.assertEqual(inspect(self.own_run(str(i), more))["warnings"], [])


class Words(InAFolder):
    def test_tables_for_people(self):
        done = run("inspect", tiny.write_case(self.folder / "m", case("gpt2")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"where do the norms stand\? +pre +each layer has ln_1, ln_2")
        self.assertRegex(done.stdout, r"attn_out +0\.00\d+ +0\.008165 +(0\.9|1\.0)")  # 0.02 / sqrt(6)
        self.assertEqual(len(re.findall(r"^ +[012]  [#.]{12} ", done.stdout, re.M)), tiny.L)

    def test_without_weights(self):
        answer = inspect(tiny.write_case(self.folder / "m", case("llama")), "--no-weights")
        self.assertEqual(answer["scaled_init"], "unknown")
        self.assertEqual(answer["layers"], [])


class Warnings(InAFolder):
    def warnings(self, name, config=None, tensors=None):
        c = case(name)
        all_tensors = {k: v for k, v in {**c.tensors, **(tensors or {})}.items() if v is not None}
        changed = tiny.Case(name, {**c.config, **(config or {})}, all_tensors, None, scaled=c.scaled, zero_gain=c.zero_gain)
        folder = self.folder / str(random.random())
        answer = inspect(tiny.write_case(folder, changed))
        self.assertTrue(all(w.endswith(".") for w in answer["warnings"]), answer["warnings"])
        return answer, " ".join(answer["warnings"])

    def test_a_head_that_is_stored_although_tied(self):
        answer, words = self.warnings("gpt2", tensors={"lm_head.weight": (tiny.V, tiny.D)})
        self.assertIs(answer["tied"], False)
        self.assertIn("the bytes of transformer.wte.weight and lm_head.weight differ", words)

        c = case("gpt2")
        tensors = tiny.tensors_of(c)
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
        (self.folder / "config.json").write_text(json.dumps(c.config))
        (self.folder / "model.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        answer = inspect(self.folder)
        self.assertIs(answer["tied"], True)
        self.assertIn("the same bytes twice", " ".join(answer["warnings"]))

    def test_the_rest(self):
        self.assertIn("rms_norm_eps is 0.001, outside", self.warnings("llama", {"rms_norm_eps": 1e-3})[1])
        answer, words = self.warnings("llama", tensors={"model.norm.weight": None})
        self.assertIs(answer["final_norm"], False)
        self.assertIn("no norm stands before the head", words)
        self.assertIn("has 26 rows, but the config's 30 positions and 2 rows before them make 32", self.warnings("opt", {"max_position_embeddings": 30})[1])
        self.assertIn("gives d_ff 64, but model.layers.0.mlp.up_proj.weight has 40", self.warnings("llama", {"intermediate_size": 64})[1])
        self.assertIn("gives n_layer 12, but the checkpoint has 3", self.warnings("llama", {"num_hidden_layers": 12})[1])
        answer, words = self.warnings("llama", {"num_key_value_heads": 4})
        self.assertEqual(answer["attention"], "gqa")
        self.assertIn("gives n_kv_head 4, but the key projection", words)
        self.assertIn("1 tensors have names that are not known here: model.layers.0.self_attn.wormhole.weight",
                      self.warnings("llama", tensors={"model.layers.0.self_attn.wormhole.weight": (2, 2)})[1])
        self.assertIn("Layers 1 do not have the tensors of layer 0", self.warnings("llama", tensors={"model.layers.1.mlp.up_proj.weight": None})[1])
        self.assertIn("the skip is taken after the norm", self.warnings("bloom", {"apply_residual_connection_post_layernorm": True})[1])
        answer, words = self.warnings("opt", {"do_layer_norm_before": False})
        self.assertEqual(answer["placement"], "pre")
        self.assertIn('makes the placement "post"', words)

    def test_what_the_architecture_has_and_no_tensor_is(self):
        def without(name, *parts):
            return {k: None for k in case(name).tensors if any(p in k for p in parts)}

        self.assertIn("llama has a gate in its feed-forward networks, but no tensor is one", self.warnings("llama", tensors=without("llama", "gate_proj"))[1])
        self.assertIn("qwen3 normalises queries and keys, but no tensor is a gain of theirs", self.warnings("qwen3", tensors=without("qwen3", "_norm.w"))[1])
        self.assertIn("config.json has qk_layernorm = true, but no tensor is a norm of queries or keys",
                      self.warnings("stablelm", {"qk_layernorm": True})[1])
        wide = {k: (64, tiny.D) for k in case("llama").tensors if "k_proj" in k or "v_proj" in k}
        self.assertIn("heads of queries cannot be shared out evenly among", self.warnings("llama", tensors=wide)[1])

    def test_a_layer_that_is_missing_in_the_middle(self):
        whole = tiny.llama_like(tiny.llama_layer(), n=6)
        c = tiny.Case("gap", {**case("llama").config, "num_hidden_layers": 6}, {k: s for k, s in whole.items() if ".layers.3." not in k}, None)
        for what in (tiny.write_case(self.folder / "m", c), tiny.write_shards(self.folder / "s", c)):
            answer = inspect(what)
            self.assertEqual(len(answer["warnings"]), 1, answer["warnings"])
            self.assertIn("Of layers 0 to 5 no tensor of layer 3 is in the checkpoint", answer["warnings"][0])
            self.assertEqual((answer["n_layer"], answer["placement"]), (6, "pre"))
        for i in (1, 2, 3):  # one shard alone proves nothing
            self.assertEqual(inspect(self.folder / "s" / f"model-0000{i}-of-00003.safetensors")["warnings"], [])
        c.tensors = {k: s for k, s in whole.items() if not re.search(r"layers\.[023]\.", k)}  # the first is compared with, whichever it is
        self.assertEqual(["no tensor of layers 0, 2, 3 is in" in w for w in inspect(tiny.write_case(self.folder / "m", c))["warnings"]], [True])

    def test_what_an_unknown_architecture_has_more_rows_for(self):
        config = {**tiny.GPT2_CONFIG, "model_type": "mystery", "n_positions": tiny.T - 2}
        self.assertEqual(self.warnings("gpt2", config)[1], "")
        self.assertIn("has 24 rows, but the config's 30 positions make 30", self.warnings("gpt2", {**config, "n_positions": 30})[1])


class Statistics(InAFolder):
    def one_layer(self, up, shape, extra=None):
        """The statistics of a matrix that stands as mlp.up_proj of layer 0."""
        tensors = {"model.layers.0.mlp.up_proj.weight": (shape, up), **(extra or {})}
        (self.folder / "m.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        return inspect(self.folder / "m.safetensors")["layers"][0]

    def test_moments_and_outlier_channels(self):
        rng = random.Random(1)
        w = normal(rng, 64 * 20, 0.02)
        for row in range(64):
            w[row * 20 + 7] *= 50
        m = self.one_layer(w, (64, 20))["matrices"][0]
        mean = sum(w) / len(w)
        self.assertAlmostEqual(m["mean"], mean, 12)
        self.assertAlmostEqual(m["std"], math.sqrt(sum((v - mean) ** 2 for v in w) / len(w)), 10)
        self.assertEqual((m["out"], m["in"]), (64, 20))
        self.assertEqual(m["outlier_channels"], [7])
        norms = sorted(math.sqrt(sum(w[r * 20 + c] ** 2 for r in range(64))) for c in range(20))
        self.assertAlmostEqual(m["largest_channel_over_median"], norms[-1] / statistics.median(norms), 6)

    def test_the_table_has_the_median_of_two_exponents(self):
        rng = random.Random(8)
        tensors = {f"model.layers.0.mlp.{name}.weight": ((60, 60), normal(rng, 3600)) for name in ("up_proj", "down_proj")}
        file = self.folder / "m.safetensors"
        file.write_bytes(tiny.safetensors_bytes(tensors))
        alphas = [m["alpha"] for m in inspect(file)["layers"][0]["matrices"]]
        self.assertGreater(abs(alphas[0] - alphas[1]), 0.1)
        shown = re.search(r"^ +0  (?:[# .]*[#.] +[\d.e-]+  )+ *([\d.]+) +0$", run("inspect", file).stdout, re.M)
        self.assertAlmostEqual(float(shown[1]), sum(alphas) / 2, delta=0.006)

    def test_fused_matrices_are_taken_apart(self):
        """Values name their part: q 1, k 2, v 3, in each of the layouts."""
        head, d = tiny.HEAD, tiny.D
        layouts = {"gpt_neox": [p for _ in range(4) for p in (1, 2, 3)], "falcon-7b": [1] * 4 + [2, 3], "falcon-40b": [1, 1, 2, 3] * 2}
        for name, parts in layouts.items():
            c = case(name)
            tensors = tiny.tensors_of(c)
            key = next(k for k in tensors if k.endswith("query_key_value.weight"))
            values = array.array("f", [p + 0.5 * (-1) ** i for p in parts for i in range(head * d)])
            self.assertEqual(len(values), len(tensors[key][1]))
            tensors[key] = (tensors[key][0], values)
            (self.folder / "config.json").write_text(json.dumps(c.config))
            (self.folder / "model.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
            means = {m["role"]: m["mean"] for m in inspect(self.folder)["layers"][0]["matrices"] if m["tensor"] == key}
            self.assertEqual(means, {"q": 1, "k": 2, "v": 3}, name)
        c = case("gpt2")  # Conv1D: [in, out]
        tensors = tiny.tensors_of(c)
        key = "transformer.h.0.attn.c_attn.weight"
        tensors[key] = (tensors[key][0], array.array("f", [p for _ in range(d) for p in (1, 2, 3) for _ in range(d)]))
        (self.folder / "config.json").write_text(json.dumps(c.config))
        (self.folder / "model.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        means = {m["role"]: m["mean"] for m in inspect(self.folder)["layers"][0]["matrices"] if m["tensor"] == key}
        self.assertEqual(means, {"q": 1, "k": 2, "v": 3})

    def test_gemma_gains_are_one_plus_w(self):
        layer = inspect(tiny.write_case(self.folder / "g", case("gemma")))["layers"][0]
        self.assertEqual({(n["mean"], n["min"], n["max"]) for n in layer["norms"]}, {(1, 1, 1)})

    def test_the_tail_exponent_of_a_spectrum_that_is_a_power_law(self):
        """A diagonal matrix with the quantiles of p(x) ∝ x^-3, x ≥ 1, as eigenvalues of WᵀW: the fit finds 3 within 1/sqrt(n)."""
        n = 400
        x = [(1 - (i + 0.5) / n) ** (-1 / 2) for i in range(n)]  # the inverse of 1 - x^-2
        w = array.array("f", bytes(4 * n * n))
        for i in range(n):
            w[i * n + i] = math.sqrt(x[i])
        m = self.one_layer(w, (n, n))["matrices"][0]
        self.assertAlmostEqual(m["alpha"], 3, delta=2 / math.sqrt(n))

    def test_why_there_is_no_exponent(self):
        identity = array.array("f", [float(i % 65 == 0) for i in range(64 * 64)])
        self.assertEqual(self.one_layer(identity, (64, 64))["matrices"][0]["no_alpha"], "its eigenvalues are all equal")
        self.assertIn("fewer than 50", self.one_layer(normal(random.Random(1), 64 * 49), (64, 49))["matrices"][0]["no_alpha"])

    def test_the_tail_exponent_against_numpy(self):
        """numpy.linalg.svd and a fit written from Clauset et al. 2009, on a matrix with heavy-tailed elements."""
        peer = '''
import sys, numpy as np
w = np.fromfile(sys.argv[1], np.float32).reshape(120, 90).astype(float)
x = np.sort(np.linalg.svd(w, compute_uv=False) ** 2)
best = (np.inf, 0, 0, 0)
for k in range(len(x) - 9):
    tail = x[k:]
    n = len(tail)
    alpha = 1 + n / np.log(tail / tail[0]).sum()
    cdf = 1 - (tail / tail[0]) ** (1 - alpha)
    ks = max(np.abs(cdf - np.arange(n) / n).max(), np.abs(cdf - np.arange(1, n + 1) / n).max())
    best = min(best, (ks, alpha, tail[0], n))
print(*best)
'''
        try:
            python = next(p for p in ("/usr/bin/python3", sys.executable)
                          if subprocess.run([p, "-c", "import numpy"], capture_output=True).returncode == 0)
        except StopIteration:
            self.skipTest("numpy is not installed")
        rng = random.Random(2)
        w = array.array("f", [rng.gauss(0, 1) / rng.random() ** 0.4 for _ in range(120 * 90)])
        (self.folder / "w").write_bytes(w.tobytes())
        done = subprocess.run([python, "-c", peer, self.folder / "w"], capture_output=True, text=True, check=True)
        ks, alpha, x_min, n = map(float, done.stdout.split())
        m = self.one_layer(w, (120, 90))["matrices"][0]
        self.assertAlmostEqual(m["alpha"], alpha, 9)
        self.assertAlmostEqual(m["alpha_ks"], ks, 9)
        self.assertAlmostEqual(m["alpha_x_min"] / x_min, 1, 9)
        self.assertEqual(m["alpha_n_tail"], n)

    def test_weights_that_are_not_finite_are_counted_and_said(self):
        w = normal(random.Random(3), 60 * 60)
        w[5], w[9] = float("nan"), float("inf")
        tensors = {"model.layers.0.mlp.up_proj.weight": ((60, 60), w)}
        (self.folder / "m.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        answer = inspect(self.folder / "m.safetensors")
        self.assertEqual(answer["layers"][0]["matrices"][0]["non_finite"], 2)
        self.assertIn("NaN or infinite: model.layers.0.mlp.up_proj.weight (2)", " ".join(answer["warnings"]))


    def test_gains_that_are_not_finite_are_counted_and_said(self):
        nan, inf = float("nan"), float("inf")
        tensors = {"model.layers.0.input_layernorm.weight": ((3,), array.array("f", [1, nan, 2])),
                   "model.layers.0.mlp.up_proj.weight": ((3, 3), normal(random.Random(3), 9)), "model.norm.weight": ((2,), array.array("f", [inf, nan]))}
        (self.folder / "m.safetensors").write_bytes(tiny.safetensors_bytes(tensors))
        answer = inspect(self.folder / "m.safetensors")
        for where, truth in ((answer["layers"][0], (1.5, 1, 2, 1)), (answer["ends"], (None, None, None, 2))):
            self.assertEqual(tuple(where["norms"][0][k] for k in ("mean", "min", "max", "non_finite")), truth)
        self.assertIn("NaN or infinite: model.norm.weight (2), model.layers.0.input_layernorm.weight (1)", " ".join(answer["warnings"]))


if __name__ == "__main__":
    unittest.main()
