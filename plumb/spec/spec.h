// What a model is. Config, presets, imports, surgery and faults all make or edit one of these; nothing below this room
// knows about TOML. Fields that no user may set live at the end.
#pragma once
#include <cstdint>
#include <string>

namespace plumb {

/// A decoder Transformer, resolved: every field has its final value (nothing is "auto" here but `attention.scale`).
/// Names and defaults are those of CONTRACT's `[model]` and `[init]`; component names are validated against the
/// component tables by `check_spec` in model/.
struct DecoderSpec {
  std::int64_t n_layer = 12, d_model = 128, n_head = 4, n_kv_head = 4, d_head = 32, d_ff = 256, block_size = 64;
  std::int64_t vocab_size = 1200;

  std::string norm = "layer";
  double norm_eps = 1e-5;
  bool norm_affine = true;
  double norm_momentum = 0.1;  // batch; 0: cumulative average

  std::string placement = "pre";
  bool final_norm = true;
  std::string residual = "add";
  std::int64_t residual_lanes = 2;  // hyper_connections
  std::string weight_param = "plain";
  std::string position = "learned";
  bool tied_embeddings = true;

  struct Attention {
    std::string kind = "mha";
    std::string scale = "auto";  // auto: 1/sqrt(d_head), except where an entry implies another (t5: none)
    bool bias = false;
  } attention;

  struct Ffn {
    std::string kind = "gelu";
    bool bias = true;
    std::int64_t n_expert = 8, top_k = 2;
    double balance_loss = 0.01, router_z_loss = 0.001;
  } ffn;

  struct InitRule {
    std::string scheme = "gpt2";
    std::string distribution = "normal";
    double std = 0.02;
    bool residual_scale = true;  // x 1/sqrt(2 n_layer) on what writes to the residual stream (gpt2)
  } init;

  // -- no user may set these
  std::int64_t ignore_index = -100;  // a target with this value does not count in the loss
};

}  // namespace plumb
