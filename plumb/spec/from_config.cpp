#include "plumb/spec/from_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "plumb/base/error.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

using Rows = std::vector<Field<DecoderSpec>>;

// The config's key of a spec's field: [init] keeps its place, number formats and noise are [train]'s, everything
// else lies below [model].
std::string config_key(const Field<DecoderSpec>& field) {
  if (field.section == "numbers" || field.section == "noise") return "train." + field.key;
  return field.section == "init" ? field.path() : "model." + field.path();
}

// Adds rows for one section. Where the config has the same key, its check and help are the row's.
template <class Make>
void add(Rows& rows, std::string key, FieldCheck check, Make make) {
  Field<DecoderSpec> row = make(std::move(key), std::move(check));
  if (const auto* known = find_config_field(config_key(row))) {
    row.check = known->check;
    row.help = known->help;
  }
  rows.push_back(std::move(row));
}

Rows all_rows() {
  Rows rows;
  const auto top = [&](std::string key, auto member, FieldCheck check = any()) {
    add(rows, std::move(key), std::move(check), [&](std::string k, FieldCheck c) {
      return field_of<DecoderSpec>(std::move(k), member, std::move(c), "");
    });
  };
  const auto attention = [&](std::string key, auto member) {
    add(rows, std::move(key), any(), [&](std::string k, FieldCheck c) {
      return field_in<&DecoderSpec::attention, DecoderSpec>("attention", std::move(k), member, std::move(c),
                                                            "");
    });
  };
  const auto ffn = [&](std::string key, auto member) {
    add(rows, std::move(key), any(), [&](std::string k, FieldCheck c) {
      return field_in<&DecoderSpec::ffn, DecoderSpec>("ffn", std::move(k), member, std::move(c), "");
    });
  };
  const auto init = [&](std::string key, auto member) {
    add(rows, std::move(key), any(), [&](std::string k, FieldCheck c) {
      return field_in<&DecoderSpec::init, DecoderSpec>("init", std::move(k), member, std::move(c), "");
    });
  };
  using S = DecoderSpec;
  top("n_layer", &S::n_layer);
  top("d_model", &S::d_model);
  top("n_head", &S::n_head);
  top("n_kv_head", &S::n_kv_head);
  top("d_head", &S::d_head);
  top("d_ff", &S::d_ff);
  top("block_size", &S::block_size);
  top("vocab_size", &S::vocab_size, between(1, 1 << 24));
  top("norm", &S::norm);
  top("norm_eps", &S::norm_eps);
  top("norm_affine", &S::norm_affine);
  top("norm_bias", &S::norm_bias);
  top("norm_gain", &S::norm_gain);
  top("norm_groups", &S::norm_groups);
  top("norm_momentum", &S::norm_momentum);
  top("norm_alpha", &S::norm_alpha);
  top("norm_alpha_attention", &S::norm_alpha_attention);
  top("placement", &S::placement);
  top("final_norm", &S::final_norm);
  top("residual", &S::residual);
  top("residual_lanes", &S::residual_lanes);
  top("layer_scale_init", &S::layer_scale_init);
  top("weight_param", &S::weight_param);
  top("position", &S::position);
  top("tied_embeddings", &S::tied_embeddings);
  top("embedding_scale", &S::embedding_scale);
  top("head_bias", &S::head_bias);
  top("embedding_norm", &S::embedding_norm);
  top("position_overflow", &S::position_overflow);
  top("alibi_form", &S::alibi_form);
  top("d_embed", &S::d_embed);
  top("logit_softcap", &S::logit_softcap);
  attention("kind", &S::Attention::kind);
  attention("scale", &S::Attention::scale);
  attention("bias", &S::Attention::bias);
  attention("qk_norm", &S::Attention::qk_norm);
  attention("softcap", &S::Attention::softcap);
  attention("window", &S::Attention::window);
  attention("full_every", &S::Attention::full_every);
  attention("qk_projection", &S::Attention::qk_projection);
  attention("value_projection", &S::Attention::value_projection);
  attention("output_projection", &S::Attention::output_projection);
  const auto rope = [&](std::string key, auto member) {
    add(rows, std::move(key), any(), [&](std::string k, FieldCheck c) {
      return field_in<&DecoderSpec::rope, DecoderSpec>("rope", std::move(k), member, std::move(c), "");
    });
  };
  rope("base", &S::Rope::base);
  rope("local_base", &S::Rope::local_base);
  rope("layout", &S::Rope::layout);
  rope("fraction", &S::Rope::fraction);
  rope("scaling", &S::Rope::scaling);
  rope("factor", &S::Rope::factor);
  rope("original_block_size", &S::Rope::original_block_size);
  ffn("kind", &S::Ffn::kind);
  ffn("bias", &S::Ffn::bias);
  ffn("n_expert", &S::Ffn::n_expert);
  ffn("top_k", &S::Ffn::top_k);
  ffn("balance_loss", &S::Ffn::balance_loss);
  ffn("router_z_loss", &S::Ffn::router_z_loss);
  init("scheme", &S::InitRule::scheme);
  init("distribution", &S::InitRule::distribution);
  init("std", &S::InitRule::std);
  init("residual_scale", &S::InitRule::residual_scale);
  init("leaky_slope", &S::InitRule::leaky_slope);
  init("base_d_model", &S::InitRule::base_d_model);
  init("base_d_head", &S::InitRule::base_d_head);
  const auto numbers = [&](std::string key, auto member) {
    add(rows, std::move(key), any(), [&](std::string k, FieldCheck c) {
      return field_in<&DecoderSpec::numbers, DecoderSpec>("numbers", std::move(k), member, std::move(c), "");
    });
  };
  numbers("precision", &S::Numbers::precision);
  numbers("norm_reduce", &S::Numbers::norm_reduce);
  const auto noise = [&](std::string key, auto member) {
    add(rows, std::move(key), any(), [&](std::string k, FieldCheck c) {
      return field_in<&DecoderSpec::noise, DecoderSpec>("noise", std::move(k), member, std::move(c), "");
    });
  };
  noise("dropout", &S::Noise::dropout);
  noise("seed", &S::Noise::seed);
  const auto flaw = [&](std::string key, auto member, FieldCheck check = any()) {
    add(rows, std::move(key), std::move(check), [&](std::string k, FieldCheck c) {
      return field_in<&DecoderSpec::flaws, DecoderSpec>("flaws", std::move(k), member, std::move(c), "");
    });
  };
  flaw("faults", &S::Flaws::faults);
  flaw("strength", &S::Flaws::strength);
  flaw("mask_ahead", &S::Flaws::mask_ahead, between(0, 1 << 20));
  flaw("mask_finite", &S::Flaws::mask_finite);
  flaw("mask_value", &S::Flaws::mask_value);
  flaw("position_wrap", &S::Flaws::position_wrap, between(0, 1 << 20));
  flaw("position_step", &S::Flaws::position_step, between(1, 1 << 20));
  flaw("position_last", &S::Flaws::position_last, between(-1, 1 << 20));
  top("ignore_index", &S::ignore_index, between(-(1 << 30), -1));
  return rows;
}

// One setting that brings another with it.
struct Implication {
  std::string_view key, value;   // when this key has this value
  std::string_view implied_key;  // then this one
  FieldValue implied_value;      // has this one
  std::string_view because;
};

const std::vector<Implication>& implications() {
  using namespace std::string_literals;
  static const std::vector<Implication> all{
      {"init.scheme", "fixup", "model.norm", "none"s, "Fixup trains without norms"},
      {"init.scheme", "fixup", "model.residual", "add"s, "Fixup's scalars belong to plain residual addition"},
      {"init.scheme", "fixup", "model.tied_embeddings", false,
       "Fixup starts the head at zero, which a shared embedding cannot"},
      {"init.scheme", "t_fixup", "model.norm", "none"s, "T-Fixup trains without norms"},
      {"init.scheme", "t_fixup", "model.embedding_scale", "sqrt_d"s,
       "T-Fixup's embeddings are drawn small and multiplied by sqrt(d_model)"},
      {"init.scheme", "t_fixup", "train.warmup", std::int64_t{0}, "T-Fixup needs no warm-up"},
      {"init.scheme", "mup", "model.attention.scale", "mup"s, "muP scales attention by 1/d_head"},
      {"model.residual", "deepnorm", "model.placement", "post"s, "DeepNorm normalises after the addition"},
      {"model.residual", "deepnorm", "init.scheme", "xavier"s, "its gains multiply Xavier's init"},
      {"model.residual", "depth_scale", "init.residual_scale", false,
       "scaling the branches and their init by 1/sqrt(2 n_layer) damps them twice"},
      {"model.residual", "rezero", "model.norm", "none"s, "ReZero replaces the norms"},
      {"model.residual", "nf", "model.norm", "none"s, "NF blocks replace the norms"},
      {"model.residual", "nf", "model.weight_param", "scaled_ws"s,
       "NF blocks rely on scaled weight standardisation"},
      {"model.position", "t5", "model.attention.scale", "none"s, "T5 puts the scale into its initialisation"},
      {"model.attention.qk_norm", "l2", "model.attention.scale", "none"s,
       "the learned temperature is the scale of normalised queries"},
  };
  return all;
}

void apply(Config& config, const Implication& rule) {
  const auto& cause = config_field(rule.key, "implied");
  if (cause.get(config) != FieldValue(std::string(rule.value))) return;
  const auto& field = config_field(rule.implied_key, "implied");
  if (config.given(rule.implied_key) && field.get(config) != rule.implied_value)
    bad_input("{} = {} ({}) contradicts {} = \"{}\" ({}), which implies {}: {}; remove one of the two",
              rule.implied_key, field_text(field.get(config)), config.where(rule.implied_key), rule.key,
              rule.value, config.where(rule.key), field_text(rule.implied_value), rule.because);
  field.set(config, rule.implied_value);
}

// What every spec that was ever written has.
bool is_size(std::string_view path) {
  constexpr std::string_view sizes[] = {"n_layer", "d_model",    "n_head",    "d_head",
                                        "d_ff",    "block_size", "vocab_size"};
  return std::ranges::find(sizes, path) != std::end(sizes);
}

}  // namespace

const std::vector<Field<DecoderSpec>>& spec_fields() {
  static const Rows rows = all_rows();
  return rows;
}

Config resolve_config(const Config& given) {
  Config config = given;
  for (const Implication& rule : implications()) apply(config, rule);

  ModelConfig& m = config.model;
  if (!m.d_head) {
    if (m.d_model % m.n_head != 0)
      bad_input(
          "model.d_model = {} ({}) is not divisible by model.n_head = {} ({}); change one of them or set "
          "model.d_head",
          m.d_model, config.where("model.d_model"), m.n_head, config.where("model.n_head"));
    m.d_head = m.d_model / m.n_head;
  }
  if (m.n_kv_head.value_or(0) == 0) m.n_kv_head = m.n_head;
  if (FfnConfig& f = config.ffn; f.eight_thirds) {
    const std::int64_t wanted = (8 * m.d_model / 3 + f.multiple_of - 1) / f.multiple_of * f.multiple_of;
    if (config.given("model.d_ff") && m.d_ff != wanted)
      bad_input(
          "model.d_ff = {} ({}) contradicts model.ffn.eight_thirds = true ({}), which makes it {}; remove "
          "one of the two",
          m.d_ff, config.where("model.d_ff"), config.where("model.ffn.eight_thirds"), wanted);
    m.d_ff = wanted;
  }
  // Only "post" leaves a normalised stream behind; every other placement's stream grows and needs a norm
  // before the head.
  if (!m.norm_affine) m.norm_affine = m.norm != "instance";
  if (!m.final_norm) m.final_norm = m.norm != "none" && m.placement != "post";
  if (!m.tied_embeddings) m.tied_embeddings = true;
  if (!config.attention.scale) config.attention.scale = "auto";
  // What their authors use: Sutskever et al. 2013; Jordan et al. 2024. Others do not read it.
  if (TrainConfig& t = config.train; !t.momentum && t.optimizer == "sgd")
    t.momentum = 0.9;
  else if (!t.momentum && t.optimizer == "muon")
    t.momentum = 0.95;
  if (const TrainConfig& t = config.train; t.schedule != "constant" && t.min_lr > t.lr)
    bad_input("train.min_lr = {} ({}) is above train.lr = {} ({}): the rate would rise at the end; lower it",
              t.min_lr, config.where("train.min_lr"), t.lr, config.where("train.lr"));
  return config;
}

DecoderSpec spec_from_config(const Config& given, std::int64_t vocab_size) {
  const Config config = resolve_config(given);
  DecoderSpec spec;
  for (const auto& field : spec_fields())
    if (const auto* source = find_config_field(config_key(field)); source != nullptr)
      field.set(spec, source->get(config));
  spec.vocab_size = vocab_size;
  return spec;
}

Json spec_to_json(const DecoderSpec& spec) {
  Json json = Json::object();
  for (const auto& field : spec_fields()) {
    Json& section = field.section.empty() ? json : json[field.section];
    section[field.key] = field_to_json(field.get(spec));
  }
  return json;
}

DecoderSpec spec_from_json(const Json& json, std::string_view name) {
  DecoderSpec spec;
  std::vector<std::string> known;
  for (const auto& field : spec_fields()) {
    known.push_back(field.path());
    const Json* section = field.section.empty() ? &json : json.find(field.section);
    if (section)
      section->as_object(field.section.empty() ? std::string(name)
                                               : fmt::format("{} ({})", field.section, name));
    const Json* found = section ? section->find(field.key) : nullptr;
    // A setting younger than the spec: its default is what every model was before it.
    if (!found && !is_size(field.path())) continue;
    if (!found) found = &json.at(field.key, name);
    const std::string what = fmt::format("{} ({})", field.path(), name);
    FieldValue value = field_from_json(field.type, *found, what);
    const std::string refusal = field_refusal(field.type, field.check, value);
    if (!refusal.empty()) bad_input("{} {}; change it there", what, refusal);
    field.set(spec, std::move(value));
  }
  const auto refuse_unknown = [&](const Json& object, const std::string& prefix) {
    for (const auto& [key, value] : object.as_object(name)) {
      const std::string path = prefix + key;
      if (path == "flaws.seed") continue;  // of older checkpoints; a run takes its seed from its config
      const bool section =
          prefix.empty() && std::any_of(known.begin(), known.end(),
                                        [&](const std::string& k) { return k.starts_with(key + "."); });
      if (!section && std::find(known.begin(), known.end(), path) == known.end())
        bad_input("{} in {}", unknown_name("key", path, known), name);
    }
  };
  refuse_unknown(json, "");
  for (const auto& [key, value] : json.as_object(name))
    if (value.is_object()) refuse_unknown(value, key + ".");
  return spec;
}

}  // namespace plumb
