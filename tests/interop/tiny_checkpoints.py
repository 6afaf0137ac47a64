"""Tiny checkpoints of the architectures that `plumb inspect` knows, written from their names, shapes and configs alone.

The names and shapes are those that transformers' modelling files give (src/transformers/models/<model_type>); no tensor comes from a real model.
Everything is drawn from a normal distribution of std 0.02, as those files do, with GPT-2's 1/sqrt(2 n_layer) where it has one.
"""

import array
import json
import pathlib
import random
import struct
import zipfile

D, HEADS, HEAD, F, V, T, L = 16, 4, 4, 40, 48, 24, 3
STD = 0.02


class Case:
    """One checkpoint: config (None: no file), {tensor name: shape}, the truth, and how it is drawn."""

    def __init__(self, name, config, tensors, truth, scaled=(), zero_gain=False):
        self.name, self.config, self.tensors, self.truth = name, config, tensors, truth
        self.scaled, self.zero_gain = scaled, zero_gain


def layers(prefix, rows, n=L):
    """{prefix}.{i}.{name}: shape for every layer; a row is "name: shape", a shape is made of sizes."""
    return {f"{prefix}.{i}.{name}": shape for i in range(n) for name, shape in rows.items()}


def linear(name, out, inp, bias=False):
    return {f"{name}.weight": (out, inp), **({f"{name}.bias": (out,)} if bias else {})}


def norm(name, size=D, bias=False):
    return {f"{name}.weight": (size,), **({f"{name}.bias": (size,)} if bias else {})}


def llama_layer(kv=2, bias=False, q=D, head=HEAD, norms=("input_layernorm", "post_attention_layernorm"), extra=None, norm_bias=False):
    rows = {**linear("self_attn.q_proj", q, D, bias), **linear("self_attn.k_proj", kv * head, D, bias),
            **linear("self_attn.v_proj", kv * head, D, bias), **linear("self_attn.o_proj", D, q),
            **linear("mlp.gate_proj", F, D), **linear("mlp.up_proj", F, D), **linear("mlp.down_proj", D, F), **(extra or {})}
    for n in norms:
        rows.update(norm(n, bias=norm_bias))
    return rows


def llama_like(layer, head=True, final="model.norm", norm_bias=False, n=L):
    return {"model.embed_tokens.weight": (V, D), **layers("model.layers", layer, n), **norm(final, bias=norm_bias),
            **({"lm_head.weight": (V, D)} if head else {})}


def llama_config(model_type, kv=2, **more):
    return {"model_type": model_type, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": HEADS,
            "num_key_value_heads": kv, "vocab_size": V, "max_position_embeddings": T, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "hidden_act": "silu", "initializer_range": STD, **more}


def gpt2_tensors(prefix="transformer.", conv=True, bias=True, masks=False):
    def matrix(name, out, inp):
        return {f"{name}.weight": (inp, out) if conv else (out, inp), **({f"{name}.bias": (out,)} if bias else {})}

    rows = {**norm("ln_1", bias=bias), **matrix("attn.c_attn", 3 * D, D), **matrix("attn.c_proj", D, D), **norm("ln_2", bias=bias),
            **matrix("mlp.c_fc", 4 * D, D), **matrix("mlp.c_proj", D, 4 * D)}
    if masks:
        rows.update({"attn.bias": (1, 1, T, T), "attn.masked_bias": ()})
    return {f"{prefix}wte.weight": (V, D), f"{prefix}wpe.weight": (T, D), **layers(f"{prefix}h", rows), **norm(f"{prefix}ln_f", bias=bias)}


def opt_tensors(final, embed=D, position_rows=T + 2):
    rows = {**norm("self_attn_layer_norm", bias=True), **norm("final_layer_norm", bias=True), **linear("fc1", F, D, True), **linear("fc2", D, F, True)}
    for p in ("q_proj", "k_proj", "v_proj", "out_proj"):
        rows.update(linear(f"self_attn.{p}", D, D, True))
    tensors = {"model.decoder.embed_tokens.weight": (V, embed), "model.decoder.embed_positions.weight": (position_rows, D),
               **layers("model.decoder.layers", rows)}
    if embed != D:
        tensors.update({"model.decoder.project_in.weight": (D, embed), "model.decoder.project_out.weight": (embed, D)})
    return {**tensors, **(norm("model.decoder.final_layer_norm", bias=True) if final else {})}


def opt_config(**more):
    return {"model_type": "opt", "hidden_size": D, "word_embed_proj_dim": D, "ffn_dim": F, "num_hidden_layers": L, "num_attention_heads": HEADS,
            "vocab_size": V, "max_position_embeddings": T, "do_layer_norm_before": True, "activation_function": "relu", "init_std": STD, **more}


def fused(prefix, qkv, norms, bias, attention="self_attention"):
    rows = {**linear(f"{attention}.query_key_value", qkv, D, bias), **linear(f"{attention}.dense", D, D, bias),
            **linear("mlp.dense_h_to_4h", 4 * D, D, bias), **linear("mlp.dense_4h_to_h", D, 4 * D, bias)}
    for n in norms:
        rows.update(norm(n, bias=True))
    return layers(prefix, rows)


def falcon(qkv, norms, bias=False):
    return {"transformer.word_embeddings.weight": (V, D), **fused("transformer.h", qkv, norms, bias), **norm("transformer.ln_f", bias=True)}


def falcon_config(**more):
    return {"model_type": "falcon", "hidden_size": D, "num_hidden_layers": L, "num_attention_heads": HEADS, "vocab_size": V,
            "layer_norm_epsilon": 1e-5, "initializer_range": STD, "bias": False, "alibi": False, "multi_query": True, "parallel_attn": True,
            "new_decoder_architecture": False, **more}


def neox():
    return {"gpt_neox.embed_in.weight": (V, D), **fused("gpt_neox.layers", 3 * D, ("input_layernorm", "post_attention_layernorm"), True, "attention"),
            **norm("gpt_neox.final_layer_norm", bias=True), "embed_out.weight": (V, D)}


def neox_config(**more):
    return {"model_type": "gpt_neox", "hidden_size": D, "intermediate_size": 4 * D, "num_hidden_layers": L, "num_attention_heads": HEADS,
            "vocab_size": V, "max_position_embeddings": T, "layer_norm_eps": 1e-5, "hidden_act": "gelu", "rotary_pct": 0.25,
            "use_parallel_residual": True, "tie_word_embeddings": False, "initializer_range": STD, **more}


def phi(extra=None):
    rows = {**norm("input_layernorm", bias=True), **linear("self_attn.dense", D, D, True), **linear("mlp.fc1", F, D, True),
            **linear("mlp.fc2", D, F, True), **(extra or {})}
    for p in "qkv":
        rows.update(linear(f"self_attn.{p}_proj", D, D, True))
    return {"model.embed_tokens.weight": (V, D), **layers("model.layers", rows), **norm("model.final_layernorm", bias=True),
            **linear("lm_head", V, D, True)}


def phi_config(**more):
    config = llama_config("phi", kv=HEADS, hidden_act="gelu_new", layer_norm_eps=1e-5, partial_rotary_factor=0.5, tie_word_embeddings=False, **more)
    del config["rms_norm_eps"]
    return config


def stablelm_config(**more):
    config = llama_config("stablelm", kv=2, layer_norm_eps=1e-5, partial_rotary_factor=0.25, tie_word_embeddings=False, **more)
    del config["rms_norm_eps"]
    return config


def head_norms(names, heads):
    return {f"self_attn.{n}.norms.{h}.weight": (HEAD,) for n in names for h in range(heads[n])}


SANDWICH = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
QK_HEAD = {"self_attn.q_norm.weight": (HEAD,), "self_attn.k_norm.weight": (HEAD,)}


def truth(placement, norm_kind, position, attention, ffn, tied, qk_norm="none", final_norm=True, scaled_init="no"):
    return {"placement": placement, "norm": norm_kind, "final_norm": final_norm, "scaled_init": scaled_init, "position": position,
            "attention": attention, "ffn": ffn, "qk_norm": qk_norm, "tied": tied}


def gemma_config(model_type, kv, **more):
    return llama_config(model_type, kv=kv, head_dim=HEAD, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", **more)


GPT2_CONFIG = {"model_type": "gpt2", "n_embd": D, "n_layer": L, "n_head": HEADS, "n_positions": T, "vocab_size": V, "activation_function": "gelu_new",
               "layer_norm_epsilon": 1e-5, "initializer_range": STD}
GPT2_TRUTH = truth("pre", "layer", "learned", "mha", "gelu_tanh", True, scaled_init="yes")
GPT2_SCALED = ("attn.c_proj.weight", "mlp.c_proj.weight")
NEOX_TRUTH = truth("parallel", "layer", "rope", "mha", "gelu", False)
LLAMA_TRUTH = truth("pre", "rms", "rope", "gqa", "swiglu", False)
GEMMA2_MORE = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 8, "query_pre_attn_scalar": 4}

CASES = [
    Case("gpt2", GPT2_CONFIG, gpt2_tensors(), GPT2_TRUTH, scaled=GPT2_SCALED),
    Case("gpt2-masks-no-prefix", GPT2_CONFIG, gpt2_tensors("", masks=True), GPT2_TRUTH, scaled=GPT2_SCALED),
    Case("llama", llama_config("llama", tie_word_embeddings=False), llama_like(llama_layer()), LLAMA_TRUTH),
    Case("llama-mha", llama_config("llama", kv=HEADS, tie_word_embeddings=False), llama_like(llama_layer(kv=HEADS)),
         {**LLAMA_TRUTH, "attention": "mha"}),
    Case("mistral", llama_config("mistral", sliding_window=8, tie_word_embeddings=False), llama_like(llama_layer()), LLAMA_TRUTH),
    Case("qwen2", llama_config("qwen2", tie_word_embeddings=True, use_sliding_window=False), llama_like(llama_layer(bias=True), head=False),
         {**LLAMA_TRUTH, "tied": True}),
    Case("qwen3", llama_config("qwen3", head_dim=8, tie_word_embeddings=False),
         llama_like(llama_layer(q=8 * HEADS, head=8, extra={"self_attn.q_norm.weight": (8,), "self_attn.k_norm.weight": (8,)})),
         {**LLAMA_TRUTH, "qk_norm": "rms"}),
    Case("gemma", gemma_config("gemma", 1), llama_like(llama_layer(kv=1), head=False),
         truth("pre", "rms", "rope", "mqa", "geglu", True), zero_gain=True),
    Case("gemma2", gemma_config("gemma2", 2, **GEMMA2_MORE), llama_like(llama_layer(norms=SANDWICH), head=False),
         truth("sandwich", "rms", "rope", "gqa", "geglu", True), zero_gain=True),
    Case("gemma3-text", gemma_config("gemma3_text", 2, sliding_window=8), llama_like(llama_layer(norms=SANDWICH, extra=QK_HEAD), head=False),
         truth("sandwich", "rms", "rope", "gqa", "geglu", True, qk_norm="rms"), zero_gain=True),
    Case("gemma3-vision", {"model_type": "gemma3", "text_config": gemma_config("gemma3_text", 2), "vision_config": {"num_hidden_layers": 9}},
         {**{f"language_model.{k}": v for k, v in llama_like(llama_layer(norms=SANDWICH, extra=QK_HEAD), head=False).items()},
          **layers("vision_tower.vision_model.encoder.layers", linear("self_attn.q_proj", 8, 8, True), 9),
          "multi_modal_projector.mm_soft_emb_norm.weight": (8,)},
         truth("sandwich", "rms", "rope", "gqa", "geglu", True, qk_norm="rms"), zero_gain=True),
    Case("opt", opt_config(), opt_tensors(final=True), truth("pre", "layer", "learned", "mha", "relu", True)),
    Case("opt-350m", opt_config(do_layer_norm_before=False, word_embed_proj_dim=8), opt_tensors(final=False, embed=8),
         truth("post", "layer", "learned", "mha", "relu", True, final_norm=False)),
    Case("bloom", {"model_type": "bloom", "hidden_size": D, "n_layer": L, "n_head": HEADS, "vocab_size": V, "layer_norm_epsilon": 1e-5,
                   "apply_residual_connection_post_layernorm": False, "initializer_range": STD},
         {"transformer.word_embeddings.weight": (V, D), **norm("transformer.word_embeddings_layernorm", bias=True),
          **fused("transformer.h", 3 * D, ("input_layernorm", "post_attention_layernorm"), True), **norm("transformer.ln_f", bias=True)},
         truth("pre", "layer", "alibi", "mha", "gelu_tanh", True)),
    Case("falcon-7b", falcon_config(), falcon(D + 2 * HEAD, ("input_layernorm",)), truth("parallel", "layer", "rope", "mqa", "gelu", True)),
    Case("falcon-40b", falcon_config(new_decoder_architecture=True, num_kv_heads=2), falcon(D + 4 * HEAD, ("ln_attn", "ln_mlp")),
         truth("parallel", "layer", "rope", "gqa", "gelu", True)),
    Case("falcon-rw", falcon_config(multi_query=False, parallel_attn=False, alibi=True, bias=True),
         falcon(3 * D, ("input_layernorm", "post_attention_layernorm"), bias=True), truth("pre", "layer", "alibi", "mha", "gelu", True)),
    Case("gpt_neox", neox_config(), neox(), NEOX_TRUTH),
    Case("gpt_neox-sequential", neox_config(use_parallel_residual=False), neox(), {**NEOX_TRUTH, "placement": "pre"}),
    Case("phi", phi_config(), phi(), truth("parallel", "layer", "rope", "mha", "gelu_tanh", False)),
    Case("phi-qk", phi_config(qk_layernorm=True), phi({**norm("self_attn.q_layernorm", HEAD, True), **norm("self_attn.k_layernorm", HEAD, True)}),
         truth("parallel", "layer", "rope", "mha", "gelu_tanh", False, qk_norm="layer")),
    Case("olmo2", llama_config("olmo2", tie_word_embeddings=False),
         llama_like(llama_layer(norms=("post_attention_layernorm", "post_feedforward_layernorm"),
                                extra={"self_attn.q_norm.weight": (D,), "self_attn.k_norm.weight": (2 * HEAD,)})),
         truth("post_branch", "rms", "rope", "gqa", "swiglu", False, qk_norm="rms_all")),
    Case("stablelm", stablelm_config(use_parallel_residual=False), llama_like(llama_layer(norm_bias=True), norm_bias=True),
         truth("pre", "layer", "rope", "gqa", "swiglu", False)),
    Case("stablelm-parallel-qk", stablelm_config(use_parallel_residual=True, qk_layernorm=True),
         llama_like(llama_layer(norms=("input_layernorm",), norm_bias=True,
                                extra=head_norms(("q_layernorm", "k_layernorm"), {"q_layernorm": HEADS, "k_layernorm": 2})), norm_bias=True),
         truth("parallel", "layer", "rope", "gqa", "swiglu", False, qk_norm="layer")),
    # Architectures that plumb does not know: names and config keys decide what they can.
    Case("unknown-like-llama", llama_config("newthing", tie_word_embeddings=False), llama_like(llama_layer()),
         {**LLAMA_TRUTH, "qk_norm": "unknown", "placement": "unknown"}),  # MiniMax has these names and is not Pre-LN
    Case("unknown-like-llama-no-config", None, llama_like(llama_layer()),
         truth("pre", "unknown", "unknown", "unknown", "glu", False, qk_norm="unknown")),
    Case("unknown-sandwich-no-config", None, llama_like(llama_layer(norms=SANDWICH)),
         truth("sandwich", "unknown", "unknown", "unknown", "glu", False, qk_norm="unknown")),
    Case("neox-no-config", None, neox(), truth("unknown", "layer", "rope", "mha", "mlp", False)),
    Case("unknown-names", {"model_type": "mystery", "hidden_size": D},
         {"tokens": (V, D), **layers("stage.block", {"mixer.alpha": (D, D), "mixer.omega": (D, D)})},
         truth("unknown", "unknown", "unknown", "unknown", "unknown", None, qk_norm="unknown", final_norm=None, scaled_init="unknown")),
]


def values_of(case, name, shape, rng):
    n = 1
    for s in shape:
        n *= s
    if name.endswith(".bias") or len(shape) == 0:
        return array.array("f", bytes(4 * n))
    if len(shape) == 1:
        return array.array("f", [0.0 if case.zero_gain else 1.0] * n)
    std = STD / (2 * L) ** 0.5 if name.endswith(tuple(case.scaled)) and case.scaled else STD
    return array.array("f", [rng.gauss(0, std) for _ in range(n)])


def tensors_of(case, seed=0):
    """{name: (shape, array of floats)}"""
    rng = random.Random(seed)
    return {name: (shape, values_of(case, name, shape, rng)) for name, shape in case.tensors.items()}


def safetensors_bytes(tensors, metadata=None, dtype="F32"):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (shape, values) in tensors.items():
        piece = {"F32": values.tobytes, "BF16": lambda: b"".join(struct.pack("<f", v)[2:] for v in values),
                 "F16": lambda: struct.pack(f"<{len(values)}e", *values)}[dtype]()
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_case(folder, case, dtype="F32"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if case.config is not None:
        (folder / "config.json").write_text(json.dumps(case.config))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors_of(case), {"format": "pt"}, dtype))
    return folder


def write_shards(folder, case, n=3):
    """The same in n shards with an index, as transformers writes them."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(case.config))
    tensors, weight_map = tensors_of(case), {}
    names = list(tensors)
    for i in range(n):
        file = f"model-{i + 1:05}-of-{n:05}.safetensors"
        part = names[i * len(names) // n:(i + 1) * len(names) // n]
        (folder / file).write_bytes(safetensors_bytes({k: tensors[k] for k in part}))
        weight_map.update({k: file for k in part})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    return folder


# -- PyTorch archives, opcode by opcode, as torch.save (1.6 and later) writes them

def text(s):
    return b"X" + struct.pack("<I", len(s.encode())) + s.encode()


def integer(i):
    return b"J" + struct.pack("<i", i)


def numbers(values):
    return b"(" + b"".join(map(integer, values)) + b"t"


def tensor_opcodes(key, shape, storage="FloatStorage", strides=None, offset=0, dtype=None):
    """_rebuild_tensor_v2 of a typed storage, or with `dtype` ("float8_e4m3fn") _rebuild_tensor_v3 of bytes, as PyTorch 2.x has for its newer types."""
    n = 1
    steps = []
    for s in reversed(shape):
        steps.insert(0, n)
        n *= s
    rebuild, of = ("_rebuild_tensor_v3", "torch.storage\nUntypedStorage") if dtype else ("_rebuild_tensor_v2", f"torch\n{storage}")
    return (f"ctorch._utils\n{rebuild}\n((".encode() + text("storage") + f"c{of}\n".encode() + text(key) + text("cpu") + integer(n) +
            b"tQ" + integer(offset) + numbers(shape) + numbers(strides or steps) + b"\x89ccollections\nOrderedDict\n)R" +
            (f"ctorch\n{dtype}\n".encode() if dtype else b"") + b"tR")


def state_dict_opcodes(tensors, keys=None):
    """An OrderedDict of tensors with the _metadata that Module.state_dict() sets; `keys`: {name: storage key}."""
    keys = keys or {name: str(i) for i, name in enumerate(tensors)}
    items = b"".join(text(name) + tensor_opcodes(keys[name], shape) for name, (shape, _) in tensors.items())
    return b"ccollections\nOrderedDict\n)R(" + items + b"u}" + text("_metadata") + b"}sb"


# Entries of kinds that are not read: what torch.save writes for them, {kind: opcodes}, each of 16 x 16 and with the storage "0".
def unread_opcodes():
    def call(name, arguments):
        return f"ctorch._utils\n{name}\n(".encode() + arguments + b"tR"

    size, part = b"ctorch\nSize\n" + numbers((D, D)) + b"\x85R", tensor_opcodes("0", (1,))
    layout = b"ctorch.serialization\n_get_layout\n"
    plain = tensor_opcodes("0", (D, D), storage="QInt8Storage")
    arguments = plain[plain.index(b"((") + 1:plain.index(b"\x89")]
    return {"sparse": call("_rebuild_sparse_tensor", layout + text("torch.sparse_coo") + b"\x85R(" + part + part + size + b"\x88t"),
            "csr": call("_rebuild_sparse_csr_tensor", layout + text("torch.sparse_csr") + b"\x85R(" + part * 3 + size + b"t"),
            "complex": tensor_opcodes("0", (D, D), storage="ComplexFloatStorage"),
            "quantised": call("_rebuild_qtensor", arguments + b"(ctorch\nper_tensor_affine\nG" + struct.pack(">d", 0.1) + integer(0) + b"t\x89}"),
            "nested": call("_rebuild_nested_tensor", part * 4),
            "meta": call("_rebuild_meta_tensor_no_storage", b"ctorch\nfloat32\n" + numbers((D, D)) + numbers((D, 1)) + b"\x89"),
            "float4_e2m1fn_x2": tensor_opcodes("0", (D, D), dtype="float4_e2m1fn_x2")}


def latent_attention(low_rank_queries=True):
    """DeepSeek's: {name: shape} of a layer's attention, with heads of 4 channels without position and 2 with."""
    queries = {**linear("self_attn.q_a_proj", 6, D), **norm("self_attn.q_a_layernorm", 6), **linear("self_attn.q_b_proj", HEADS * 6, 6)}
    return {**(queries if low_rank_queries else linear("self_attn.q_proj", HEADS * 6, D)), **linear("self_attn.kv_a_proj_with_mqa", 8 + 2, D),
            **norm("self_attn.kv_a_layernorm", 8), **linear("self_attn.kv_b_proj", HEADS * 8, 8), **linear("self_attn.o_proj", D, HEADS * 4)}


def write_archive(path, pickle, storages, compress=False):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as z:
        z.writestr("archive/data.pkl", b"\x80\x02" + pickle + b".")
        for key, data in storages.items():
            z.writestr(f"archive/data/{key}", data)
        z.writestr("archive/version", b"3\n")
    return path


def write_nanogpt(path):
    """ckpt.pt of nanoGPT: {"model": state dict, "model_args": {...}, "iter_num": n}, from torch.compile, head and embedding one storage."""
    case = Case("nanogpt", None, gpt2_tensors(conv=False, bias=False), None, scaled=GPT2_SCALED)
    tensors = {f"_orig_mod.{k}": v for k, v in tensors_of(case).items()}
    keys = {name: str(i) for i, name in enumerate(tensors)}
    storages = {keys[name]: values.tobytes() for name, (_, values) in tensors.items()}
    tensors["_orig_mod.lm_head.weight"] = tensors["_orig_mod.transformer.wte.weight"]
    keys["_orig_mod.lm_head.weight"] = keys["_orig_mod.transformer.wte.weight"]
    args = b"}(" + b"".join(text(k) + integer(v) for k, v in {"n_layer": L, "n_head": HEADS, "n_embd": D, "block_size": T, "vocab_size": V}.items())
    args += text("bias") + b"\x89" + text("dropout") + b"G" + struct.pack(">d", 0.0) + b"u"
    pickle = b"}(" + text("model") + state_dict_opcodes(tensors, keys) + text("model_args") + args + text("iter_num") + integer(2000)
    pickle += text("best_val_loss") + tensor_opcodes("loss", ()) + b"u"  # a tensor beside the model
    return write_archive(path, pickle, {**storages, "loss": bytes(4)})


def write_llama2c(path):
    """ckpt.pt of llama2.c: {"model": state dict, "model_args": {...}} of a Llama with Meta's names."""
    rows = {**linear("attention.wq", D, D), **linear("attention.wk", 2 * HEAD, D), **linear("attention.wv", 2 * HEAD, D), **linear("attention.wo", D, D),
            **linear("feed_forward.w1", F, D), **linear("feed_forward.w2", D, F), **linear("feed_forward.w3", F, D), **norm("attention_norm"), **norm("ffn_norm")}
    tensors = tensors_of(Case("llama2.c", None, {"tok_embeddings.weight": (V, D), **layers("layers", rows), **norm("norm"), "output.weight": (V, D)}, None))
    args = {"dim": D, "n_layers": L, "n_heads": HEADS, "n_kv_heads": 2, "vocab_size": V, "multiple_of": 8, "max_seq_len": T}
    pickle = b"}(" + text("model") + state_dict_opcodes(tensors) + text("model_args") + b"}("
    pickle += b"".join(text(k) + integer(v) for k, v in args.items()) + b"uu"
    return write_archive(path, pickle, {str(i): values.tobytes() for i, (_, values) in enumerate(tensors.values())})


NANOGPT_TRUTH = {**GPT2_TRUTH, "ffn": "gelu"}
