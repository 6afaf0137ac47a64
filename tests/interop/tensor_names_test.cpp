#include "plumb/interop/tensor_names.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

struct Known {
  std::string_view name;
  Part part;
  std::int64_t layer;
  bool bias = false;
};

// One line for each spelling that an architecture has.
TEST(TensorNames, SayWhatATensorIsFor) {
  for (const Known& k : {
           Known{"transformer.wte.weight", Part::token_embed, -1},
           Known{"wpe.weight", Part::pos_embed, -1},
           Known{"transformer.h.11.attn.c_attn.weight", Part::qkv, 11},
           Known{"h.0.attn.c_proj.weight", Part::attn_out, 0},
           Known{"h.0.mlp.c_proj.weight", Part::down, 0},
           Known{"h.0.attn.bias", Part::buffer, 0, true},
           Known{"h.0.attn.c_attn.bias", Part::qkv, 0, true},
           Known{"transformer.ln_f.weight", Part::final_norm, -1},
           Known{"_orig_mod.transformer.h.2.ln_1.weight", Part::norm, 2},
           Known{"model.layers.3.self_attn.o_proj.weight", Part::attn_out, 3},
           Known{"model.layers.3.self_attn.q_norm.weight", Part::q_norm, 3},
           Known{"model.layers.3.self_attn.q_layernorm.norms.5.weight", Part::q_norm, 3},
           Known{"model.layers.3.self_attn.rotary_emb.inv_freq", Part::rope_frequency, 3},
           Known{"model.layers.3.self_attn.kv_a_proj_with_mqa.weight", Part::latent, 3},
           Known{"model.layers.3.self_attn.kv_b_proj.weight", Part::latent, 3},
           Known{"model.layers.3.self_attn.q_a_proj.weight", Part::latent, 3},
           Known{"model.layers.3.self_attn.kv_a_layernorm.weight", Part::latent_norm, 3},
           Known{"model.layers.3.mlp.gate_proj.weight", Part::gate, 3},
           Known{"model.layers.3.mlp.gate.weight", Part::router, 3},
           Known{"model.layers.3.mlp.experts.7.down_proj.weight", Part::down, 3},
           Known{"model.layers.3.mlp.experts.gate_up_proj", Part::gate_up, 3},
           Known{"blocks.3.ffn.gate.weight", Part::gate, 3},
           Known{"blocks.3.ffn.router.weight", Part::router, 3},
           Known{"blocks.3.attn.norm.w", Part::norm, 3},
           Known{"blocks.3.attn.q_norm.temperature", Part::q_norm, 3},
           Known{"embed.norm.gamma", Part::embed_norm, -1},
           Known{"model.norm.weight", Part::final_norm, -1},
           Known{"model.decoder.layers.1.final_layer_norm.weight", Part::norm, 1},
           Known{"model.decoder.final_layer_norm.bias", Part::final_norm, -1, true},
           Known{"model.decoder.layers.1.fc1.weight", Part::up, 1},
           Known{"transformer.word_embeddings_layernorm.weight", Part::embed_norm, -1},
           Known{"gpt_neox.layers.0.attention.dense.weight", Part::attn_out, 0},
           Known{"embed_out.weight", Part::head, -1},
           Known{"layers.0.attention.wq.weight", Part::q, 0},
           Known{"layers.0.feed_forward.w2.weight", Part::down, 0},
           Known{"vision_tower.encoder.layers.0.self_attn.q_proj.weight", Part::side, 0},
           Known{"blocks.4.attn.norm.gamma", Part::norm, 4},
           Known{"blocks.4.ffn.out.weight", Part::down, 4},
           Known{"embed.scale", Part::scalar, -1},
           Known{"embed.project.weight", Part::project_in, -1},
           Known{"head.project.weight", Part::project_out, -1},
           Known{"model.project.weight", Part::unknown, -1},
           Known{"blocks.4.attn.hc.read", Part::scalar, 4},
           Known{"blocks.4.ffn.hc.mix", Part::scalar, 4},
           Known{"blocks.4.ffn.hc.write", Part::scalar, 4},
           Known{"blocks.4.attn.write", Part::unknown, 4},
           Known{"blocks.4.alpha", Part::scalar, 4},
           Known{"blocks.4.attn.lambda", Part::scalar, 4},
           Known{"blocks.4.ffn.in.weight_gain", Part::scalar, 4},
           Known{"blocks.4.attn.o.shift", Part::scalar, 4},
           Known{"final_norm.alpha", Part::scalar, -1},
           Known{"model.layers.4.mixer.alpha", Part::unknown, 4},
           Known{"optim.m.blocks.4.ffn.out.weight", Part::optimizer, -1},
           Known{"model.layers.0.mystery.weight", Part::unknown, 0},
           Known{"model.layers.0.mlp.up_proj.weight_scale", Part::unknown, 0},
           Known{"", Part::unknown, -1},
           Known{"....", Part::unknown, -1},
           Known{"layers.0", Part::unknown, 0},
           Known{"layers.99999999999999999999.fc1.weight", Part::unknown, -1},
       }) {
    const TensorName n = read_tensor_name(k.name);
    EXPECT_EQ(part_name(n.part), part_name(k.part)) << k.name;
    EXPECT_EQ(n.layer, k.layer) << k.name;
    EXPECT_EQ(n.bias, k.bias) << k.name;
  }
}

}  // namespace
}  // namespace plumb
