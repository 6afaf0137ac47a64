# run_tests: scripts/venv.sh
"""Random tiny models of transformers' own, built here from their files: the logits are transformers'."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

PLUMB = os.environ.get("PLUMB_CLI", str(pathlib.Path(__file__).parents[2] / "build/dev/plumb"))
V, T = 53, 24
WIDE = dict(vocab_size=V, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64,
            bos_token_id=None, eos_token_id=None, pad_token_id=None)
GROUPED = dict(WIDE, num_key_value_heads=2)

# Of each family: config class, settings.
MODELS = {
    "gpt2": ("GPT2", dict(vocab_size=V, n_positions=64, n_embd=32, n_layer=3, n_head=4)),
    "llama": ("Llama", dict(GROUPED, rope_theta=500.0)),
    "llama, linear": ("Llama", dict(GROUPED, rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 10000.0})),
    "llama, dynamic": ("Llama", dict(GROUPED, max_position_embeddings=16,
                                     rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0})),
    "llama, yarn": ("Llama", dict(GROUPED, rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0,
                                                            "original_max_position_embeddings": 16})),
    "mistral, window": ("Mistral", dict(GROUPED, sliding_window=7, head_dim=8)),
    "qwen2": ("Qwen2", GROUPED),
    "qwen3": ("Qwen3", dict(GROUPED, head_dim=16)),
    "olmo2": ("Olmo2", GROUPED),
    "gemma": ("Gemma", dict(GROUPED, head_dim=8)),
    "gemma2": ("Gemma2", dict(GROUPED, head_dim=16, sliding_window=9, query_pre_attn_scalar=24)),
    "gemma3": ("Gemma3", dict(GROUPED, head_dim=16, sliding_window=5, query_pre_attn_scalar=24, num_hidden_layers=7)),
    "opt": ("OPT", dict(vocab_size=V, hidden_size=32, ffn_dim=56, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64,
                        word_embed_proj_dim=32)),
    "opt, post": ("OPT", dict(vocab_size=V, hidden_size=32, ffn_dim=56, num_hidden_layers=3, num_attention_heads=4,
                              max_position_embeddings=64, word_embed_proj_dim=32, do_layer_norm_before=False)),
    "opt, narrow embeddings": ("OPT", dict(vocab_size=V, hidden_size=32, ffn_dim=56, num_hidden_layers=3, num_attention_heads=4,
                                           max_position_embeddings=64, word_embed_proj_dim=20, do_layer_norm_before=False)),
    "bloom": ("Bloom", dict(vocab_size=V, hidden_size=32, n_layer=3, n_head=4)),
    "bloom, six heads": ("Bloom", dict(vocab_size=V, hidden_size=48, n_layer=3, n_head=6)),
    "falcon": ("Falcon", dict(vocab_size=V, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, new_decoder_architecture=False,
                              multi_query=True, parallel_attn=True)),
    "falcon, new": ("Falcon", dict(vocab_size=V, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_kv_heads=2,
                                   new_decoder_architecture=True)),
    "falcon, alibi": ("Falcon", dict(vocab_size=V, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, alibi=True,
                                     new_decoder_architecture=False, multi_query=False, bias=True)),
    # slopes, and positions, that bfloat16 does not hold
    "falcon, alibi, long": ("Falcon", dict(vocab_size=V, hidden_size=96, num_hidden_layers=2, num_attention_heads=12, alibi=True,
                                           new_decoder_architecture=False, multi_query=True, bias=True, parallel_attn=False)),
    "gpt_neox": ("GPTNeoX", dict(WIDE, rotary_pct=0.5)),
    "gpt_neox, serial": ("GPTNeoX", dict(WIDE, rotary_pct=0.25, use_parallel_residual=False)),
    "phi": ("Phi", dict(GROUPED, partial_rotary_factor=0.5)),
    "stablelm": ("StableLm", dict(GROUPED, partial_rotary_factor=0.25, use_qkv_bias=True)),
    "stablelm 2": ("StableLm", dict(GROUPED, partial_rotary_factor=0.25, qk_layernorm=True, use_parallel_residual=True)),
    "stablelm 2, serial": ("StableLm", dict(GROUPED, partial_rotary_factor=0.5, qk_layernorm=True)),
}


def made(name):
    kind, settings = MODELS[name]
    torch.manual_seed(7)
    config = getattr(transformers, kind + ("TextConfig" if kind == "Gemma3" else "Config"))(**settings)
    model = getattr(transformers, kind + ("LMHeadModel" if kind == "GPT2" else "ForCausalLM"))(config).eval()
    with torch.no_grad():  # away from 0 and 1, where a bias or a gain that is not read would not show
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.1 if p.ndim == 1 else 0.05))
    return model


class Logits(unittest.TestCase):
    def test_are_those_of_transformers(self):
        for name in MODELS:
            ids = torch.randint(0, V, (1, 300 if name.endswith("long") else T), generator=torch.Generator().manual_seed(3))
            with self.subTest(model=name), tempfile.TemporaryDirectory() as folder:
                model = made(name)
                model.save_pretrained(folder)
                with torch.no_grad():
                    want = model(ids).logits[0].double()
                done = subprocess.run([PLUMB, "sample", folder, "--ids", ",".join(map(str, ids[0].tolist())), "--logits"], capture_output=True,
                                      text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                got = torch.tensor(json.loads(done.stdout)["logits"], dtype=torch.float64)
                worst = ((got - want).abs() / want.abs().clamp(min=1)).max().item()
                print(f"{name:18} {worst:.1e}")
                self.assertLess(worst, 1e-4)


if __name__ == "__main__":
    unittest.main()
