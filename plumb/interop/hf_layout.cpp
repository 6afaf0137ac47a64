#include "plumb/interop/hf_layout.h"

#include <algorithm>
#include <array>

namespace plumb {
namespace {

using P = PlacementRule;
using F = FusedLayout;
using K = KvRule;

// nanogpt is no model_type of Hugging Face: torch_archive.cpp calls a checkpoint with nanoGPT's model_args
// so.
constexpr std::array table{
    Architecture{.model_type = "gpt2",
                 .placement = P::pre,
                 .norm = "layer",
                 .position = "learned",
                 .fused = F::concat,
                 .activation = "gelu_new",
                 .tied = true,
                 .scaled_init = true,
                 .kv = K::queries,
                 .d_ff_factor = 4,
                 .qkv_bias = true},
    Architecture{.model_type = "nanogpt",
                 .placement = P::pre,
                 .norm = "layer",
                 .position = "learned",
                 .fused = F::concat,
                 .activation = "gelu",
                 .tied = true,
                 .scaled_init = true,
                 .kv = K::queries,
                 .d_ff_factor = 4},
    Architecture{.model_type = "llama",
                 .placement = P::pre,
                 .norm = "rms",
                 .position = "rope",
                 .gated = true,
                 .activation = "silu",
                 .eps = 1e-6,
                 .kv = K::or_queries},
    Architecture{.model_type = "mistral",
                 .placement = P::pre,
                 .norm = "rms",
                 .position = "rope",
                 .gated = true,
                 .activation = "silu",
                 .eps = 1e-6,
                 .window = 4096},
    Architecture{.model_type = "qwen2",
                 .placement = P::pre,
                 .norm = "rms",
                 .position = "rope",
                 .gated = true,
                 .activation = "silu",
                 .eps = 1e-6,
                 .window = 4096,
                 .window_needs_flag = true,
                 .qkv_bias = true},
    Architecture{.model_type = "qwen3",
                 .placement = P::pre,
                 .norm = "rms",
                 .position = "rope",
                 .qk = QkRule::rms,
                 .gated = true,
                 .activation = "silu",
                 .eps = 1e-6,
                 .d_head = 128,
                 .window = 4096,
                 .window_needs_flag = true},
    Architecture{.model_type = "gemma",
                 .placement = P::pre,
                 .norm = "rms",
                 .position = "rope",
                 .gated = true,
                 .activation = "gelu_pytorch_tanh",
                 .eps = 1e-6,
                 .tied = true,
                 .plus_one = true,
                 .d_head = 256,
                 .scaled_embedding = true},
    Architecture{.model_type = "gemma2",
                 .placement = P::sandwich,
                 .norm = "rms",
                 .position = "rope",
                 .gated = true,
                 .activation = "gelu_pytorch_tanh",
                 .eps = 1e-6,
                 .tied = true,
                 .plus_one = true,
                 .d_head = 256,
                 .softcap = 50,
                 .logit_softcap = 30,
                 .query_scalar = 256,
                 .window = 4096,
                 .full_every = 2,
                 .scaled_embedding = true},
    Architecture{.model_type = "gemma3",
                 .placement = P::sandwich,
                 .norm = "rms",
                 .position = "rope",
                 .qk = QkRule::rms,
                 .gated = true,
                 .activation = "gelu_pytorch_tanh",
                 .eps = 1e-6,
                 .tied = true,
                 .plus_one = true,
                 .d_head = 256,
                 .rope_base = 1e6,
                 .rope_local_base = 1e4,
                 .query_scalar = 256,
                 .window = 4096,
                 .full_every = 6,
                 .scaled_embedding = true},
    Architecture{.model_type = "opt",
                 .placement = P::opt,
                 .norm = "layer",
                 .position = "learned",
                 .activation = "relu",
                 .tied = true,
                 .position_offset = 2,
                 .kv = K::queries},
    Architecture{.model_type = "bloom",
                 .placement = P::pre,
                 .norm = "layer",
                 .position = "alibi",
                 .fused = F::per_head,
                 .activation = "gelu_new",
                 .tied = true,
                 .kv = K::queries,
                 .d_ff_factor = 4,
                 .embed_norm = true,
                 .qkv_bias = true},
    Architecture{.model_type = "falcon",
                 .placement = P::falcon,
                 .norm = "layer",
                 .position = "",
                 .alibi_form = "falcon",
                 .fused = F::grouped,
                 .activation = "gelu",
                 .tied = true,
                 .kv = K::falcon,
                 .d_ff_factor = 4},
    Architecture{.model_type = "gpt_neox",
                 .placement = P::gpt_neox,
                 .norm = "layer",
                 .position = "rope",
                 .fused = F::per_head,
                 .activation = "gelu",
                 .kv = K::queries,
                 .rope_fraction = 0.25},
    Architecture{.model_type = "phi",
                 .placement = P::parallel,
                 .norm = "layer",
                 .position = "rope",
                 .qk = QkRule::layer_if_set,
                 .activation = "gelu_new",
                 .kv = K::or_queries,
                 .rope_fraction = 0.5,
                 .head_bias = true,
                 .qkv_bias = true},
    Architecture{.model_type = "olmo2",
                 .placement = P::post_branch,
                 .norm = "rms",
                 .position = "rope",
                 .qk = QkRule::rms_all,
                 .gated = true,
                 .activation = "silu",
                 .kv = K::or_queries},
    Architecture{.model_type = "stablelm",
                 .placement = P::stablelm,
                 .norm = "layer",
                 .position = "rope",
                 .qk = QkRule::layer_if_set,
                 .gated = true,
                 .activation = "silu",
                 .rope_fraction = 0.25},
};

constexpr std::int64_t max_size = 1'000'000'000'000;  // larger ones are no sizes of anything

struct OtherName {
  std::string_view name, model_type;
};
constexpr OtherName other_names[] = {{"gemma3_text", "gemma3"},
                                     {"RefinedWeb", "falcon"},
                                     {"RefinedWebModel", "falcon"},
                                     {"stablelm_epoch", "stablelm"}};

}  // namespace

std::span<const Architecture> architectures() { return table; }

const Architecture* find_architecture(std::string_view model_type) {
  for (const OtherName& o : other_names)
    if (o.name == model_type) model_type = o.model_type;
  const auto found = std::ranges::find(table, model_type, &Architecture::model_type);
  return found == table.end() ? nullptr : &*found;
}

bool has_conv1d(const TensorMap& map) {
  const SourceTensor* qkv = map.find(Part::qkv);
  return qkv && map.has_module("c_attn") && qkv->shape.size() == 2 && qkv->size() > 0 &&
         qkv->shape[1] == 3 * qkv->shape[0];
}

const Architecture* architecture_of_names(const TensorMap& map) {
  const auto module = [&](std::string_view m) { return map.has_module(m); };
  const auto called = [&](Part part, std::string_view tensor) {
    const SourceTensor* t = map.find(part);
    return t && t->name.ends_with(tensor);
  };
  std::string_view name;
  // OpenAI's first GPT, which is Post-LN, has other embeddings and no norm after its layers; GPT-BigCode and
  // nanoGPT have all of these names and no Conv1D.
  if (called(Part::token_embed, "wte.weight") && called(Part::pos_embed, "wpe.weight") &&
      map.has(Part::final_norm) && module("ln_1") && module("ln_2") && has_conv1d(map))
    name = "gpt2";
  else if (map.tower == "gpt_neox.layers")
    name = "gpt_neox";
  else if (map.tower.ends_with("decoder.layers") && module("self_attn_layer_norm") && module("fc1") &&
           !module("encoder_attn_layer_norm"))
    name = "opt";
  else if (map.has(Part::embed_norm) && module("query_key_value") && module("dense_h_to_4h"))
    name = "bloom";
  else if (map.tower.ends_with("h") && module("query_key_value") && module("dense_h_to_4h"))
    name = "falcon";
  else if (module("dense") && module("q_proj") && module("fc1") && module("input_layernorm"))
    name = "phi";
  return name.empty() ? nullptr : find_architecture(name);
}

HfConfig::HfConfig(const Json& config) : config_(config) {
  const Json* text = config.find("text_config");
  if (text != nullptr && text->is_object()) config_ = Json(*text);
}

std::string HfConfig::model_type() const { return text("model_type").value_or(""); }

std::optional<HfConfig::Number> HfConfig::integer(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys)
    if (const Json* v = config_.find(key);
        v && v->is_int() && v->as_int(key) >= 0 && v->as_int(key) <= max_size)
      return Number{std::string(key), v->as_int(key)};
  return {};
}

std::optional<HfConfig::Real> HfConfig::real(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys)
    if (const Json* v = config_.find(key); v && v->is_number())
      return Real{std::string(key), v->as_double(key)};
  return {};
}

std::optional<HfConfig::Number> HfConfig::n_layer() const {
  return integer({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
}
std::optional<HfConfig::Number> HfConfig::d_model() const {
  return integer({"hidden_size", "n_embd", "n_embed", "d_model", "dim"});
}
std::optional<HfConfig::Number> HfConfig::n_head() const {
  return integer({"num_attention_heads", "n_head", "n_heads", "num_heads"});
}
std::optional<HfConfig::Number> HfConfig::n_kv_head() const {
  return integer({"num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"});
}
std::optional<HfConfig::Number> HfConfig::d_head() const { return integer({"head_dim", "d_head"}); }
std::optional<HfConfig::Number> HfConfig::d_ff() const {
  return integer({"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"});
}
std::optional<HfConfig::Number> HfConfig::block_size() const {
  return integer({"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "block_size"});
}
std::optional<HfConfig::Number> HfConfig::vocab_size() const { return integer({"vocab_size"}); }

std::optional<std::int64_t> HfConfig::size(std::string_view key) const {
  const auto n = integer({key});
  return n ? std::optional(n->value) : std::nullopt;
}

std::optional<HfConfig::Real> HfConfig::eps() const {
  return real({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps",
               "norm_epsilon"});
}
std::optional<HfConfig::Real> HfConfig::init_std() const { return real({"initializer_range", "init_std"}); }

Said HfConfig::flag(const ConfigFlag& flag) const {
  const Json* v = config_.find(flag.key);
  if (!v) return Said::nothing;
  if (v->is_bool()) return v->as_bool(flag.key) ? Said::yes : Said::no;
  if (v->is_int() && (v->as_int(flag.key) == 0 || v->as_int(flag.key) == 1))
    return v->as_int(flag.key) == 1 ? Said::yes : Said::no;  // as Python takes them
  return v->is_null() && flag.null_is_no ? Said::no : Said::unclear;
}

std::vector<std::string> HfConfig::unclear_flags() const {
  std::vector<std::string> keys;
  for (const ConfigFlag& f : config_flags)
    if (flag(f) == Said::unclear) keys.emplace_back(f.key);
  return keys;
}

std::optional<std::string> HfConfig::text(std::string_view key) const {
  const Json* v = config_.find(key);
  return v && v->is_string() ? std::optional(v->as_string(key)) : std::nullopt;
}

std::optional<std::pair<std::string, std::string>> HfConfig::activation() const {
  for (const char* key : {"hidden_activation", "hidden_act", "activation_function", "activation"})
    if (auto v = text(key)) return std::pair{std::string(key), *v};
  return {};
}

bool HfConfig::has(std::string_view key) const {
  const Json* v = config_.find(key);
  return v && !v->is_null();
}

}  // namespace plumb
