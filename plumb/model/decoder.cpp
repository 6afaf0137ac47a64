#include "plumb/model/decoder.h"

#include <algorithm>
#include <cmath>

#include "plumb/model/ends.h"
#include "plumb/plan/dropout.h"
#include "plumb/spec/from_config.h"

namespace plumb {
namespace {

const Placement& choose_placement(const Components& c, const std::string& name) {
  std::vector<std::string> known;
  for (const Placement& p : c.placement) {
    if (p.name == name) return p;
    known.emplace_back(p.name);
  }
  bad_input("{}", unknown_name("placement", name, known));
}

/// One decoder being built: the chosen components, and the walk through the stack.
template <class R>
class Decoder {
 public:
  Decoder(const DecoderSpec& s, const Components& c)
      : s_(s),
        norm_(choose(c.norm, "norm", s.norm, s).template make<R>(s)),
        weight_(choose(c.weight, "weight_param", s.weight_param, s).template make<R>(s)),
        residual_(choose(c.residual, "residual", s.residual, s).template make<R>(s)),
        position_(choose(c.position, "position", s.position, s).template make<R>(s)),
        attention_(choose(c.attention, "attention kind", s.attention.kind, s).template make<R>(s)),
        ffn_(choose(c.ffn, "ffn kind", s.ffn.kind, s).template make<R>(s)),
        init_(choose(c.init, "init scheme", s.init.scheme, s).template make<R>(s)),
        place_(choose_placement(c, s.placement)) {
    for (const std::string& name : s.flaws.faults)
      faults_.push_back({name, fault_named(c.fault, name, "the spec").template graph<R>(s)});
  }

  Rules<R> rules() {
    Rules<R> r;
    r.init = [this](const ParamSpec& p, double gain) { return init_->rule(p, gain); };
    r.adjust = [this](const ParamSpec& p, ParamRule& rule) {
      init_->multiply(p.role, rule);
      for (Injected& f : faults_) {
        const ParamRule before = rule;
        f.fault->rule(p, rule);
        f.changed |= rule != before;
      }
    };
    if (!faults_.empty())
      r.edit = [this](Builder<R>& b, std::string_view point, Value v) {
        for (Injected& f : faults_) {
          const Value before = v;
          v = f.fault->at(b, point, v);
          f.changed |= v.id != before.id;
        }
        return v;
      };
    r.branch_gain = [this](Role role, const Site& site) { return residual_->branch_gain(role, site); };
    if (s_.weight_param != "plain") {
      r.weight = [this](Builder<R>& b, Value w, const ParamSpec& p) { return weight_->transform(b, w, p); };
      r.activation_gain = [this](std::string_view kind) { return weight_->activation_gain(kind); };
    }
    if (init_->has_before())
      r.before = [this](Builder<R>& b, Value x, std::string_view name) { return init_->before(b, x, name); };
    return r;
  }

  void build(Builder<R>& b, std::int64_t block, const LossTerms& loss) {
    const Dim channels{'C', s_.d_model, true}, vocabulary{'V', s_.vocab_size},
        embedded{'C', s_.embedding_width(), s_.d_embed == 0};
    const Value table = b.param({.name = "embed.weight",
                                 .role = Role::token_embed,
                                 .shape = {vocabulary, embedded},
                                 .fan_in = 1,
                                 .fan_out = embedded.n});
    Value x = scaled_embedding(b, embed_tokens(b, table, block));
    if (s_.d_embed > 0) x = b.linear(x, {"embed.project", channels, Role::embed_proj, false, -1});
    if (s_.embedding_norm) x = norm_->build(b, x, "embed.norm", -1);
    x = position_->embed(b, x);
    x = b.point("embed", dropped_in_training(b, x, "embed.dropped"));
    const auto bias = position_->bias(b);
    const auto& flaws = s_.flaws;
    const std::int64_t rows = b.context() > 0 ? b.context() : block;
    context_ = {bias.rule,
                bias.table,
                position_->rotation(rows),
                position_->rotation(rows, true),
                {flaws.mask_ahead, flaws.mask_finite, flaws.mask_value},
                b.mode() == Mode::train ? s_.noise : DecoderSpec::Noise{}};

    Value stream = residual_->open(b, x);
    const int n_layer = static_cast<int>(s_.n_layer);
    for (int i = 0; i < n_layer; ++i) {
      const std::string block_name = "blocks." + std::to_string(i);
      b.segment(i);
      stream = b.point(block_name + ".in", stream);
      stream = place_.parallel ? parallel_block(b, stream, i) : block_of(b, stream, i);
      stream = b.point(block_name + ".out", stream);
    }
    b.segment(-1);
    x = residual_->close(b, stream);
    if (s_.final_norm) x = norm_->build(b, x, "final_norm", -1);
    x = b.point("final_norm", x);
    if (const double scale = init_->logit_scale(); scale != 1) x = scaled(b, scale, x, "head.scaled");
    if (s_.d_embed > 0) x = b.linear(x, {"head.project", embedded, Role::embed_proj, false, -1});
    Value logits = s_.tied_embeddings ? b.product(x, table, std::nullopt, "head")
                                      : b.linear(x, {"head", vocabulary, Role::readout, s_.head_bias, -1});
    if (s_.logit_softcap > 0) logits = softcapped(b, logits, s_.logit_softcap, "head.capped");
    logits = b.point("logits", logits);
    token_loss(b, logits, s_.ignore_index, loss);
    for (const Injected& f : faults_)
      if (!f.changed) refuse_idle(f.name);
  }

 private:
  Value scaled_embedding(Builder<R>& b, Value x) const {
    const double root = std::sqrt(static_cast<double>(s_.d_model));
    if (s_.embedding_scale == "sqrt_d") return scaled(b, root, x, "embed.scaled");
    if (s_.embedding_scale != "learned") return x;
    const Value by = b.param({.name = "embed.scale", .role = Role::scalar, .shape = {Dim{}}},
                             {ParamRule::Kind::constant, root});
    return multiply_scalar(b, x, by, "embed.scaled");
  }

  Site site(int layer, Sub sub) const {
    const int n_layer = static_cast<int>(s_.n_layer);
    return {layer, n_layer, sub, 2 * layer + (sub == Sub::ffn ? 1 : 0), 2 * n_layer};
  }

  Value branch(Builder<R>& b, Value x, const Site& at) {
    const std::string name = at.name();
    if (place_.before) x = normed(b, x, at);
    x = at.sub == Sub::attention ? attention_->build(b, x, name, at.layer, context_)
                                 : ffn_->build(b, x, name, at.layer);
    if (place_.after_branch)
      x = place_.before ? norm_->build(b, x, name + ".norm_out", at.layer) : normed(b, x, at);
    return dropped_in_training(b, init_->after_branch(b, x, at), name + ".dropped");
  }

  Value dropped_in_training(Builder<R>& b, Value x, const std::string& name) const {
    if (b.mode() != Mode::train || s_.noise.dropout == 0) return x;
    return dropped(b, x, dropout_at(s_.noise.dropout, s_.noise.seed, name), name);
  }

  Value write(Builder<R>& b, Value shortcut, Value branch, const Site& at) {
    Value stream = residual_->leave(b, shortcut, branch, at);
    if (place_.after_add) stream = normed(b, stream, at);
    return stream;
  }

  // The norm of a sub-layer, wherever its place is, with what it reads and makes as points.
  Value normed(Builder<R>& b, Value x, const Site& at) {
    x = b.point(at.name() + ".norm_in", x);
    return b.point(at.name() + ".norm", norm_->build(b, x, at.name() + ".norm", at.layer));
  }

  Value block_of(Builder<R>& b, Value stream, int layer) {
    for (const Sub sub : {Sub::attention, Sub::ffn}) {
      const Site at = site(layer, sub);
      b.site(at);
      const auto in = residual_->enter(b, stream, at);
      stream = write(b, in.shortcut, branch(b, in.branch, at), at);
      if (sub == Sub::attention) stream = b.point("blocks." + std::to_string(layer) + ".mid", stream);
      b.site(std::nullopt);
    }
    return stream;
  }

  // Both branches read one stream; the second writes on what the first left.
  Value parallel_block(Builder<R>& b, Value stream, int layer) {
    const Site attn = site(layer, Sub::attention), ffn = site(layer, Sub::ffn);
    b.site(attn);
    const auto in = residual_->enter(b, stream, attn);
    const Value a = branch(b, in.branch, attn);
    b.site(ffn);
    const Value f = branch(b, residual_->enter(b, stream, ffn).branch, ffn);
    stream = write(b, write(b, in.shortcut, a, attn), f, ffn);
    b.site(std::nullopt);
    return stream;
  }

  const DecoderSpec& s_;
  std::unique_ptr<Norm<R>> norm_;
  std::unique_ptr<WeightParam<R>> weight_;
  std::unique_ptr<Residual<R>> residual_;
  std::unique_ptr<Position<R>> position_;
  std::unique_ptr<Attention<R>> attention_;
  std::unique_ptr<Ffn<R>> ffn_;
  std::unique_ptr<Init<R>> init_;
  const Placement& place_;
  struct Injected {
    std::string name;
    std::unique_ptr<GraphFault<R>> fault;
    bool changed = false;
  };
  std::vector<Injected> faults_;
  AttentionContext<R> context_;
};

}  // namespace

void check_names(const Config& config, const Components& c) {
  each_table(c, [&](std::string_view key, std::string_view kind, const auto& table) {
    const FieldValue value = config_field(key, "").get(config);
    const std::string* name = std::get_if<std::string>(&value);
    std::vector<std::string> known;
    for (const auto& e : table) known.emplace_back(e.name);
    if (name && std::ranges::find(known, *name) == known.end())
      bad_input("{} ({}): {}", key, config.where(key), unknown_name(kind, *name, known));
  });
}

KnownNames known_names(const Components& c) {
  KnownNames names;
  each_table(c, [&](std::string_view key, std::string_view, const auto& table) {
    std::vector<std::string> known;
    for (const auto& e : table) known.emplace_back(e.name);
    names.emplace(key, join(known));
  });
  return names;
}

namespace {

// A setting that the chosen components read only beside another one.
struct Needs {
  std::string_view key, unless;
  bool (*met)(const Config&);
};

constexpr Needs needs[] = {
    {"model.norm_gain", "a norm of the model has a gain: model.norm or model.attention.qk_norm",
     [](const Config& c) {
       const std::string& qk = c.attention.qk_norm;
       return (c.model.norm != "none" && c.model.norm_affine.value_or(true)) || (qk != "none" && qk != "l2");
     }},
    {"model.attention.full_every", "model.attention.window is above 0",
     [](const Config& c) { return c.attention.window > 0; }},
    {"model.rope.local_base", "model.attention.window is above 0",
     [](const Config& c) { return c.model.position != "rope" || c.attention.window > 0; }},
    {"model.rope.factor", "model.rope.scaling is another than \"none\"",
     [](const Config& c) { return c.model.position != "rope" || c.rope.scaling != "none"; }},
    {"model.rope.original_block_size", "model.rope.scaling is another than \"none\"",
     [](const Config& c) { return c.model.position != "rope" || c.rope.scaling != "none"; }},
};

}  // namespace

std::vector<std::string> unused_settings(const Config& config, const Components& c) {
  static const Config defaults;
  std::vector<std::string> all;
  if (config.given("fault.strength") && config.fault.inject.empty())
    all.emplace_back("fault.strength has no effect: fault.inject names no fault");
  const auto reads = [](const auto& entry, const std::string& path) {
    return (", " + std::string(entry.fields) + ",").find(", " + path + ",") != std::string::npos;
  };
  // f(key, chosen name, table, chosen entry) for every table whose entries say what they read
  const auto each_chosen = [&](const auto& f) {
    each_table(c, [&](std::string_view key, std::string_view, const auto& table) {
      const FieldValue value = config_field(key, "").get(config);
      const std::string* name = std::get_if<std::string>(&value);
      const auto chosen = std::ranges::find_if(table, [&](const auto& e) { return name && e.name == *name; });
      if constexpr (requires { chosen->fields; })
        if (chosen != table.end()) f(key, *name, table, *chosen);
    });
  };
  const auto read_by_any = [&](const std::string& path) {
    bool any = false;
    each_chosen([&](auto, auto&, auto&, const auto& entry) { any |= reads(entry, path); });
    return any;
  };
  each_chosen([&](std::string_view key, const std::string& name, const auto& table, const auto&) {
    for (const auto& field : config_fields())
      if (config.given(field.path()) && field.get(config) != field.get(defaults) &&
          !read_by_any(field.path()) &&
          std::ranges::any_of(table, [&](const auto& e) { return reads(e, field.path()); }))
        all.push_back(fmt::format("{} = {} has no effect: {} = \"{}\" does not read it", field.path(),
                                  field_text(field.get(config)), key, name));
  });
  const Config resolved = resolve_config(config);
  for (const Needs& n : needs)
    if (const auto& field = config_field(n.key, "");
        config.given(n.key) && field.get(config) != field.get(defaults) && !n.met(resolved))
      all.push_back(
          fmt::format("{} = {} has no effect unless {}", n.key, field_text(field.get(config)), n.unless));
  return all;
}

DecoderSpec spec_of(const Config& config, std::int64_t vocab_size, const Components& c) {
  DecoderSpec spec = spec_from_config(with_faults(resolve_config(config), c.fault), vocab_size);
  add_faults(spec, config.fault, config.train.seed, c.fault);
  return spec;
}

void check_spec(const DecoderSpec& s, const Components& c) {
  if (s.head_bias && s.tied_embeddings)
    bad_input("model.head_bias = true needs a head of its own; set model.tied_embeddings = false");
  if (s.embedding_norm && s.norm == "none")
    bad_input(
        "model.embedding_norm = true asks for a norm of the embeddings, but model.norm = \"none\"; name a "
        "norm or leave it out");
  for (const auto& [what, n] : {std::pair{"n_layer", s.n_layer},
                                {"d_model", s.d_model},
                                {"n_head", s.n_head},
                                {"d_head", s.d_head},
                                {"d_ff", s.d_ff},
                                {"block_size", s.block_size},
                                {"vocab_size", s.vocab_size}})
    if (n < 1) bad_input("[spec] {} is {}; it must be at least 1", what, n);
  // Sizes are products of these; far below 2^63 none of them wraps.
  auto d = [](std::int64_t n) { return static_cast<double>(n); };
  const double experts = s.ffn.kind == "moe" ? d(s.ffn.n_expert) : 1;
  const double params =
      (d(s.vocab_size) + 2 * d(s.d_model)) * d(s.embedding_width()) + d(s.block_size) * d(s.d_model) +
      d(s.n_layer) * d(s.d_model) * (4 * d(s.n_head) * d(s.d_head) + 2 * experts * d(s.d_ff));
  if (params > 1e11)
    bad_input(
        "[spec] the model would have about {:.1e} parameters, more than any machine this runs on can hold; "
        "lower d_model, "
        "d_ff, n_layer or vocab_size",
        params);
  Decoder<float>(s, c);
}

template <class R>
GraphOf<R> build_decoder(const DecoderSpec& s, const Components& c, Mode mode, std::int64_t block,
                         std::span<Hook<R>* const> hooks, std::int64_t context, const LossTerms& loss) {
  check_spec(s, c);
  if (context > 0 && (block != 1 || mode != Mode::eval))
    fail("[decoder] decoding takes one position a call, in evaluation");
  Decoder<R> d(s, c);
  Builder<R> b(d.rules(), mode, hooks, context);
  d.build(b, block, loss);
  return b.finish();
}

template <class R>
ParamLayout decoder_layout(const DecoderSpec& s, const Components& c, std::int64_t context) {
  return build_decoder<R>(s, c, Mode::eval, context > 0 ? 1 : s.block_size, {}, context).layout();
}

template <class R>
Plan<R> make_plan(const DecoderSpec& s, const Components& c, ParamStore<R>& store, const PlanOptions& o,
                  ThreadPool& pool, std::span<Hook<R>* const> hooks) {
  PlanOptions as_the_model = o;
  as_the_model.precision = precision_of(s.numbers.precision);
  return Plan<R>(build_decoder<R>(s, c, o.mode, o.block, hooks, o.context, o.loss), store, as_the_model, pool,
                 hooks);
}

ParamCounts count_params(const DecoderSpec& s, const ParamLayout& layout) {
  ParamCounts n;
  std::int64_t experts = 0;
  for (const ParamInfo& p : layout.params) {
    const std::string& name = p.spec.name;
    const std::int64_t size = p.size();
    n.total += size;
    if (name == "head.bias") {
      n.head += size;
      continue;
    }
    if (name.ends_with(".temperature")) {  // of the norm of queries
      n.norm += size;
      continue;
    }
    if (name.find(".experts.") != std::string::npos) experts += size;
    switch (p.spec.role) {
      case Role::token_embed:
      case Role::embed_proj:
        n.embedding += size;
        break;
      case Role::pos_embed:
      case Role::score_bias:
        n.position += size;
        break;
      case Role::readout:
        n.head += size;
        break;
      case Role::norm_gain:
      case Role::norm_bias:
        n.norm += size;
        break;
      case Role::residual_gain:
      case Role::scalar:
        n.residual += size;
        break;  // Fixup's shifts and gains stand in for norms on the path
      default:
        (name.find(".attn.") != std::string::npos ? n.attention : n.ffn) += size;
    }
  }
  n.active = n.total - experts + experts / s.ffn.n_expert * s.ffn.top_k;  // all experts are of one size
  return n;
}

#define PLUMB_INSTANTIATE(R)                                                                            \
  template GraphOf<R> build_decoder(const DecoderSpec&, const Components&, Mode, std::int64_t,          \
                                    std::span<Hook<R>* const>, std::int64_t, const LossTerms&);         \
  template ParamLayout decoder_layout<R>(const DecoderSpec&, const Components&, std::int64_t);          \
  template Plan<R> make_plan(const DecoderSpec&, const Components&, ParamStore<R>&, const PlanOptions&, \
                             ThreadPool&, std::span<Hook<R>* const>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb
