// What a model is. Config, presets, imports, surgery and faults all make or edit one of these; nothing below
// this room knows about TOML. Fields that no user may set live at the end.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/// A decoder Transformer, resolved: every field has its final value (nothing is "auto" here but
/// `attention.scale`). Names and defaults are those of CONTRACT's `[model]` and `[init]`; component names are
/// validated against the component tables by `check_spec` in model/.
struct DecoderSpec {
  std::int64_t n_layer = 12, d_model = 128, n_head = 4, n_kv_head = 0 /* n_head */, d_head = 32, d_ff = 256,
               block_size = 64;
  std::int64_t vocab_size = 1200;
  std::int64_t kv_heads() const { return n_kv_head > 0 ? n_kv_head : n_head; }

  std::string norm = "layer";
  double norm_eps = 1e-5;
  bool norm_affine = true;
  bool norm_bias = true;            // beside the gain, where the norm has one
  std::string norm_gain = "plain";  // plus_one: stored as w, used as 1 + w (Gemma)
  std::int64_t norm_groups = 8;     // group
  double norm_momentum = 0.1;       // batch; 0: cumulative average
  double norm_alpha = 0.5,
         norm_alpha_attention = 0;  // dyt, derf: alpha at the start; before attention (0: the same)

  std::string placement = "pre";
  bool final_norm = true;
  std::string residual = "add";
  std::int64_t residual_lanes = 2;  // hyper_connections
  double layer_scale_init = 0;      // layer_scale; 0: by depth
  std::string weight_param = "plain";
  std::string position = "learned";
  bool tied_embeddings = true;
  std::string embedding_scale =
      "none";  // what token embeddings are multiplied by: none | sqrt_d | learned (sqrt_d at the start)
  bool head_bias = false;       // logits have a bias, where the head is a matrix of its own
  bool embedding_norm = false;  // a norm of the token embeddings, before positions
  std::string position_overflow =
      "error";  // learned positions past block_size: error | clamp (they read the last row)
  std::string alibi_form = "exact";  // exact | falcon: in bfloat16, divided by sqrt(d_head)
  std::int64_t d_embed = 0;          // width of the token embeddings; 0: d_model, no projections
  std::int64_t embedding_width() const { return d_embed > 0 ? d_embed : d_model; }
  double logit_softcap = 0;  // c > 0: logits are c tanh(z / c)

  struct Attention {
    std::string kind = "mha";
    std::string scale =
        "auto";  // auto: 1/sqrt(d_head), except where an entry implies another (t5: none, mup)
    std::string bias = "false";  // "false", "true", "qkv": not on the output projection
    bool qk_projection = true, value_projection = true;  // false: the heads are cut from the input as it is
    bool output_projection = true;                       // false: the heads write to the stream directly
    std::string qk_norm = "none";                        // none | l2 | rms | rms_all | layer | layer_heads
    double softcap = 0;       // c > 0: scores are c tanh(s / c), before bias and mask
    std::int64_t window = 0;  // keys that a query sees, itself included; 0: all
    std::int64_t full_every =
        0;  // with a window: every so many layers, the last of each, see all keys; 0: none
    /// The window of a layer, 0 where it sees all.
    std::int64_t window_of(std::int64_t layer) const {
      return full_every > 0 && (layer + 1) % full_every == 0 ? 0 : window;
    }
    bool qkv_bias() const { return bias != "false"; }
    bool out_bias() const { return bias == "true"; }
  } attention;

  struct Rope {
    double base = 10000;
    double local_base = 0;        // of the layers with a window, without scaling; 0: as the others
    std::string layout = "half";  // half: pairs (i, i + d/2); interleaved: (2i, 2i + 1)
    double fraction = 1;          // of each head that turns
    std::string scaling = "none";
    double factor = 4;
    std::int64_t original_block_size = 64;
  } rope;

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
    double leaky_slope = 0.01;   // of leaky_relu below 0, and in kaiming's gain
    std::int64_t base_d_model = 128,
                 base_d_head = 0;  // mup: the width at which it is the standard parametrisation
  } init;

  struct Numbers {
    std::string precision = "fp32";    // base/precision.h
    std::string norm_reduce = "fp32";  // storage: layer and rms norm add up in the storage format
  } numbers;

  struct Noise {
    double dropout = 0;     // train.dropout; in training only
    std::int64_t seed = 0;  // train.seed, of what it draws, and faults
  } noise;

  // -- no user may set these
  struct Flaws {
    std::vector<std::string> faults = {};  // those that change the graph (fault/fault.h)
    double strength = 1;
    std::int64_t mask_ahead = 0;  // position i sees keys up to i + mask_ahead
    bool mask_finite = false;     // masked scores are mask_value, not -inf
    double mask_value = 0;
    // learned positions: row t modulo wrap, rounded down to a multiple of step, at most last
    std::int64_t position_wrap = 0 /* 0: none */, position_step = 1,
                 position_last = -1 /* < 0: the table's */;
  } flaws;
  std::int64_t ignore_index = -100;  // a target with this value does not count in the loss
};

}  // namespace plumb
