# run_tests: scripts/venv.sh
"""The hook under the newest PyTorch: every fast test again, models that no one here wrote, torch.compile, and two processes of DDP."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "tests/support", "tests/python")]
os.environ["HF_HUB_OFFLINE"] = "1"

import transformers

import plumb_trace
from beside_test import Buffers, Copies, Evaluation, Numbers, Outputs, RandomState, SeveralProcesses
from facts_test import Facts
from generators_test import Found, SetBack
from hook_test import Case, Rows, SameBits, Trouble, batches
from isolation_test import State
from isolation_test import Passes as OwnPasses
from layouts_test import Fused, Layouts
from modules import T, V, Gpt, Llama
from preflight_test import Fails, Passes, Unusual
from structures_test import Structures
from told_apart_test import ToldApart
from trace_equal_test import SameNumbers
from trace_rows import check_file, facts_of, steps_of
from weights_test import Weights
from writer_test import File

transformers.logging.set_verbosity_error()
GPT2 = {"tied": True, "tied_declared": True, "causal": True, "n_layer": 2, "norm": "layer", "norm_axis": "features", "placement": "pre",
        "final_norm": True, "residual": "add", "skip_after_norm": False, "position": "learned", "position_first": 0, "n_head": 4,
        "n_kv_head": 4, "d_model": 32, "vocab_size": V}
LLAMA = {**GPT2, "tied": False, "tied_declared": False, "norm": "rms", "position": "rope", "n_kv_head": 2}
WIDTHS = {"vocab_size": V, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": T, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
EVERY = {"loss", "lr", "grad_norm", "tokens", "adjacent_kl", "logit_std", "layers"}
PROBES = {"act_std", "grad_std", "attn_entropy", "attn_max_logit", "norm_in_std", "weight_rms", "update_ratio"}


def gpt2(**more):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=V, n_positions=T, n_embd=32, n_layer=2, n_head=4,
                                                                bos_token_id=1, eos_token_id=2, **more))


def hugging_face(name, **more):
    config = getattr(transformers, name + "Config")(**{**WIDTHS, **more})
    return getattr(transformers, name + "ForCausalLM")(config)


class Transformers(Case):
    """Random weights; no mapping is given."""

    def trace(self, model, steps=2):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            with plumb_trace.attach(model, self.out, every=1, overwrite=True) as trace:
                for step in range(steps):
                    (x, _), = batches(1, seed=step)
                    optimizer.zero_grad()
                    loss = model(input_ids=x, labels=x).loss
                    loss.backward()
                    trace.step(loss, optimizer)
                    optimizer.step()
        return self.rows()

    def check(self, model, truth):
        rows = self.trace(model)
        found = facts_of(rows)
        self.assertEqual({key: found.get(key) for key in truth}, truth)
        for row in steps_of(rows).values():
            self.assertEqual(set(row), EVERY)
            self.assertEqual(set(row["layers"]), PROBES)
        return steps_of(rows)

    def test_gpt2(self):
        self.check(gpt2(), {**GPT2, "attention": "sdpa"})

    def test_llama(self):
        self.check(hugging_face("Llama"), {**LLAMA, "attention": "sdpa"})

    def test_others(self):
        cases = {"Qwen3": LLAMA, "Mixtral": LLAMA, "Olmo2": {**LLAMA, "placement": "post_branch"},
                 "Gemma2": {**LLAMA, "tied": True, "tied_declared": True, "placement": "sandwich"}}
        for name, truth in cases.items():
            with self.subTest(model=name):
                self.check(hugging_face(name, head_dim=8, **({"num_local_experts": 4} if name == "Mixtral" else {})), truth)

    def test_blocks_without_attention_are_counted(self):
        jamba = {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "num_experts": 2,
                 "use_mamba_kernels": False, "mamba_d_state": 4, "mamba_dt_rank": 4}
        griffin = {"num_hidden_layers": 3, "num_key_value_heads": 1, "lru_width": 32, "attention_window_size": 16}
        qwen = {"num_hidden_layers": 4, "head_dim": 8, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
                "shared_expert_intermediate_size": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
                "linear_value_head_dim": 8}
        for name, more in (("Jamba", jamba), ("RecurrentGemma", griffin), ("Qwen3Next", qwen)):
            with self.subTest(model=name):
                found = facts_of(self.trace(hugging_face(name, **more), steps=1))
                truth = {"n_layer": more["num_hidden_layers"], "norm": "rms", "placement": "pre", "residual": "add", "causal": True, "n_head": 4}
                self.assertEqual({key: found.get(key) for key in truth}, truth)

    def test_encoder_decoders_are_unknown_in_a_sentence(self):
        widths = {"vocab_size": V, "d_model": 32, "pad_token_id": 0, "decoder_start_token_id": 0}
        t5 = transformers.T5Config(**widths, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4)
        bart = transformers.BartConfig(**widths, decoder_layers=2, encoder_layers=2, decoder_attention_heads=4, encoder_attention_heads=4,
                                       decoder_ffn_dim=48, encoder_ffn_dim=48, max_position_embeddings=T + 2, bos_token_id=0, eos_token_id=1)
        for model in (transformers.T5ForConditionalGeneration(t5), transformers.BartForConditionalGeneration(bart)):
            (x, y), = batches(1)
            with plumb_trace.attach(model, self.out, overwrite=True) as trace, self.assertWarnsRegex(RuntimeWarning, "as in an encoder-decoder"):
                loss = model(input_ids=x, labels=y).loss
                loss.backward()
                trace.step(loss)
            found = facts_of(self.rows())
            self.assertEqual([found[name] for name in ("n_layer", "causal", "placement", "n_head", "tied")], 4 * ["unknown"] + [True])

    def test_xlnet_and_bloom_have_four_heads(self):
        for model in (transformers.XLNetLMHeadModel(transformers.XLNetConfig(vocab_size=V, d_model=32, n_layer=2, n_head=4, d_inner=48)),
                      transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=V, hidden_size=32, n_layer=2, n_head=4))):
            found = facts_of(self.trace(model, steps=1))
            self.assertEqual((found["n_layer"], found["n_head"]), (2, 4), type(model).__name__)

    def test_a_cache_that_the_loop_gives_is_not_filled(self):
        found = []
        for traced in (False, True):
            torch.manual_seed(4)
            model, (x, y) = hugging_face("Llama"), batches(1)[0]
            trace = plumb_trace.attach(model, self.out) if traced else None
            cache, loss = transformers.DynamicCache(config=model.config), 0
            for i in (0, T // 2):
                loss = loss + model(input_ids=x[:, i:i + T // 2], past_key_values=cache, use_cache=True).logits.logsumexp(-1).mean()
            loss.backward()
            if traced:
                trace.step(loss)
                trace.close()
            found.append([loss, *(p.grad for p in model.parameters())])
        for a, b in zip(*found):
            self.assertTrue(torch.equal(a, b))
        self.assertEqual(facts_of(self.rows())["n_layer"], 2)

    def test_fused_and_eager_attention_give_the_same_numbers(self):
        for make in (gpt2, lambda **more: hugging_face("Llama", **more)):
            found = []
            for kind in ("sdpa", "eager"):
                torch.manual_seed(4)
                model = make(attn_implementation=kind).eval()
                found.append(steps_of(self.trace(model)))
            for step in found[0]:
                for name, values in found[0][step]["layers"].items():
                    for a, b in zip(values, found[1][step]["layers"][name]):
                        self.assertAlmostEqual(a, b, delta=1e-4 * abs(a), msg=name)

    def test_gradient_checkpointing(self):
        found = []
        for saving in (False, True):
            torch.manual_seed(4)
            model = hugging_face("Llama")
            if saving:
                model.gradient_checkpointing_enable()
            found.append(steps_of(self.trace(model)))
        self.assertEqual(found[0], found[1])


class Compiled(Case):
    def losses(self, wrap, traced):
        torch.manual_seed(6)
        torch._dynamo.reset()
        model = Llama()
        run = wrap(model)
        optimizer, found = torch.optim.AdamW(model.parameters(), lr=1e-2), []
        trace = plumb_trace.attach(run, self.out, every=3, overwrite=True) if traced else None
        for step in range(5):
            (x, y), = batches(1, seed=step)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(run(x)["logits"].reshape(-1, V), y.reshape(-1))
            loss.backward()
            if trace:
                trace.step(loss, optimizer)
            optimizer.step()
            found.append(loss.item())
        if trace:
            trace.close()
        return found

    def wraps(self):
        def whole(model):
            return torch.compile(model, backend="aot_eager")

        def in_place(model):
            model.compile(backend="aot_eager")
            return model

        def blocks(model):
            for i, layer in enumerate(model.layers):
                model.layers[i] = torch.compile(layer, backend="aot_eager")
            return model

        return {"torch.compile(model)": whole, "model.compile()": in_place, "each block": blocks}

    def test_probed_steps_run_uncompiled_and_the_others_compiled(self):
        plain = self.losses(lambda model: model, True)
        want = steps_of(self.rows())
        for name, wrap in self.wraps().items():
            with self.subTest(how=name), warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                compiled, traced = self.losses(wrap, False), self.losses(wrap, True)
                for a, b, c in zip(plain, compiled, traced, strict=True):
                    self.assertAlmostEqual(a, c, delta=1e-4 * a)
                    self.assertAlmostEqual(b, c, delta=1e-4 * a)
                rows = self.rows()
                self.assertEqual(facts_of(rows)["n_layer"], 2)
                got = steps_of(rows)
                self.assertEqual({s: set(r["layers"]) for s, r in got.items()}, {s: set(r["layers"]) for s, r in want.items()})
                self.assertEqual({s: r["tokens"] for s, r in got.items()}, {s: r["tokens"] for s, r in want.items()})
                for step in (0, 3):
                    for metric, values in want[step]["layers"].items():
                        for a, b in zip(values, got[step]["layers"][metric]):
                            self.assertAlmostEqual(a, b, delta=1e-3 * abs(a), msg=f"{step} {metric}")

    def test_a_compiled_step_is_compiled(self):
        count = []

        def backend(graph, inputs):
            count.append(len(count))
            return lambda *args: (count.append("ran"), graph.forward(*args))[1]

        self.losses(lambda model: torch.compile(model, backend=backend), True)
        self.assertGreaterEqual(count.count("ran"), 3)  # steps 1, 2 and 4

    def test_the_users_stance_is_kept(self):
        def stance():
            return torch._dynamo.eval_frame._stance.stance

        with torch.compiler.set_stance("eager_on_recompile"):
            model = Gpt()
            trace = plumb_trace.attach(model, self.out, every=2)
            self.assertEqual(stance(), "force_eager")
            self.train(model, 1, trace)
            self.assertEqual(stance(), "eager_on_recompile")
            self.train(model, 1, trace)
            self.assertEqual(stance(), "force_eager")
            trace.close()
            self.assertEqual(stance(), "eager_on_recompile")


DDP = """
import os, sys
sys.path[:0] = sys.argv[1:4]
import torch, plumb_trace
from modules import T, V, Gpt
from hook_test import batches
rank = int(sys.argv[5])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[6])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
torch.manual_seed(1)
model = Gpt().eval()
if len(sys.argv) > 7:  # its forward waits for the other process
    model.ln_f.register_forward_hook(lambda *_: torch.distributed.barrier())
else:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
with plumb_trace.attach(model, sys.argv[4] + (".%d" % rank if rank else ""), every=2) as trace:
    for step in range(4):
        x, y = batches(1, samples=4, seed=step)[0]
        optimizer.zero_grad()
        loss = model(x[2 * rank:2 * rank + 2], y[2 * rank:2 * rank + 2])[1]
        loss.backward()
        trace.step(loss, optimizer)
        optimizer.step()
torch.distributed.destroy_process_group()
"""


class TwoProcesses(Case):
    def run_both(self, *more, port=0):
        port = str(20000 + (os.getpid() + port) % 20000)
        folders = [str(ROOT / folder) for folder in ("python", "tests/python", "tests/support")]
        running = [subprocess.Popen([sys.executable, "-c", DDP, *folders, self.out, str(rank), port, *more], stderr=subprocess.PIPE, text=True)
                   for rank in range(2)]
        try:
            said = [p.communicate(timeout=120)[1] for p in running]
        finally:
            for p in running:
                p.kill()
        self.assertEqual([p.returncode for p in running], [0, 0], said)
        return said

    def test_a_forward_that_waits_for_the_other_process(self):
        said = self.run_both("waits", port=1)
        self.assertIn("without DistributedDataParallel", said[0])
        self.assertEqual(facts_of(self.rows()), {})
        self.assertEqual(sorted(steps_of(self.rows())), [0, 1, 2, 3])

    def test_only_the_first_writes_and_gradients_are_averaged(self):
        self.run_both()
        self.assertFalse(os.path.exists(self.out + ".1"))
        steps = steps_of(self.rows())
        self.assertEqual([steps[i]["tokens"] for i in range(4)], [i * 4 * T for i in range(4)])
        self.assertEqual(set(steps[2]["layers"]), PROBES)
        torch.manual_seed(1)
        model = Gpt().eval()
        x, y = batches(1, samples=4)[0]
        model(x, y)[1].backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in model.parameters())).item()
        self.assertAlmostEqual(steps[0]["grad_norm"], norm, delta=1e-5 * norm)


if __name__ == "__main__":
    unittest.main()
