"""Loss and gradients of given parameters on given tokens, so that another implementation can be compared.

    /usr/bin/python3 bench/peers/torch/oracle.py params.safetensors tokens.json --config '{"n_head": 4}' [--float] > answer.json

tokens.json: {"x": [[ids]], "y": [[ids]]}. Sizes are read from the tensors; n_head, placement and norm_eps from --config.
The answer: {"loss", "grad_norm", "act_std": [embedded, after each block], "grad_std": likewise, "grads": {name: {"shape",
"data"}}, "logits" (with --logits)}. Computes in double unless --float. Other tensors in the file (optim.*) are ignored.
"""
import argparse
import json
import struct

import numpy as np
import torch

from model import Config, Decoder

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def read_safetensors(path):
    """{name: array}. BF16 is widened to float32."""
    with open(path, "rb") as f:
        blob = f.read()
    length = struct.unpack("<Q", blob[:8])[0]
    header, body = json.loads(blob[8:8 + length]), blob[8 + length:]
    tensors = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        raw = body[t["data_offsets"][0]:t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            array = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            array = np.frombuffer(raw, DTYPES[t["dtype"]])
        tensors[name] = array.reshape(t["shape"])
    return tensors


def infer(tensors, given):
    """The Config that these tensors belong to; `given` has what they do not tell."""
    cfg = dict(given)
    cfg["vocab_size"], cfg["d_model"] = tensors["embed.weight"].shape
    cfg["block_size"] = tensors["pos.weight"].shape[0]
    cfg["n_layer"] = sum(name.endswith(".attn.q.weight") for name in tensors)
    cfg["d_ff"] = tensors["blocks.0.ffn.in.weight"].shape[0]
    cfg["tied_embeddings"] = "head.weight" not in tensors
    cfg["ffn_bias"] = "blocks.0.ffn.in.bias" in tensors
    cfg["attention_bias"] = "blocks.0.attn.q.bias" in tensors
    cfg["final_norm"] = "final_norm.gamma" in tensors
    if "blocks.0.attn.norm.gamma" in tensors:
        cfg["norm"] = "layer" if "blocks.0.attn.norm.beta" in tensors else "rms"
    else:
        cfg["norm"] = "none"
    d_head = cfg["d_model"] // cfg.get("n_head", Config.n_head)
    cfg["n_kv_head"] = tensors["blocks.0.attn.k.weight"].shape[0] // d_head
    return Config.of(cfg)


def load(model, tensors):
    own = dict(model.named_parameters())
    missing = sorted(set(own) - set(tensors))
    if missing:
        raise SystemExit(f"the file lacks {', '.join(missing)}")
    with torch.no_grad():
        for name, p in own.items():
            if tuple(p.shape) != tensors[name].shape:
                raise SystemExit(f"{name} is {tensors[name].shape} in the file, {tuple(p.shape)} in the model")
            p.copy_(torch.from_numpy(tensors[name].astype(np.float64)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("params")
    parser.add_argument("tokens")
    parser.add_argument("--config", default="{}")
    parser.add_argument("--float", action="store_true")
    parser.add_argument("--logits", action="store_true")
    args = parser.parse_args()
    torch.set_default_dtype(torch.float32 if args.float else torch.float64)

    tensors = read_safetensors(args.params)
    model = Decoder(infer(tensors, json.loads(args.config)))
    load(model, tensors)
    tokens = json.load(open(args.tokens, encoding="utf-8"))
    stream = []
    logits, loss = model(torch.tensor(tokens["x"]), torch.tensor(tokens["y"]), keep=stream)
    loss.backward()
    pack = lambda t: {"shape": list(t.shape), "data": t.detach().reshape(-1).tolist()}
    grads = {name: p.grad for name, p in model.named_parameters()}
    answer = {"loss": loss.item(),
              "grad_norm": float(torch.linalg.vector_norm(torch.stack([g.norm() for g in grads.values()]))),
              "act_std": [h.detach().std(unbiased=False).item() for h in stream],
              "grad_std": [h.grad.std(unbiased=False).item() for h in stream],
              "grads": {name: pack(g) for name, g in grads.items()}}
    if args.logits:
        answer["logits"] = pack(logits)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
