#include "plumb/interop/import.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/interop/answers.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"

namespace plumb {
namespace {

// -- config to spec

std::int64_t needed(const Subject& s, const std::optional<std::int64_t>& n, const char* what) {
  if (!n) bad_input("{}: neither config nor tensors give {}; it cannot be built", s.source.name, what);
  return *n;
}

double real(const Json& object, std::string_view key, double otherwise) {
  const Json* v = object.find(key);
  if (!v || v->is_null()) return otherwise;
  if (!v->is_number()) bad_input("{} in the model's config is no number; correct it there", key);
  return v->as_double(key);
}

std::int64_t whole(const Json& object, std::string_view key, std::int64_t otherwise) {
  const Json* v = object.find(key);
  if (!v || v->is_null()) return otherwise;
  if (!v->is_int()) bad_input("{} in the model's config is no whole number; correct it there", key);
  return v->as_int(key);
}

// Read as absent, such a flag would make another model.
void refuse_unclear_flags(const Subject& s) {
  for (const std::string& key : s.config.unclear_flags())
    bad_input("{}: {} in {} is neither true nor false; correct it there", s.source.name, key,
              s.config_said());
}

// What changes the function that a model is, and has no part here.
void refuse_other_functions(const Subject& s) {
  struct Flag {
    FlagKey key;
    bool harmless;
  };
  static constexpr Flag flags[] = {{"apply_residual_connection_post_layernorm", false},
                                   {"scale_attn_by_inverse_layer_idx", false},
                                   {"scale_attn_weights", true},
                                   {"use_bidirectional_attention", false},
                                   {"_remove_final_layer_norm", false}};
  for (const Flag& f : flags)
    if (s.flag_or(f.key, f.harmless) != (f.harmless ? Said::yes : Said::no))
      bad_input("{}: {} = {} in {} has no place in plumb's decoder", s.source.name, f.key.flag->key,
                !f.harmless, s.config_said());
  if (s.map.has(Part::project_in) != s.map.has(Part::project_out))
    bad_input("{}: only one of the projections into and out of the layers is there", s.source.name);
  struct Owned {
    const char* what;
    bool has, there;
  };
  const bool gated = s.map.has(Part::gate), biased = s.map.has_bias(Part::qkv) || s.map.has_bias(Part::q);
  for (const Owned& o : {Owned{"a gate in its feed-forward networks", s.arch->gated, gated},
                         {"a norm of the embeddings", s.arch->embed_norm, s.map.has(Part::embed_norm)},
                         {"a bias on the logits", s.arch->head_bias, s.map.has_bias(Part::head)},
                         {"biases on q, k and v", s.arch->qkv_bias, biased}})
    if (o.has && !o.there)
      bad_input("{}: there is no {}, which {} has", s.source.name,
                std::string_view(o.what).substr(o.what[0] == 'a' ? 2 : 0), s.architecture);
  if (const auto n = s.config.n_layer(); n && s.n_layer && n->value != *s.n_layer)
    bad_input("{}: {} says {} layers, but the tensors have {}", s.source.name, s.config_said(), n->value,
              *s.n_layer);
  if (s.map.has(Part::router) || s.map.find_expert() || s.has_latent_attention())
    bad_input("{}: mixtures of experts and latent attention are not read yet", s.source.name);
}

void read_scaling(const Subject& s, const Json& scaling, DecoderSpec& d) {
  const Json* type = scaling.find("rope_type");
  if (!type) type = scaling.find("type");
  const std::string kind = type && type->is_string() ? type->as_string("rope_type") : "default";
  if (kind == "default") return;
  d.rope.scaling = kind == "dynamic" ? "dynamic_ntk" : kind;
  if (d.rope.scaling != "linear" && d.rope.scaling != "dynamic_ntk" && d.rope.scaling != "yarn")
    bad_input(
        "{}: rotary positions are scaled by '{}', which plumb does not have (it has linear, dynamic and "
        "yarn)",
        s.source.name, kind);
  if (kind == "yarn") {
    struct Number {
      const char* key;
      double ours;
    };
    for (const Number& n : {Number{"beta_fast", 32}, {"beta_slow", 1}})
      if (real(scaling, n.key, n.ours) != n.ours)
        bad_input("{}: YaRN with {} = {}; plumb has {}", s.source.name, n.key, real(scaling, n.key, n.ours),
                  n.ours);
    for (const char* key : {"attention_factor", "mscale", "mscale_all_dim"})
      if (const Json* v = scaling.find(key); v && !v->is_null())
        bad_input("{}: YaRN with its own {} has no place in plumb's decoder", s.source.name, key);
  }
  d.rope.factor = real(scaling, "factor", 1);
  d.rope.original_block_size = whole(scaling, "original_max_position_embeddings", d.block_size);
}

void read_rope(const Subject& s, const Json& config, DecoderSpec& d) {
  d.rope.base = s.arch->rope_base, d.rope.local_base = s.arch->rope_local_base;
  d.rope.fraction = s.arch->rope_fraction;
  const Json* scaling = config.find("rope_scaling");
  d.rope.base = real(config, "rope_theta", real(config, "rotary_emb_base", d.rope.base));
  d.rope.local_base = real(config, "rope_local_base_freq", d.rope.local_base);
  for (const char* key : {"partial_rotary_factor", "rotary_pct", "rope_pct"})
    d.rope.fraction = real(config, key, d.rope.fraction);
  // transformers 5 keeps all of it in one object, or in one for each kind of layer.
  if (const Json* all = config.find("rope_parameters"); all && all->is_object()) {
    scaling = all;
    if (const Json* local = all->find("sliding_attention"); local && local->is_object())
      d.rope.local_base = real(*local, "rope_theta", d.rope.local_base);
    if (const Json* full = all->find("full_attention"); full && full->is_object()) scaling = full;
    d.rope.base = real(*scaling, "rope_theta", d.rope.base);
    d.rope.fraction = real(*scaling, "partial_rotary_factor", d.rope.fraction);
  }
  if (scaling && scaling->is_object()) read_scaling(s, *scaling, d);
}

void read_window(const Subject& s, const Json& config, DecoderSpec& d) {
  auto& a = d.attention;
  if (s.arch->window < 0) return;
  const Json* said = config.find("sliding_window");
  if (s.flag_or("use_sliding_window", !s.arch->window_needs_flag) == Said::yes)
    a.window = said && said->is_null() ? 0 : whole(config, "sliding_window", s.arch->window);
  // Of Qwen: the layers from this one on.
  const auto from = s.config.size("max_window_layers");
  if (from && s.arch->window_needs_flag && a.window > 0) {
    if (*from > 0 && *from < d.n_layer)
      bad_input(
          "{}: max_window_layers = {} gives a window to some of {} layers, in an order that plumb's "
          "full_every cannot",
          s.source.name, *from, d.n_layer);
    if (*from >= d.n_layer) a.window = 0;
  }
  a.full_every =
      whole(config, "sliding_window_pattern", whole(config, "_sliding_window_pattern", s.arch->full_every));
  const Json* types = config.find("layer_types");
  if (!types || !types->is_array() || a.window == 0) return;
  std::int64_t layer = 0;
  for (const Json& type : types->as_array("layer_types")) {
    const bool full = type.is_string() && type.as_string("layer_types") == "full_attention";
    if (layer < d.n_layer && full != (a.window_of(layer) == 0))
      bad_input("{}: layer_types gives windows to layers in an order that plumb's full_every cannot",
                s.source.name);
    ++layer;
  }
}

DecoderSpec spec_of_config(Subject& s, const Json& config) {
  const Architecture& arch = *s.arch;
  refuse_unclear_flags(s);
  refuse_other_functions(s);
  DecoderSpec d;
  d.n_layer = needed(s, s.n_layer, "n_layer"), d.d_model = needed(s, s.d_model, "d_model");
  d.n_head = needed(s, s.n_head, "n_head"), d.d_head = needed(s, s.d_head, "d_head");
  d.n_kv_head = needed(s, s.n_kv_head, "n_kv_head"), d.d_ff = needed(s, s.d_ff, "d_ff");
  d.vocab_size = needed(s, s.vocab_size, "vocab_size"), d.block_size = s.block_size.value_or(2048);
  d.norm = norm_of(s).value, d.placement = placement_of(s).value, d.position = position_of(s).value;
  d.final_norm = final_norm_of(s).value == "true";
  if (!d.final_norm && d.placement != "post")
    bad_input("{}: there is no norm after the layers, which {} has", s.source.name, s.architecture);
  d.tied_embeddings = tied_of(s).value == "true";
  d.norm_gain = arch.plus_one ? "plus_one" : "plain";
  const auto eps = s.config.eps();
  d.norm_eps = eps ? eps->value : arch.eps;
  d.norm_bias = std::ranges::any_of(
      s.map.tensors, [](const NamedTensor& t) { return t.name.part == Part::norm && t.name.bias; });
  d.embedding_norm = s.map.has(Part::embed_norm);
  d.head_bias = s.map.has_bias(Part::head);
  if (arch.scaled_embedding) d.embedding_scale = "sqrt_d";
  if (const SourceTensor* table = s.map.find(Part::token_embed);
      s.map.has(Part::project_in) && table && table->shape.size() == 2)
    d.d_embed = table->shape[1];
  d.attention.qk_norm = qk_norm_of(s).value;
  // A module with a number: the norm of one head.
  const bool of_heads = std::ranges::any_of(s.map.tensors, [](const NamedTensor& t) {
    return t.name.part == Part::q_norm && t.name.module == "0";
  });
  if (d.attention.qk_norm == "layer" && of_heads) d.attention.qk_norm = "layer_heads";
  if (d.attention.qk_norm == "none" && arch.qk == QkRule::layer_if_set &&
      s.flag_or("qk_layernorm", false) == Said::yes)
    bad_input("{}: {} has qk_layernorm = true, but there is no norm of queries and keys", s.source.name,
              s.config_said());
  if (d.attention.qk_norm == "none" && (arch.qk == QkRule::rms || arch.qk == QkRule::rms_all))
    bad_input("{}: there is no norm of queries and keys, which {} has", s.source.name, s.architecture);
  const bool out_bias = s.map.has_bias(Part::attn_out),
             qkv_bias = s.map.has_bias(Part::qkv) || s.map.has_bias(Part::q);
  if (out_bias && !qkv_bias)
    bad_input("{}: a bias on the attention's output and none on q, k, v is no attention that plumb has",
              s.source.name);
  d.attention.bias = out_bias ? "true" : qkv_bias ? "qkv" : "false";
  const auto cap = [&](const char* key, double otherwise) {
    const Json* v = config.find(key);
    return v && v->is_null() ? 0 : real(config, key, otherwise);
  };
  d.attention.softcap = cap("attn_logit_softcapping", arch.softcap);
  d.logit_softcap = cap("final_logit_softcapping", arch.logit_softcap);
  read_window(s, config, d);
  d.ffn.kind = ffn_of(s).value;
  const auto act = s.config.activation();
  if (d.ffn.kind == "geglu" && (act ? act->second : std::string(arch.activation)) != "gelu")
    d.ffn.kind = "geglu_tanh";
  d.ffn.bias = s.map.has_bias(Part::down);
  d.init.scheme = "normal";
  if (d.position == "rope") read_rope(s, config, d);
  if (d.position == "alibi" && !arch.alibi_form.empty()) d.alibi_form = arch.alibi_form;
  for (const std::string* unclear : {&d.norm, &d.placement, &d.position, &d.attention.qk_norm})
    if (*unclear == "unknown" || *unclear == "yes")
      bad_input("{}: config and tensors do not decide how it is built; `plumb inspect` says what is known",
                s.source.name);
  return spec_from_json(spec_to_json(d), s.source.name);  // the ranges of every setting have one home
}

// -- tensors to parameters

using Floats = std::vector<float>;

class Reader {
 public:
  Reader(const Subject& s, const DecoderSpec& spec) : s_(s), d_(spec), reader_(s.source) {}

  /// The values of one of our parameters.
  Floats read(const ParamSpec& p) {
    std::string name = p.name;
    if (name.starts_with("blocks.")) name.erase(0, name.find('.', 7) + 1);
    Floats values = of(name, p);
    if (static_cast<std::int64_t>(values.size()) != p.shape.size())
      bad_input("{}: what should be {} has {} elements, but the model needs {}", s_.source.name, p.name,
                values.size(), p.shape.text());
    return values;
  }

  /// Refuses a tensor of the model that no parameter took.
  void expect_all_read() const {
    std::vector<std::string> left;
    for (const NamedTensor& t : s_.map.tensors)
      if (t.name.part < Part::rope_frequency && !read_.contains(t.tensor) &&
          !(t.name.part == Part::head && d_.tied_embeddings))
        left.push_back(t.tensor->name);
    if (!left.empty()) bad_input("{}: plumb's decoder has no place for {}", s_.source.name, some_of(left));
  }

 private:
  const SourceTensor* find(Part part, int layer, bool bias, std::string_view module = {}) const {
    for (const NamedTensor& t : s_.map.tensors)
      if (t.name.part == part && t.name.layer == layer && t.name.bias == bias &&
          (module.empty() || t.name.module == module))
        return t.tensor;
    return nullptr;
  }

  Floats all(const SourceTensor& t) {
    const bool is_float = t.type == StoredType::f64 || t.type == StoredType::f32 ||
                          t.type == StoredType::f16 || t.type == StoredType::bf16;
    if (!is_float || !CheckpointSource::is_readable(t))
      bad_input("{}: {} is {}, which is not read as weights", s_.source.name, t.name,
                t.unread.empty() ? "quantised or no floating point" : t.unread);
    read_.insert(&t);
    Floats v(t.size());
    reader_.read(t, 0, v);
    return v;
  }

  // As [out, in]. It must have the parameter's sizes, or `rows` of them where only a part is wanted.
  Floats needed(Part part, const ParamSpec& p, bool bias, std::string_view module = {},
                std::int64_t rows = 0) {
    const SourceTensor* t = find(part, p.layer, bias, module);
    if (!t) bad_input("{}: no tensor is known as what plumb calls {}", s_.source.name, p.name);
    const bool turned = s_.transposed && t->shape.size() == 2 && p.layer >= 0;
    std::vector<std::int64_t> want, is = t->shape;
    for (const Dim& d : p.shape.dims) want.push_back(d.n);
    if (rows > 0) want.front() = rows;
    if (turned) std::ranges::reverse(is);
    if (is != want)
      bad_input("{}: {} is {}, but what plumb calls {} needs {}{}", s_.source.name, t->name,
                shape_text(t->shape), p.name, shape_text(want), turned ? ", transposed" : "");
    Floats v = all(*t);
    return turned ? transposed(v, t->shape[0], t->shape[1]) : v;
  }

  static Floats transposed(const Floats& v, std::int64_t rows, std::int64_t cols) {
    Floats out(v.size());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        out[static_cast<std::size_t>(j * rows + i)] = v[static_cast<std::size_t>(i * cols + j)];
    return out;
  }

  // The names of a norm's module in the architectures of the table.
  Floats norm(const ParamSpec& p, std::string_view ours, bool bias) {
    using Names = std::vector<std::string_view>;
    const auto names = s_.map.layer_norms();
    const bool twice = std::ranges::find(names, "post_feedforward_layernorm") != names.end();
    const bool behind = d_.placement == "post_branch";
    Names candidates;
    if (ours == "attn.norm")
      candidates = behind ? Names{"post_attention_layernorm"}
                          : Names{"ln_1", "input_layernorm", "self_attn_layer_norm", "ln_attn"};
    if (ours == "attn.norm_out") candidates = {"post_attention_layernorm"};
    if (ours == "ffn.norm" && behind) candidates = {"post_feedforward_layernorm"};
    if (ours == "ffn.norm" && !behind) {
      candidates = {"ln_2", "pre_feedforward_layernorm", "final_layer_norm", "ln_mlp"};
      if (!twice) candidates.emplace_back("post_attention_layernorm");
      if (d_.placement == "parallel")
        candidates.emplace_back("input_layernorm");  // one, read by both branches
    }
    if (ours == "ffn.norm_out") candidates = {"post_feedforward_layernorm"};
    for (const std::string_view m : candidates)
      if (find(Part::norm, p.layer, bias, m)) return needed(Part::norm, p, bias, m);
    bad_input("{}: no norm is known as what plumb calls {}; the layers have {}", s_.source.name, p.name,
              names.empty() ? "no norms with parameters" : join(names));
  }

  // Rows `which` (0 q, 1 k, 2 v) of a fused matrix or bias: groups of queries, their keys, their values.
  Floats unfused(const ParamSpec& p, int which, bool bias) {
    const FusedLayout layout = s_.arch->fused;
    if (layout == FusedLayout::none)
      bad_input("{}: q, k and v lie in one matrix, and {} does not say how", s_.source.name, s_.architecture);
    const std::int64_t d = d_.d_head, kv = d_.kv_heads(), width = bias ? 1 : d_.d_model;
    if (layout == FusedLayout::per_head && kv != d_.n_head)
      bad_input(
          "{}: q, k and v of each head lie together in {}, but there are {} heads of queries and {} of keys",
          s_.source.name, s_.architecture, d_.n_head, kv);
    const Floats fused = needed(Part::qkv, p, bias, {}, (d_.n_head + 2 * kv) * d);
    const std::int64_t groups = layout == FusedLayout::concat ? 1 : kv;
    const std::int64_t queries = d_.n_head / groups * d, keys = kv / groups * d;
    Floats out;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * (queries + 2 * keys) + (which == 0 ? 0 : queries + (which - 1) * keys);
      const std::int64_t n = which == 0 ? queries : keys;
      out.insert(out.end(), fused.begin() + first * width, fused.begin() + (first + n) * width);
    }
    return out;
  }

  // Gemma 2 and 3 divide scores by the root of query_pre_attn_scalar, plumb by that of d_head. The queries take
  // up the difference, or the gain of their norm, where they have one.
  double score_factor() const {
    const std::int64_t scalar = s_.config.size("query_pre_attn_scalar").value_or(s_.arch->query_scalar);
    return scalar > 0 ? std::sqrt(static_cast<double>(d_.d_head) / static_cast<double>(scalar)) : 1;
  }

  Floats projection(const ParamSpec& p, int which, bool bias) {
    constexpr Part parts[] = {Part::q, Part::k, Part::v};
    Floats v = find(Part::qkv, p.layer, bias) ? unfused(p, which, bias) : needed(parts[which], p, bias);
    if (which == 0 && d_.attention.qk_norm == "none")
      for (float& x : v) x = static_cast<float>(x * score_factor());
    return v;
  }

  // The gains of heads that have a norm each, head after head.
  Floats head_gains(Part part, const ParamSpec& p, bool bias) {
    if (d_.attention.qk_norm != "layer_heads") return needed(part, p, bias);
    Floats all;
    for (std::int64_t h = 0; h < p.shape.size() / d_.d_head; ++h) {
      const Floats one = needed(part, p, bias, std::to_string(h), d_.d_head);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  Floats query_gain(const ParamSpec& p, bool bias) {
    Floats v = head_gains(Part::q_norm, p, bias);
    const double one = d_.norm_gain == "plus_one" && !bias ? 1 : 0;
    for (float& x : v) x = static_cast<float>((one + x) * score_factor() - one);
    return v;
  }

  Floats of(const std::string& name, const ParamSpec& p) {
    const bool bias = name.ends_with(".bias") || name.ends_with(".beta");
    const std::string ours = name.substr(0, name.rfind('.'));
    if (ours == "embed.project") return needed(Part::project_in, p, false);
    if (ours == "head.project") return needed(Part::project_out, p, false);
    if (ours == "embed") return needed(Part::token_embed, p, false);
    if (ours == "head") return needed(Part::head, p, bias);
    if (ours == "final_norm") return needed(Part::final_norm, p, bias);
    if (ours == "embed.norm") return needed(Part::embed_norm, p, bias);
    if (ours == "pos") {
      const std::int64_t before = s_.arch->position_offset;  // rows that are no positions
      Floats v = needed(Part::pos_embed, p, false, {}, before + d_.block_size);
      v.erase(v.begin(), v.begin() + before * d_.d_model);
      return v;
    }
    if (ours == "attn.q") return projection(p, 0, bias);
    if (ours == "attn.k") return projection(p, 1, bias);
    if (ours == "attn.v") return projection(p, 2, bias);
    if (ours == "attn.o") return needed(Part::attn_out, p, bias);
    if (ours == "attn.q_norm") return query_gain(p, bias);
    if (ours == "attn.k_norm") return head_gains(Part::k_norm, p, bias);
    if (ours == "ffn.gate") return needed(Part::gate, p, bias);
    if (ours == "ffn.in") return needed(Part::up, p, bias);
    if (ours == "ffn.out") return needed(Part::down, p, bias);
    return norm(p, ours, bias);
  }

  const Subject& s_;
  const DecoderSpec& d_;
  TensorReader reader_;
  std::set<const SourceTensor*> read_;
};

}  // namespace

Imported import_model(const std::filesystem::path& what, const Components& c) {
  const CheckpointSource source = open_checkpoint_source(what);
  Subject s(source);
  if (!s.arch)
    bad_input("{}: {}; only the architectures that `plumb inspect` knows can be built", source.name,
              s.architecture_because);
  if (!s.config || !s.complete)
    bad_input("{}: a config.json and all of the weights are needed to build it", source.name);
  DecoderSpec spec = spec_of_config(s, s.config.json());
  check_spec(spec, c);
  Imported made{spec, ParamStore<float>(decoder_layout<float>(spec, c), 0), {}};
  Reader reader(s, spec);
  for (const ParamInfo& p : made.store.layout().params)
    std::ranges::copy(reader.read(p.spec), made.store.view(p).data);
  reader.expect_all_read();
  made.warnings = s.warnings;
  return made;
}

}  // namespace plumb
