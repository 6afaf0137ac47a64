"""Warnings of `plumb inspect` about parts that are missing, of another size, or too many: norms of heads, projections of the embeddings."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_checkpoints as tiny  # noqa: E402
from inspecting import InAFolder, case, inspect  # noqa: E402

IN, OUT = "model.decoder.project_in.weight", "model.decoder.project_out.weight"


class Parts(InAFolder):
    def warned(self, name, words, config=None, tensors=None, without=()):
        """That the one warning has these words; `tensors` and `without` go by the ends of names: in every layer."""
        c = case(name)
        shapes = {k: next((shape for end, shape in (tensors or {}).items() if k.endswith(end)), s) for k, s in c.tensors.items() if not k.endswith(tuple(without))}
        answer = inspect(tiny.write_case(self.folder / "m", tiny.Case(name, {**c.config, **(config or {})}, shapes, None)))
        self.assertEqual([words in w and w.endswith(".") for w in answer["warnings"]], [True], answer["warnings"])
        return answer

    def test_norms_of_heads(self):
        name, q, k = "stablelm-parallel-qk", "self_attn.q_layernorm.norms.", "self_attn.k_layernorm.norms."
        self.warned(name, "In layer 0 heads 2 of the 4 of queries have no norm", without=[q + "2.weight"])
        self.warned(name, "In layer 0 heads 1 of the 2 of keys have no norm", without=[k + "1.weight"])
        self.warned(name, "Queries are normalised and keys are not", without=[k + "0.weight", k + "1.weight"])
        answer = self.warned(name, "must have the 4 channels of a head; these have not: model.layers.0.self_attn.q_layernorm.norms.0.weight [8]", tensors={q + "0.weight": (8,)})
        self.assertEqual((answer["d_head"], answer["n_head"]), (tiny.HEAD, tiny.HEADS))
        self.warned(name, "must have the 4 channels of a head", tensors={k + "1.weight": (3,)})
        self.warned("phi-qk", "must have the 4 channels of a head", tensors={"q_layernorm.weight": (tiny.D,)})
        self.warned(name, "qk_layernorm is not true in config.json, but model.layers.0.self_attn.q_layernorm.norms.0.weight is there", {"qk_layernorm": False})

    def test_norms_of_more_heads_than_there_are(self):
        c = case("stablelm-parallel-qk")
        more = {f"model.layers.{i}.self_attn.k_layernorm.norms.2.weight": (tiny.HEAD,) for i in range(tiny.L)}
        answer = inspect(tiny.write_case(self.folder / "m", tiny.Case("m", c.config, {**c.tensors, **more}, None)))
        self.assertEqual(["norms of keys for more heads than the 2 there are: 2." in w for w in answer["warnings"]], [True], answer["warnings"])

    def test_projections_of_the_embeddings(self):
        self.warned("opt-350m", IN + " is there, and no projection out of the layers", without=[OUT])
        self.warned("opt-350m", OUT + " is there, and no projection into the layers", without=[IN])
        self.warned("opt-350m", "has 8 columns and the layers 16 channels, but no projection is between them", without=[IN, OUT])
        self.warned("opt-350m", f"do not fit either: {IN} [8, 16].", tensors={IN: (8, tiny.D)})
        self.warned("opt-350m", f"do not fit either: {OUT} [8, 8].", tensors={OUT: (8, 8)})
        self.warned("opt-350m", "gives word_embed_proj_dim 4, but model.decoder.embed_tokens.weight has 8 columns", {"word_embed_proj_dim": 4})

    def test_a_shard_alone_lacks_nothing(self):
        for name in ("stablelm-parallel-qk", "opt-350m"):
            folder = tiny.write_shards(self.folder / name, case(name))
            for i in (1, 2, 3):
                self.assertEqual(inspect(folder / f"model-0000{i}-of-00003.safetensors")["warnings"], [], (name, i))


if __name__ == "__main__":
    unittest.main()
