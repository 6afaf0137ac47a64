#include "plumb/interop/import.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/interop/answers.h"
#include "plumb/model/decoder.h"

namespace plumb {
namespace {

// -- config to spec

std::int64_t needed(const Subject& s, const std::optional<std::int64_t>& n, const char* what) {
  if (!n) bad_input("{}: neither config nor tensors give {}; it cannot be built", s.source.name, what);
  return *n;
}

double real(const Json& config, std::string_view key, double otherwise) {
  const Json* v = config.is_object() ? config.find(key) : nullptr;
  return v && v->is_number() ? v->as_double(std::string(key)) : otherwise;
}

// What transformers calls it, as a kind of ours.
std::string ffn_kind(const Subject& s, bool gated) {
  std::string act(s.arch->activation);
  if (const auto said = s.config.activation()) act = said->second;
  const bool tanh_form =
      act == "gelu_new" || act == "gelu_pytorch_tanh" || act == "gelu_fast" || act == "gelu_tanh";
  if (act == "swish") act = "silu";
  if (tanh_form) act = "gelu_tanh";
  const std::string kind = !gated          ? act
                           : act == "silu" ? "swiglu"
                           : act == "relu" ? "reglu"
                           : act == "gelu" ? "geglu"
                           : tanh_form     ? "geglu_tanh"
                                           : "";
  if (kind.empty())
    bad_input("{}: a gate of {} is no feed-forward network that plumb has", s.source.name, act);
  return kind;
}

void read_rope(const Subject& s, const Json& config, DecoderSpec& d) {
  const Json* scaling = config.find("rope_scaling");
  // transformers 5 keeps all of it in one object.
  if (const Json* all = config.find("rope_parameters"); all && all->is_object()) {
    d.rope.base = real(*all, "rope_theta", d.rope.base);
    d.rope.fraction = real(*all, "partial_rotary_factor", 1);
    scaling = all;
    for (const char* kind : {"full_attention", "sliding_attention"})
      if (const Json* of = all->find(kind); of && of->is_object()) {
        const double base = real(*of, "rope_theta", 10000);
        (kind[0] == 'f' ? d.rope.base : d.rope.local_base) = base;
        if (kind[0] == 'f') scaling = of;
      }
  }
  d.rope.base = real(config, "rope_theta", real(config, "rotary_emb_base", d.rope.base));
  d.rope.local_base = real(config, "rope_local_base_freq", d.rope.local_base);
  d.rope.fraction = real(config, "partial_rotary_factor", real(config, "rotary_pct", d.rope.fraction));
  if (!scaling || !scaling->is_object()) return;
  const Json* type = scaling->find("rope_type");
  if (!type) type = scaling->find("type");
  const std::string kind = type && type->is_string() ? type->as_string("rope_type") : "default";
  if (kind == "default") return;
  d.rope.scaling = kind == "dynamic" ? "dynamic_ntk" : kind;
  if (d.rope.scaling != "linear" && d.rope.scaling != "dynamic_ntk" && d.rope.scaling != "yarn")
    bad_input(
        "{}: rotary positions are scaled by '{}', which plumb does not have (it has linear, dynamic and "
        "yarn)",
        s.source.name, kind);
  d.rope.factor = real(*scaling, "factor", 1);
  d.rope.original_block_size = static_cast<std::int64_t>(
      real(*scaling, "original_max_position_embeddings", static_cast<double>(d.block_size)));
}

DecoderSpec spec_of_config(Subject& s, const Json& config) {
  const Architecture& arch = *s.arch;
  DecoderSpec d;
  d.n_layer = needed(s, s.n_layer, "n_layer"), d.d_model = needed(s, s.d_model, "d_model");
  d.n_head = needed(s, s.n_head, "n_head"), d.d_head = needed(s, s.d_head, "d_head");
  d.n_kv_head = needed(s, s.n_kv_head, "n_kv_head"), d.d_ff = needed(s, s.d_ff, "d_ff");
  d.vocab_size = needed(s, s.vocab_size, "vocab_size"), d.block_size = s.block_size.value_or(2048);
  d.norm = norm_of(s).value, d.placement = placement_of(s).value, d.position = position_of(s).value;
  d.final_norm = final_norm_of(s).value == "true";
  d.tied_embeddings = tied_of(s).value == "true";
  d.norm_gain = arch.plus_one ? "plus_one" : "plain";
  const auto eps = s.config.eps();
  d.norm_eps = eps ? eps->value : arch.eps;
  d.norm_bias = std::ranges::any_of(
      s.map.tensors, [](const NamedTensor& t) { return t.name.part == Part::norm && t.name.bias; });
  d.embedding_norm = s.map.has(Part::embed_norm);
  d.head_bias = s.map.has_bias(Part::head);
  if (arch.plus_one) d.embedding_scale = "sqrt_d";  // Gemma's
  d.attention.qk_norm = qk_norm_of(s).value;
  const bool out_bias = s.map.has_bias(Part::attn_out),
             qkv_bias = s.map.has_bias(Part::qkv) || s.map.has_bias(Part::q);
  if (out_bias && !qkv_bias)
    bad_input("{}: a bias on the attention's output and none on q, k, v is no attention that plumb has",
              s.source.name);
  d.attention.bias = out_bias ? "true" : qkv_bias ? "qkv" : "false";
  d.attention.softcap = real(config, "attn_logit_softcapping", 0);
  d.logit_softcap = real(config, "final_logit_softcapping", 0);
  if (s.flag_or("use_sliding_window", true))
    d.attention.window = static_cast<std::int64_t>(real(config, "sliding_window", 0));
  if (arch.model_type == "gemma2") d.attention.full_every = 2;
  if (arch.model_type == "gemma3")
    d.attention.full_every = static_cast<std::int64_t>(real(config, "sliding_window_pattern", 6));
  d.ffn.kind = ffn_kind(s, s.map.has(Part::gate));
  d.ffn.bias = s.map.has_bias(Part::down);
  d.init.scheme = "normal";
  if (d.position == "rope") read_rope(s, config, d);
  if (d.position == "alibi" && arch.model_type == "falcon")
    bad_input("{}: Falcon divides ALiBi's bias by sqrt(d_head), which plumb's ALiBi does not", s.source.name);
  if (s.map.has(Part::project_in) || s.map.has(Part::project_out))
    bad_input("{}: embeddings of another width than the layers have no place in plumb's decoder",
              s.source.name);
  if (s.map.has(Part::router) || s.map.find_expert())
    bad_input("{}: its mixture of experts is not read yet", s.source.name);
  for (const std::string* unclear : {&d.norm, &d.placement, &d.position, &d.attention.qk_norm})
    if (*unclear == "unknown")
      bad_input("{}: config and tensors do not decide how it is built; `plumb inspect` says what is known",
                s.source.name);
  return d;
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

 private:
  const SourceTensor* find(Part part, int layer, bool bias, std::string_view module = {}) const {
    for (const NamedTensor& t : s_.map.tensors)
      if (t.name.part == part && t.name.layer == layer && t.name.bias == bias &&
          (module.empty() || t.name.module == module))
        return t.tensor;
    return nullptr;
  }

  Floats all(const SourceTensor& t) {
    Floats v(t.size());
    reader_.read(t, 0, v);
    return v;
  }

  Floats needed(Part part, const ParamSpec& p, bool bias, std::string_view module = {}) {
    const SourceTensor* t = find(part, p.layer, bias, module);
    if (!t) bad_input("{}: no tensor is known as what plumb calls {}", s_.source.name, p.name);
    Floats v = all(*t);
    return s_.transposed && !bias && t->shape.size() == 2 && p.layer >= 0
               ? transposed(v, t->shape[0], t->shape[1])
               : v;
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
    const auto names = s_.map.layer_norms();
    const bool twice = std::ranges::find(names, "post_feedforward_layernorm") != names.end();
    std::vector<std::string_view> candidates;
    if (ours == "attn.norm")
      candidates =
          d_.placement == "post_branch"
              ? std::vector<std::string_view>{"post_attention_layernorm"}
              : std::vector<std::string_view>{"ln_1", "input_layernorm", "self_attn_layer_norm", "ln_attn"};
    if (ours == "attn.norm_out") candidates = {"post_attention_layernorm"};
    if (ours == "ffn.norm" && d_.placement == "post_branch") candidates = {"post_feedforward_layernorm"};
    if (ours == "ffn.norm" && d_.placement != "post_branch") {
      candidates = {"ln_2", "pre_feedforward_layernorm", "final_layer_norm", "ln_mlp"};
      if (!twice) candidates.push_back("post_attention_layernorm");
      if (d_.placement == "parallel")
        candidates.push_back("input_layernorm");  // one norm, read by both branches
    }
    if (ours == "ffn.norm_out") candidates = {"post_feedforward_layernorm"};
    for (const std::string_view m : candidates)
      if (find(Part::norm, p.layer, bias, m)) return needed(Part::norm, p, bias, m);
    bad_input("{}: no norm is known as what plumb calls {}; the layers have {}", s_.source.name, p.name,
              join(names));
  }

  // Rows `which` (0 q, 1 k, 2 v) of a fused matrix or bias of `width` columns.
  Floats unfused(const ParamSpec& p, int which, bool bias) {
    const Floats all_rows = needed(Part::qkv, p, bias);
    const std::int64_t d = d_.d_head, kv = d_.kv_heads(), group = d_.n_head / kv;
    const std::int64_t rows = (d_.n_head + 2 * kv) * d,
                       width = static_cast<std::int64_t>(all_rows.size()) / rows;
    Floats out;
    const auto take = [&](std::int64_t first, std::int64_t n) {
      out.insert(out.end(), all_rows.begin() + first * width, all_rows.begin() + (first + n) * width);
    };
    switch (s_.arch->fused) {
      case FusedLayout::concat:
        take(which == 0 ? 0 : (d_.n_head + (which - 1) * kv) * d, (which == 0 ? d_.n_head : kv) * d);
        break;
      case FusedLayout::per_head:
        for (std::int64_t h = 0; h < d_.n_head; ++h) take((3 * h + which) * d, d);
        break;
      case FusedLayout::grouped:
        for (std::int64_t g = 0; g < kv; ++g) {
          const std::int64_t at = g * (group + 2);
          take((at + (which == 0 ? 0 : group + which - 1)) * d, (which == 0 ? group : 1) * d);
        }
        break;
      case FusedLayout::none:
        bad_input("{}: q, k and v lie in one matrix, and {} does not say how", s_.source.name,
                  s_.architecture);
    }
    return out;
  }

  Floats projection(const ParamSpec& p, int which, bool bias) {
    constexpr Part parts[] = {Part::q, Part::k, Part::v};
    Floats v = find(Part::qkv, p.layer, bias) ? unfused(p, which, bias) : needed(parts[which], p, bias);
    // Scores are divided by sqrt(query_pre_attn_scalar), not by sqrt(d_head): Gemma 2 and 3.
    if (which == 0)
      if (const auto scalar = s_.config.size("query_pre_attn_scalar");
          scalar && *scalar > 0 && *scalar != d_.d_head) {
        const auto by =
            static_cast<float>(std::sqrt(static_cast<double>(d_.d_head) / static_cast<double>(*scalar)));
        for (float& x : v) x *= by;
      }
    return v;
  }

  Floats of(const std::string& name, const ParamSpec& p) {
    const bool bias = name.ends_with(".bias") || name.ends_with(".beta");
    const std::string ours = name.substr(0, name.rfind('.'));
    if (ours == "embed") return needed(Part::token_embed, p, false);
    if (ours == "head") return needed(Part::head, p, bias);
    if (ours == "final_norm") return needed(Part::final_norm, p, bias);
    if (ours == "embed.norm") return needed(Part::embed_norm, p, bias);
    if (ours == "pos") {
      Floats v = needed(Part::pos_embed, p, false);
      v.erase(v.begin(), v.begin() + s_.arch->position_offset * d_.d_model);
      return v;
    }
    if (ours == "attn.q") return projection(p, 0, bias);
    if (ours == "attn.k") return projection(p, 1, bias);
    if (ours == "attn.v") return projection(p, 2, bias);
    if (ours == "attn.o") return needed(Part::attn_out, p, bias);
    if (ours == "attn.q_norm") return needed(Part::q_norm, p, bias);
    if (ours == "attn.k_norm") return needed(Part::k_norm, p, bias);
    if (ours == "ffn.gate") return needed(Part::gate, p, bias);
    if (ours == "ffn.in") return needed(Part::up, p, bias);
    if (ours == "ffn.out") return needed(Part::down, p, bias);
    return norm(p, ours, bias);
  }

  const Subject& s_;
  const DecoderSpec& d_;
  TensorReader reader_;
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
  Imported made{spec, ParamStore<float>(decoder_layout<float>(spec, c), 0), s.architecture};
  Reader reader(s, spec);
  for (const ParamInfo& p : made.store.layout().params)
    std::ranges::copy(reader.read(p.spec), made.store.view(p).data);
  return made;
}

}  // namespace plumb
