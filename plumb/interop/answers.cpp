#include "plumb/interop/answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/text.h"

namespace plumb {
namespace {

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Answer from_spec(std::string value) {
  return {std::move(value), "the spec in the checkpoint's metadata says so"};
}

// What a flag decides that is neither true nor false.
Answer unclear(const Subject& s, FlagKey key) {
  return {"unknown", fmt::format("{} in {} is neither true nor false", key.flag->key, s.config_said())};
}

std::string norms_text(const std::vector<std::string>& norms) { return "each layer has " + join(norms); }

// What the names of a layer's norms say whoever the author is.
Answer placement_by_names(const std::vector<std::string>& norms) {
  const std::string have = norms_text(norms);
  if (has(norms, "pre_feedforward_layernorm") && has(norms, "post_feedforward_layernorm"))
    return {"sandwich", have + ": one norm before and one after the FFN"};
  if (has(norms, "post_self_attn_layernorm") && has(norms, "post_mlp_layernorm"))
    return {"sandwich", have + ": norms after both branches beside those before"};
  if (has(norms, "post_feedforward_layernorm") && !has(norms, "input_layernorm"))
    return {"post_branch", have + " and no norm before a branch"};
  return {};
}

Answer opt_placement(const Subject& s, bool has_names) {
  const bool final_norm = s.map.has(Part::final_norm);
  if (has_names && final_norm)
    return {"pre", "there is a norm after the last layer, which OPT has only as Pre-LN"};
  if (!s.config)
    return {"unknown",
            "OPT is Pre-LN or Post-LN by its config's do_layer_norm_before, and there is no config"};
  const Said before = s.flag_or("do_layer_norm_before", true);
  if (before == Said::unclear) return unclear(s, "do_layer_norm_before");
  if (before == Said::yes)
    return {
        "pre",
        "do_layer_norm_before is true (OPT's final_layer_norm inside a layer is the norm before the FFN)"};
  return {
      "post",
      "do_layer_norm_before is false: self_attn_layer_norm and final_layer_norm stand after the additions"};
}

Answer falcon_placement(const Subject& s, const std::vector<std::string>& norms) {
  if (has(norms, "ln_attn") && has(norms, "ln_mlp"))
    return {"parallel",
            norms_text(norms) + ": both branches read the layer's input, each through its own norm"};
  if (has(norms, "post_attention_layernorm"))
    return {"pre", norms_text(norms) + ": the second is the norm before the FFN"};
  if (!norms.empty()) return {"parallel", norms_text(norms) + " alone, which both branches read"};
  if (!s.config) return {};
  const Said grouped = s.flag_or("new_decoder_architecture", s.config.model_type() == "RefinedWeb"),
             parallel = s.flag_or("parallel_attn", true);
  if (grouped == Said::yes) return {"parallel", "new_decoder_architecture is true"};
  if (parallel == Said::yes) return {"parallel", "parallel_attn is true"};
  if (grouped == Said::unclear) return unclear(s, "new_decoder_architecture");
  if (parallel == Said::unclear) return unclear(s, "parallel_attn");
  return {"pre", "parallel_attn is false"};
}

Answer placement_by_rule(const Subject& s, const std::vector<std::string>& norms) {
  const bool named = !norms.empty();
  const std::string code = fmt::format("{}'s own code", s.arch->model_type);
  switch (s.arch->placement) {
    case PlacementRule::pre:
      if (named && norms.size() != 2)
        return {"unknown", norms_text(norms) + fmt::format(", where {} has two norms", s.arch->model_type)};
      return {"pre", named ? norms_text(norms) +
                                 ": the first before attention, the second before the FFN, by " + code
                           : "by " + code};
    case PlacementRule::sandwich:
    case PlacementRule::post_branch:
      if (named)
        return {"unknown",
                norms_text(norms) + fmt::format(", which are not those of {}", s.arch->model_type)};
      return {s.arch->placement == PlacementRule::sandwich ? "sandwich" : "post_branch", "by " + code};
    case PlacementRule::parallel:
      if (norms.size() > 1)
        return {"unknown", norms_text(norms) + fmt::format(", where {} has one norm", s.arch->model_type)};
      return {"parallel",
              (named ? norms_text(norms) + " alone, which both branches read, by " : "by ") + code};
    case PlacementRule::opt:
      return opt_placement(s, named);
    case PlacementRule::falcon:
      return falcon_placement(s, norms);
    case PlacementRule::gpt_neox: {
      if (!s.config)
        return {"unknown",
                "GPT-NeoX has the same tensors with parallel branches and without, and there is no config"};
      const Said parallel = s.flag_or("use_parallel_residual", true);
      if (parallel == Said::unclear) return unclear(s, "use_parallel_residual");
      if (parallel == Said::yes)
        return {
            "parallel",
            "use_parallel_residual is true: both branches read the layer's input, each through its own norm"};
      return {"pre", "use_parallel_residual is false"};
    }
    case PlacementRule::stablelm: {
      if (has(norms, "post_attention_layernorm"))
        return {"pre", norms_text(norms) + ": the second is the norm before the FFN"};
      if (named) return {"parallel", norms_text(norms) + " alone, which both branches read"};
      if (!s.config) return {};
      const Said parallel = s.flag_or("use_parallel_residual", false);
      if (parallel == Said::unclear) return unclear(s, "use_parallel_residual");
      return parallel == Said::yes ? Answer{"parallel", "use_parallel_residual is true"}
                                   : Answer{"pre", "use_parallel_residual is not true"};
    }
  }
  return {};
}

Answer placement_of_unknown(const Subject& s, const std::vector<std::string>& norms) {
  if (norms.empty()) return {"unknown", "no tensor is known as a norm of a layer"};
  static constexpr FlagKey keys[] = {"use_parallel_residual", "parallel_attn", "parallel_residual"};
  for (const FlagKey key : keys)
    if (s.config.flag(key) == Said::yes) return {"parallel", fmt::format("{} is true", key.flag->key)};
  for (const FlagKey key : keys)
    if (s.config.flag(key) == Said::unclear) return unclear(s, key);
  // Where a norm stands is the code's own matter: MiniMax and ChatGLM-6B have Llama's two names and take the
  // skip after the norm. Only those that are a Llama in every name are taken for one.
  const auto module = [&](std::string_view m) { return s.map.has_module(m); };
  if (has(norms, "input_layernorm") && has(norms, "post_attention_layernorm") && norms.size() == 2 &&
      s.config.model_type().empty() && module("q_proj") && module("gate_proj") && !s.map.has(Part::router))
    return {"pre",
            norms_text(norms) + ": with Llama's names for all matrices, the norms before attention and FFN"};
  if (norms.size() == 1)
    return {"unknown", norms_text(norms) + " alone: branches in parallel share one, but names do not say so"};
  return {"unknown", norms_text(norms) + ", names that do not say where they stand"};
}

// What the config would have said, to warn when the tensors say otherwise.
void warn_if_config_differs(Subject& s, const Answer& by_tensors) {
  if (!s.config || !s.arch || by_tensors.value == "unknown") return;
  const Answer by_config = placement_by_rule(s, {});
  if (by_config.value != "unknown" && by_config.value != by_tensors.value)
    s.warnings.push_back(fmt::format(
        "{} makes the placement \"{}\" ({}), but the tensors make it \"{}\" ({}); the tensors count.",
        s.config_said(), by_config.value, by_config.because, by_tensors.value, by_tensors.because));
}

bool norms_have_bias(const Subject& s) {
  return s.map.has_bias(Part::norm) || s.map.has_bias(Part::final_norm);
}

// Two tensors of one shape, both read in the order in which they are stored.
bool same_bytes(const Subject& s, const SourceTensor& first, const SourceTensor& second) {
  constexpr std::uint64_t piece = 1 << 20;
  const SourceTensor a = in_stored_order(first), b = in_stored_order(second);
  TensorReader reader_a(s.source), reader_b(s.source);
  std::vector<std::byte> of_a, of_b;
  for (std::uint64_t at = 0; at < a.bytes(); at += piece) {
    of_a.resize(std::min(piece, a.bytes() - at));
    of_b.resize(of_a.size());
    reader_a.read_bytes(a, at, of_a);
    reader_b.read_bytes(b, at, of_b);
    if (of_a != of_b) return false;
  }
  return true;
}

std::string ffn_name(const std::string& activation, bool gated) {
  const bool tanh_gelu = activation == "gelu_new" || activation == "gelu_pytorch_tanh" ||
                         activation == "gelu_fast" || activation == "gelu_tanh";
  if (gated) {
    if (activation == "silu" || activation == "swish") return "swiglu";
    if (activation == "gelu" || tanh_gelu) return "geglu";
    if (activation == "relu") return "reglu";
    return "glu (" + activation + ")";
  }
  if (activation == "swish") return "silu";
  return tanh_gelu ? "gelu_tanh" : activation;
}

// Whether head and embedding are said to be one, and who says so.
struct TieClaim {
  bool made = false, tied = false;
  std::string by;
};

TieClaim tie_claim(const Subject& s) {
  if (s.spec) return {true, s.spec->tied_embeddings, "the spec"};
  const Said said = s.config.flag("tie_word_embeddings");
  if (said == Said::unclear) return {};
  if (said != Said::nothing)
    return {true, said == Said::yes, fmt::format("tie_word_embeddings in {}", s.config_said())};
  if (s.arch && s.config)
    return {true, s.arch->tied,
            fmt::format("the default of {}, which {} leaves as it is,", s.arch->model_type, s.config_said())};
  return {};
}

Answer compare_head(Subject& s, const SourceTensor& embed, const SourceTensor& head, const TieClaim& claim) {
  const std::string both = embed.name + " and " + head.name;
  const bool one = embed.file == head.file && embed.offset == head.offset && embed.shape == head.shape &&
                   embed.strides == head.strides && embed.type == head.type;
  const bool equal =
      one || (embed.shape == head.shape && embed.type == head.type && same_bytes(s, embed, head));
  if (claim.made && claim.tied && !equal)
    s.warnings.push_back(
        fmt::format("{} says that head and embedding are tied, but the bytes of {} differ: a loader that "
                    "ties them drops the head.",
                    claim.by, both));
  else if (claim.made && claim.tied && !one)
    s.warnings.push_back(
        fmt::format("{} is stored although it is tied to {}: the same bytes twice.", head.name, embed.name));
  else if (claim.made && !claim.tied && equal)
    s.warnings.push_back(fmt::format(
        "{} says that head and embedding are not tied, but {} have the same bytes.", claim.by, both));
  return {equal ? "true" : "false", both + (one                         ? " are one storage"
                                            : equal                     ? " have the same bytes"
                                            : embed.shape == head.shape ? " differ"
                                                                        : " have different shapes")};
}

}  // namespace

Answer placement_of(Subject& s) {
  if (s.spec) return from_spec(s.spec->placement);
  const std::vector<std::string> norms = s.map.layer_norms();
  Answer answer = norms.empty() ? Answer{} : placement_by_names(norms);
  if (answer.value == "unknown")
    answer = s.arch ? placement_by_rule(s, norms) : placement_of_unknown(s, norms);
  if (!norms.empty()) warn_if_config_differs(s, answer);
  if (s.config.flag("apply_residual_connection_post_layernorm") == Said::yes)
    s.warnings.push_back(
        "apply_residual_connection_post_layernorm is true: the skip is taken after the norm, so that no "
        "identity path runs through the stack.");
  return answer;
}

Answer norm_of(Subject& s) {
  if (s.spec) return from_spec(s.spec->norm);
  const bool bias = norms_have_bias(s);
  if (s.arch) {
    if (bias && s.arch->norm == "rms") {
      s.warnings.push_back(fmt::format(
          "{} makes the norm RMSNorm, but the norms have biases, which RMSNorm has not; the tensors count.",
          s.architecture));
      return {"layer", "the norms have a bias beside the gain"};
    }
    const std::string more = bias               ? ", and the norms have a bias beside the gain"
                             : s.arch->plus_one ? "; its gains are stored as w and applied as 1 + w"
                                                : "";
    return {std::string(s.arch->norm), fmt::format("{}'s own code has {}{}", s.arch->model_type,
                                                   s.arch->norm == "rms" ? "RMSNorm" : "LayerNorm", more)};
  }
  if (bias) return {"layer", "the norms have a bias beside the gain, which RMSNorm has not"};
  // layer_norm_epsilon and its like say nothing: Qwen 1, Mamba, T5 and ChatGLM call RMSNorm's so.
  if (const auto eps = s.config.eps(); eps && eps->key == "rms_norm_eps")
    return {"rms", fmt::format("{} has the key rms_norm_eps", s.config_said())};
  if (s.map.has(Part::norm))
    return {"unknown", "the norms have gains and no biases: RMSNorm, or LayerNorm without a bias"};
  return {"unknown", "no tensor is known as a norm"};
}

Answer final_norm_of(Subject& s) {
  if (s.spec) return from_spec(s.spec->final_norm ? "true" : "false");
  if (const SourceTensor* t = s.map.find(Part::final_norm))
    return {"true", t->name + " stands after the layers"};
  const SourceTensor* embed_norm = s.map.find(Part::embed_norm);
  if (!s.arch && embed_norm)  // LFM2 calls the norm after its layers so
    return {"unknown",
            embed_norm->name + " is a norm outside of the layers, and its name does not say where"};
  if (s.complete && s.map.has(Part::norm))
    return {"false", "the layers have norms, and no tensor outside of them is one"};
  // OPT's config says it when its norms have no parameters.
  const bool opt_without = s.arch && s.arch->placement == PlacementRule::opt &&
                           s.config.flag("layer_norm_elementwise_affine") == Said::no;
  if (s.complete && s.map.n_layer > 0 && !opt_without)
    return {"unknown", "no tensor is known as a norm; a norm without parameters leaves none"};
  if (!s.arch || !s.config)
    return {"unknown", s.map.n_layer > 0 ? "not all tensors are in sight" : "no tensors of layers are known"};
  if (s.arch->placement == PlacementRule::opt) {
    const Said before = s.flag_or("do_layer_norm_before", true),
               removed = s.flag_or("_remove_final_layer_norm", false);
    const bool has_none = before == Said::no || removed == Said::yes;
    if (!has_none && before == Said::unclear) return unclear(s, "do_layer_norm_before");
    if (!has_none && removed == Said::unclear) return unclear(s, "_remove_final_layer_norm");
    return {has_none ? "false" : "true",
            "OPT has one when do_layer_norm_before is true and _remove_final_layer_norm is not"};
  }
  return {"true", fmt::format("{}'s own code has one", s.arch->model_type)};
}

Answer position_of(Subject& s) {
  if (s.spec) return from_spec(s.spec->position);
  const SourceTensor* table = s.map.find(Part::pos_embed);
  const std::string_view expected = s.arch ? s.arch->position : std::string_view();
  if (table) {
    if (!expected.empty() && expected != "learned")
      s.warnings.push_back(
          fmt::format("{} makes the positions {}, but there is a position table {}; the tensors count.",
                      s.architecture, expected, table->name));
    return {"learned",
            fmt::format("{} has {} rows{}", table->name, table->shape.empty() ? 0 : table->shape[0],
                        s.arch && s.arch->position_offset > 0
                            ? fmt::format(", of which the first {} are no positions", s.arch->position_offset)
                            : "")};
  }
  if (expected == "learned" && s.complete && s.map.n_layer > 0)
    return {"unknown", fmt::format("{} has a position table, but there is no such tensor", s.architecture)};
  if (!expected.empty()) return {std::string(expected), fmt::format("{}'s own code", s.arch->model_type)};
  const Said alibi = s.config.flag("alibi");
  if (alibi == Said::unclear) return unclear(s, "alibi");
  if (alibi == Said::yes) return {"alibi", "alibi is true"};
  if (alibi == Said::no && s.arch)
    return {"rope", fmt::format("alibi is false, and {} has rotary positions then", s.arch->model_type)};
  if (s.arch && s.config)
    return {"rope", fmt::format("{} has rotary positions unless alibi is true", s.arch->model_type)};
  if (const SourceTensor* t = s.map.find(Part::rope_frequency))
    return {"rope", t->name + " holds rotary frequencies"};
  for (const std::string_view key : {"rope_theta", "rope_scaling", "rope_parameters", "rotary_dim",
                                     "rotary_pct", "rotary_emb_base", "partial_rotary_factor"})
    if (s.config.has(key)) return {"rope", fmt::format("{} has the key {}", s.config_said(), key)};
  if (const auto kind = s.config.text("position_embedding_type");
      kind && (*kind == "rope" || *kind == "alibi"))
    return {*kind, "position_embedding_type says so"};
  return {"unknown", s.has_tensors
                         ? "no tensor is a position table, and rotary or relative positions leave no tensors"
                         : "the config does not say"};
}

Answer attention_of(const Subject& s) {
  if (s.spec)
    return {s.spec->kv_heads() == s.spec->n_head ? "mha"
            : s.spec->kv_heads() == 1            ? "mqa"
                                                 : "gqa",
            "the spec in the checkpoint's metadata says so"};
  if (const SourceTensor* t = s.map.find(Part::latent))
    return {"unknown", fmt::format("{} is of multi-head latent attention: keys and values are made from one "
                                   "latent vector, which is none of mha, gqa and mqa",
                                   t->name)};
  if (s.has_latent_attention())
    return {"unknown", fmt::format("{} has a kv_lora_rank, so attention is multi-head latent attention, "
                                   "which is none of mha, gqa and mqa",
                                   s.config_said())};
  if (s.q_width && s.kv_width) {
    const std::string widths = fmt::format("queries have {} channels and keys {}", *s.q_width, *s.kv_width);
    if (*s.q_width == *s.kv_width) return {"mha", widths};
    if (*s.kv_width > *s.q_width) return {"unknown", widths};
    if (!s.d_head || *s.d_head == 0 || *s.kv_width % *s.d_head != 0)
      return {"unknown", widths + ": heads share keys, but how many heads there are is not said"};
    return {*s.kv_width == *s.d_head ? "mqa" : "gqa",
            fmt::format("{}, {} a head: {} key heads for {} query heads", widths, *s.d_head,
                        *s.kv_width / *s.d_head, *s.q_width / *s.d_head)};
  }
  if (s.n_head && s.n_kv_head && s.config) {
    const std::string heads =
        fmt::format("{}: {} key heads for {} query heads", s.config_said(), *s.n_kv_head, *s.n_head);
    return {*s.n_kv_head == *s.n_head ? "mha" : *s.n_kv_head == 1 ? "mqa" : "gqa", heads};
  }
  if (s.arch && s.arch->kv == KvRule::falcon)
    for (const FlagKey key : {FlagKey("new_decoder_architecture"), FlagKey("multi_query")})
      if (s.config.flag(key) == Said::unclear) return unclear(s, key);
  return {"unknown", s.has_tensors ? "no tensors are known as query and key projections"
                                   : "the config does not say how many key heads there are"};
}

Answer ffn_of(const Subject& s) {
  if (s.spec) return from_spec(s.spec->ffn.kind);
  const bool gate = s.map.has(Part::gate) || s.map.has(Part::gate_up),
             two = s.map.has(Part::up) && s.map.has(Part::down);
  const SourceTensor* router = s.map.find(Part::router);
  if (router) return {"moe", router->name + " chooses among experts"};
  if (const SourceTensor* t = s.map.find_expert()) return {"moe", t->name + " is of one expert or of all"};
  const bool has_layers = s.map.n_layer > 0;
  if (s.has_tensors && !gate && !two && (has_layers || !s.arch))
    return {"unknown", "no tensors are known as an FFN"};
  if (!s.has_tensors && !s.arch) return {"unknown", "the config does not say how many matrices there are"};
  const bool gated = has_layers ? gate : s.arch && s.arch->gated;
  const std::string matrices = gated ? "three matrices (gate, up, down)" : "two matrices";
  if (const auto act = s.config.activation())
    return {ffn_name(act->second, gated),
            fmt::format("{}, and {} = \"{}\"", matrices, act->first, act->second)};
  if (s.arch && s.config)
    return {ffn_name(std::string(s.arch->activation), gated),
            fmt::format("{}, and {}'s own code has {}", matrices, s.arch->model_type, s.arch->activation)};
  return {gated ? "glu" : "mlp", matrices + "; the activation is not said"};
}

Answer qk_norm_of(const Subject& s) {
  if (s.spec) return from_spec(s.spec->attention.qk_norm);
  if (const SourceTensor* t = s.map.find(Part::q_norm)) {
    const std::string what = fmt::format("{} {}", t->name, shape_text(t->shape));
    if (s.map.has_bias(Part::q_norm) || (s.arch && s.arch->qk == QkRule::layer_if_set))
      return {"layer", what};
    const bool rms = s.arch ? s.arch->norm == "rms" : s.config.eps() && s.config.eps()->key == "rms_norm_eps";
    if (!rms) return {"yes", what + "; which norm it is, is not said"};
    const bool all =
        s.q_width && t->shape.size() == 1 && t->shape[0] == *s.q_width && s.n_head.value_or(0) != 1;
    return {all ? "rms_all" : "rms",
            what + (all ? ": over all heads together" : ": one gain for every head")};
  }
  if (!s.arch) return {"unknown", "no tensor is a norm of queries; one without gains leaves none"};
  const Said set = s.flag_or("qk_layernorm", false);
  if (s.arch->qk == QkRule::none) return {"none", fmt::format("{}'s own code has none", s.arch->model_type)};
  if (s.complete && s.map.n_layer > 0) return {"none", "no tensor is a norm of queries or keys"};
  if (s.arch->qk == QkRule::layer_if_set) {
    if (!s.config) return {};
    if (set == Said::unclear) return unclear(s, "qk_layernorm");
    return set == Said::yes ? Answer{"layer", "qk_layernorm is true"}
                            : Answer{"none", "qk_layernorm is not true"};
  }
  return {s.arch->qk == QkRule::rms ? "rms" : "rms_all", fmt::format("{}'s own code", s.arch->model_type)};
}

Answer tied_of(Subject& s) {
  const SourceTensor *embed = s.map.find(Part::token_embed), *head = s.map.find(Part::head);
  const TieClaim claim = tie_claim(s);
  if (embed && head && embed->unread.empty() && head->unread.empty() &&
      (embed->shape != head->shape || is_stored_transposed(*embed) == is_stored_transposed(*head)))
    return compare_head(s, *embed, *head, claim);
  if (!claim.made && s.config.flag("tie_word_embeddings") == Said::unclear)
    return unclear(s, "tie_word_embeddings");
  if (!claim.made && head)
    return {"unknown",
            !embed ? "no tensor is known as the embedding"
                   : fmt::format("{} and {} are not compared: one is of a kind that is not read, or lies "
                                 "transposed in its storage",
                                 embed->name, head->name)};
  if (!claim.made)
    return {"unknown", s.has_tensors
                           ? "no head is stored, which a tied model and a headless one have in common"
                           : "the config does not say"};
  if (!s.complete || head)
    return {claim.tied ? "true" : "false", claim.by + (claim.tied ? " says so" : " says that it is not")};
  if (claim.tied) return {"true", "no head is stored, and " + claim.by + " says that it is the embedding"};
  if (embed)
    s.warnings.push_back(
        fmt::format("No head is stored, and {} says that it is not the embedding: the checkpoint is a model "
                    "without its head.",
                    claim.by));
  return {"unknown", "no head is stored, and it is not said to be the embedding"};
}

}  // namespace plumb
