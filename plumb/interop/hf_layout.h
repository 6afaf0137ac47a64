// What Hugging Face's config.json and an architecture's own code say about a model, as data: one row an
// architecture. The rows are read off the modelling files of transformers 4.x
// (src/transformers/models/<model_type>).
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/interop/tensor_names.h"

namespace plumb {

/// How q, k and v lie in one matrix, by output channel.
enum class FusedLayout : std::uint8_t {
  none,
  concat,    // all of q, all of k, all of v
  per_head,  // q, k, v of head 0, then of head 1, …
  grouped    // the queries of a group, its key, its value, then the next group
};

/// How an architecture decides where its norms stand.
enum class PlacementRule : std::uint8_t {
  pre,
  sandwich,
  post_branch,
  parallel,
  opt,
  falcon,
  gpt_neox,
  stablelm
};

enum class QkRule : std::uint8_t {
  none,
  rms,           // one gain of head_dim for all heads
  rms_all,       // over all heads together
  layer_if_set,  // LayerNorm when the config's qk_layernorm is true
};

/// How many heads keys and values have.
enum class KvRule : std::uint8_t {
  config,      // as the config says; without a key, its class has a number of its own, unknown here
  or_queries,  // likewise, without a key as many as the queries
  queries,     // always as many as the queries
  falcon
};

struct Architecture {
  std::string_view model_type;
  PlacementRule placement;
  std::string_view norm;             // layer, rms
  std::string_view position;         // rope, learned, alibi; "" where the config says
  std::string_view alibi_form = {};  // of DecoderSpec, where it is not the default
  QkRule qk = QkRule::none;
  FusedLayout fused = FusedLayout::none;
  bool gated = false;
  std::string_view activation;       // when the config has no key for it
  double eps = 1e-5;                 // likewise
  bool tied = false;                 // likewise
  bool plus_one = false;             // gains are stored as w and applied as 1 + w
  bool scaled_init = false;          // its own initialisation scales what writes to the residual stream
  std::int64_t position_offset = 0;  // rows of the position table before the first position
  KvRule kv = KvRule::config;
  std::int64_t d_head = 0;  // when the config has no key for it; 0: d_model / n_head
  std::int64_t d_ff_factor =
      0;  // d_ff / d_model when the config has no key for d_ff; 0: not a multiple of it
  // When the config has no key for them:
  double rope_base = 10000, rope_local_base = 0, rope_fraction = 1;
  double softcap = 0, logit_softcap = 0;
  std::int64_t query_scalar = 0;   // scores are divided by its root; 0: by that of d_head
  std::int64_t window = -1;        // -1: it has none, whatever the config says
  std::int64_t full_every = 0;     // with a window: every so many layers the last sees all keys
  bool window_needs_flag = false;  // there is a window only where use_sliding_window is true
  // Of its own code:
  bool scaled_embedding = false;  // embeddings times sqrt(d_model)
  bool embed_norm = false, head_bias = false, qkv_bias = false;
};

/// The row of a model_type (or of an older name of it), or nullptr.
const Architecture* find_architecture(std::string_view model_type);
/// All rows.
std::span<const Architecture> architectures();

/// Whether q, k and v lie in a Conv1D, which is a linear layer stored [in, out]. GPT and GPT-2 have it;
/// nanoGPT and GPT-BigCode have its name c_attn and not the layer.
bool has_conv1d(const TensorMap& map);

/// The row whose tensor names these are and no other's that we know, or nullptr. Only architectures with
/// names of their own can be found: llama, mistral, qwen2 and gemma share theirs.
const Architecture* architecture_of_names(const TensorMap& map);

struct ConfigFlag {
  std::string_view key;
  /// Python takes null for false, people for "not set". Where the class's default is false, too, both say no.
  bool null_is_no = false;
};

/// Every flag of a config that is asked for.
inline constexpr ConfigFlag config_flags[] = {{"_remove_final_layer_norm", true},
                                              {"alibi", true},
                                              {"apply_residual_connection_post_layernorm", true},
                                              {"do_layer_norm_before"},
                                              {"layer_norm_elementwise_affine"},
                                              {"multi_query"},
                                              {"new_decoder_architecture"},
                                              {"parallel_attn"},
                                              {"parallel_residual"},
                                              {"qk_layernorm", true},
                                              {"scale_attn_by_inverse_layer_idx", true},
                                              {"scale_attn_weights"},
                                              {"tie_word_embeddings"},
                                              {"use_bidirectional_attention", true},
                                              {"use_parallel_residual"},
                                              {"use_sliding_window", true}};

/// The key of one of `config_flags`; another does not compile.
struct FlagKey {
  consteval FlagKey(const char* key) : flag(std::ranges::find(config_flags, key, &ConfigFlag::key)) {
    if (flag == std::end(config_flags)) throw "no flag of config_flags";
  }
  const ConfigFlag* flag;
};

/// What a config says of a flag. `unclear`: the key is there, and its value is neither true nor false.
enum class Said : std::uint8_t { nothing, no, yes, unclear };

/// A config with the several names that its keys have.
class HfConfig {
 public:
  HfConfig() = default;
  /// `config` may be null; a nested text_config is what counts in it.
  explicit HfConfig(const Json& config);

  explicit operator bool() const { return !config_.is_null(); }
  std::string model_type() const;
  /// What counts in it, as it came.
  const Json& json() const { return config_; }

  struct Number {
    std::string key;
    std::int64_t value;
  };
  /// The first of the names of a quantity that is there and an integer.
  std::optional<Number> n_layer() const, d_model() const, n_head() const, n_kv_head() const, d_head() const,
      d_ff() const, block_size() const, vocab_size() const;
  /// A size that has one name only.
  std::optional<std::int64_t> size(std::string_view key) const;
  struct Real {
    std::string key;
    double value;
  };
  std::optional<Real> eps() const, init_std() const;
  Said flag(FlagKey key) const { return flag(*key.flag); }
  /// The keys of all flags that are unclear, whoever asks for them.
  std::vector<std::string> unclear_flags() const;
  std::optional<std::string> text(std::string_view key) const;
  /// The first of the activation keys that is a text.
  std::optional<std::pair<std::string, std::string>> activation() const;
  /// Whether the key is there and not null.
  bool has(std::string_view key) const;

 private:
  std::optional<Number> integer(std::initializer_list<std::string_view> keys) const;
  std::optional<Real> real(std::initializer_list<std::string_view> keys) const;
  Said flag(const ConfigFlag& flag) const;
  Json config_;
};

}  // namespace plumb
