#include "plumb/interop/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "plumb/base/text.h"
#include "plumb/interop/init_check.h"
#include "plumb/interop/part_warnings.h"

namespace plumb {
namespace {

constexpr double least_eps = 1e-8, most_eps = 1e-5;

std::optional<HfConfig::Real> eps_of(const Subject& s) {
  if (s.spec) return HfConfig::Real{"norm_eps", s.spec->norm_eps};
  return s.config.eps();
}

Json details_of(const Subject& s) {
  Json d = Json::object();
  if (const auto eps = eps_of(s))
    d["norm_eps"] = eps->value;
  else if (s.arch && s.config)
    d["norm_eps_default"] = s.arch->eps;
  if (s.spec) d["norm_gain"] = s.spec->norm_gain;
  if (s.arch) d["norm_gain"] = s.arch->plus_one ? "plus_one" : "plain";
  if (s.map.has(Part::embed_norm)) d["embedding_norm"] = true;
  for (const std::string_view key :
       {"sliding_window", "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar",
        "rope_theta", "rope_local_base_freq", "rope_parameters", "partial_rotary_factor", "rotary_pct",
        "attention_bias", "residual_multiplier"}) {
    const Json* v = s.source.config.find(key);
    if (const Json* text = s.source.config.find("text_config"); text && text->is_object())
      v = text->find(key);
    if (v && !v->is_null()) d[key] = *v;
  }
  if (s.config.flag("use_sliding_window") == Said::no && d.find("sliding_window"))
    d["sliding_window"] = Json();
  return d;
}

void warn_of_norms(const Subject& s, Inspection& i) {
  if (const auto eps = eps_of(s);
      eps && i.norm.value != "none" && !(eps->value >= least_eps && eps->value <= most_eps))
    i.warnings.push_back(
        fmt::format("{} is {:g}, outside of the usual {:g} to {:g}: a large one damps small inputs, a small "
                    "one is lost in half precision.",
                    eps->key, eps->value, least_eps, most_eps));
  const bool needs_final =
      i.placement.value == "pre" || i.placement.value == "parallel" || i.placement.value == "sandwich";
  if (needs_final && i.final_norm.value == "false" && i.norm.value != "none")
    i.warnings.push_back(fmt::format(
        "The placement is {} and no norm stands before the head: the logits grow with the residual stream.",
        i.placement.value));
  if (const SourceTensor* t = s.map.find(Part::final_norm);
      t && s.d_model && !s.map.has(Part::project_out) && t->shape != std::vector{*s.d_model})
    i.warnings.push_back(
        fmt::format("{} has shape {}, but d_model is {}.", t->name, shape_text(t->shape), *s.d_model));
}

void warn_of_ends(const Subject& s, Inspection& i) {
  const SourceTensor *table = s.map.find(Part::pos_embed), *embed = s.map.find(Part::token_embed),
                     *head = s.map.find(Part::head);
  const std::int64_t offset = s.arch ? s.arch->position_offset : 0;
  // An architecture that is not known here may have rows that are no positions.
  const bool may_have_more = !s.arch && !s.spec;
  if (table && !table->shape.empty() && s.block_size && table->shape[0] != *s.block_size + offset &&
      !(may_have_more && table->shape[0] > *s.block_size))
    i.warnings.push_back(fmt::format("{} has {} rows, but the config's {} positions{} make {}.", table->name,
                                     table->shape[0], *s.block_size,
                                     offset > 0 ? fmt::format(" and {} rows before them", offset) : "",
                                     *s.block_size + offset));
  if (embed && head && embed->shape.size() == 2 && head->shape.size() == 2 &&
      embed->shape[0] != head->shape[0])
    i.warnings.push_back(
        fmt::format("{} has {} rows and {} has {}: embedding and head know different vocabularies.",
                    embed->name, embed->shape[0], head->name, head->shape[0]));
}

// Which tensors a layer has, without its number, with shapes.
std::set<std::string> tensors_of(const TensorMap& map, std::int64_t layer) {
  std::set<std::string> names;
  const std::string number = fmt::format(".{}.", layer);
  for (const NamedTensor& t : map.tensors) {
    if (t.name.layer != layer || t.name.part >= Part::rope_frequency) continue;
    std::string name = t.tensor->name;
    if (const auto at = name.find(number); at != std::string::npos) name.replace(at, number.size(), ".N.");
    names.insert(name + " " + shape_text(t.tensor->shape));
  }
  return names;
}

// Numbers that no tensor has, although a higher one is there.
void warn_of_missing_layers(const Subject& s, Inspection& i) {
  std::vector<std::string> missing;  // the first of them, as some_of names them
  std::int64_t n_missing = 0, next = 0;
  for (const NamedTensor& t : s.map.tensors) {
    if (t.name.layer < 0 || t.name.part == Part::side) continue;
    for (std::int64_t n = next; n < t.name.layer && missing.size() < 6; ++n)
      missing.push_back(std::to_string(n));
    n_missing += std::max<std::int64_t>(0, t.name.layer - next);
    next = std::max(next, t.name.layer + 1);
  }
  if (n_missing == 0) return;
  if (missing.size() > 5) missing.resize(5);
  const std::int64_t more = n_missing - static_cast<std::int64_t>(missing.size());
  i.warnings.push_back(fmt::format(
      "Of layers 0 to {} no tensor of {} {}{} is in the checkpoint: {} incomplete, or layers were taken out.",
      s.map.n_layer - 1, n_missing == 1 ? "layer" : "layers", join(missing),
      more > 0 ? fmt::format(" and {} more", more) : "",
      s.source.files.size() > 1 ? "the shards are" : "it is"));
}

void warn_of_layers(const Subject& s, Inspection& i) {
  if (!s.complete || s.map.n_layer < 2) return;
  warn_of_missing_layers(s, i);
  // Grouped once: a lookup by layer in a loop would be quadratic in the number of tensors.
  const auto of_layer = [](const NamedTensor& t) { return t.name.layer >= 0 && t.name.part != Part::side; };
  const auto start = std::ranges::find_if(s.map.tensors, of_layer);
  const std::int64_t reference = start->name.layer;  // n_layer says that there is one
  const std::set<std::string> first = tensors_of(s.map, reference);
  std::vector<std::string> unlike;
  std::string example;
  TensorMap one;  // the tensors of one layer: they stand together
  for (auto at = s.map.tensors.begin(); at != s.map.tensors.end();) {
    const std::int64_t layer = at->name.layer;
    auto end =
        std::find_if(at, s.map.tensors.end(), [&](const NamedTensor& t) { return t.name.layer != layer; });
    one.tensors.assign(at, end);
    at = end;
    if (layer <= reference) continue;
    const std::set<std::string> here = tensors_of(one, layer);
    if (here.empty() || here == first) continue;
    unlike.push_back(std::to_string(layer));
    if (!example.empty()) continue;
    std::vector<std::string> differ;
    std::ranges::set_symmetric_difference(first, here, std::back_inserter(differ));
    example = some_of(differ);
  }
  if (!unlike.empty())
    i.warnings.push_back(
        fmt::format("Layers {} do not have the tensors of layer {}; in layer {} these differ: {}.",
                    some_of(unlike), reference, unlike.front(), example));
}

void warn_of_flags(const Subject& s, Inspection& i) {
  for (const std::string& key : s.config.unclear_flags())
    i.warnings.push_back(
        fmt::format("{} in {} is neither true nor false: answers that only it decides are unknown; write "
                    "true or false there.",
                    key, s.config_said()));
}

void warn_of_names(const Subject& s, Inspection& i) {
  if (!s.map.unknown.empty())
    i.warnings.push_back(fmt::format("{} tensors have names that are not known here: {}.",
                                     s.map.unknown.size(), some_of(s.map.unknown)));
  if (s.map.side > 0)
    i.notes.push_back(
        fmt::format("{} tensors belong to another model in the same file (a vision tower, an encoder) and "
                    "were not looked at.",
                    s.map.side));
}

void warn_of_unread(const Subject& s, Inspection& i) {
  std::vector<std::string> unread;
  for (const SourceTensor& t : s.source.tensors)
    if (!t.unread.empty()) unread.push_back(fmt::format("{} ({})", t.name.substr(0, 90), t.unread));
  if (!unread.empty())
    i.warnings.push_back(fmt::format(
        "{} tensors are of kinds that are not read here, so that their names and shapes count and their "
        "values do not: {}.",
        unread.size(), some_of(unread)));
}

void warn_of_values(Inspection& i) {
  std::vector<std::string> bad;
  for (const MatrixStats& m : i.weights.matrices)
    if (m.non_finite > 0) bad.push_back(fmt::format("{} ({})", m.tensor, m.non_finite));
  for (const NormStats& n : i.weights.norms)
    if (n.non_finite > 0) bad.push_back(fmt::format("{} ({})", n.tensor, n.non_finite));
  if (!bad.empty()) i.warnings.push_back(fmt::format("Weights that are NaN or infinite: {}.", some_of(bad)));
}

// plumb knows how it drew these; the weights, which may be trained, only bear witness.
Answer scaled_init_of_spec(const DecoderSpec::InitRule& rule, const InitCheck& check) {
  using V = InitCheck::Verdict;
  const bool yes = rule.scheme == "gpt2" && rule.residual_scale;
  const bool contradict = check.verdict == (yes ? V::plain : V::scaled);
  return {yes ? "yes" : "no",
          "the spec in the checkpoint's metadata says so" +
              (check.because.empty() ? ""
               : contradict          ? "; the weights by themselves contradict it: " + check.because
                                     : "; the weights by themselves: " + check.because)};
}

Answer scaled_init_of(const Subject& s, const Inspection& i) {
  using V = InitCheck::Verdict;
  InitCheck check;
  if (i.measured && s.n_layer) check = check_init(i.weights, *s.n_layer);
  if (s.spec && (s.spec->init.scheme == "gpt2" || s.spec->init.scheme == "normal"))
    return scaled_init_of_spec(s.spec->init, check);
  if (check.verdict == V::scaled) return {"yes", check.because};
  if (check.verdict == V::plain) return {"no", check.because};
  // An architecture's own code says how a model is drawn, and these weights were set or drawn otherwise.
  if (!s.spec && (check.verdict == V::set || check.verdict == V::other)) return {"unknown", check.because};
  const std::string weights = check.because.empty() ? "" : "; the weights by themselves: " + check.because;
  if (s.spec)
    return {"unknown",
            fmt::format("init.scheme \"{}\" has a rule of its own{}", s.spec->init.scheme, weights)};
  if (s.arch && s.arch->scaled_init)
    return {"yes",
            fmt::format("{}'s own code draws what writes to the residual stream with 1/sqrt(2 n_layer){}",
                        s.arch->model_type, weights)};
  if (!check.because.empty()) return {"unknown", check.because};
  return {"unknown", i.measured || !s.has_tensors
                         ? "no config says how weights were drawn, and there are none to measure"
                         : "the weights were not measured"};
}

Json optional_size(const std::optional<std::int64_t>& n) { return n ? Json(*n) : Json(); }

Json tri_state(const Answer& a) {
  return a.value == "true" ? Json(true) : a.value == "false" ? Json(false) : Json();
}

Json to_json(const MatrixStats& m) {
  Json j = Json::object();
  j["role"] = part_name(m.part);
  j["tensor"] = m.tensor;
  j["out"] = m.out;
  j["in"] = m.in;
  j["mean"] = m.mean;
  j["std"] = m.std;
  j["max_abs"] = m.max_abs;
  j["init_std"] = m.init_std ? Json(*m.init_std) : Json();
  j["std_over_init"] = m.init_std && *m.init_std > 0 ? Json(m.std / *m.init_std) : Json();
  j["largest_channel_over_median"] = m.largest_channel;
  j["n_outlier_channels"] = m.n_outliers;
  j["outlier_channels"] = m.outlier_channels;
  j["alpha"] = m.tail ? Json(m.tail->alpha) : Json();
  if (m.tail) {
    j["alpha_x_min"] = m.tail->x_min;
    j["alpha_ks"] = m.tail->ks;
    j["alpha_n_tail"] = m.tail->n_tail;
  } else if (!m.no_tail.empty()) {
    j["no_alpha"] = m.no_tail;
  }
  j["non_finite"] = m.non_finite;
  return j;
}

Json to_json(const NormStats& n) {
  Json j = Json::object();
  j["role"] = part_name(n.part);
  j["tensor"] = n.tensor;
  const auto of_finite = [&](double v) { return n.finite > 0 ? Json(v) : Json(); };
  j["mean"] = of_finite(n.mean);
  j["min"] = of_finite(n.min);
  j["max"] = of_finite(n.max);
  j["non_finite"] = n.non_finite;
  return j;
}

// The statistics by layer; -1: of what stands outside of the layers.
std::map<std::int64_t, Json> statistics_of(const WeightStats& w) {
  std::map<std::int64_t, Json> by_layer;
  const auto at = [&](std::int64_t layer) -> Json& {
    Json& j = by_layer[layer];
    if (j.is_null()) {
      if (layer >= 0) j["layer"] = layer;
      j["matrices"] = Json::array();
      j["norms"] = Json::array();
    }
    return j;
  };
  at(-1);
  for (const MatrixStats& m : w.matrices) at(m.layer)["matrices"].push_back(to_json(m));
  for (const NormStats& n : w.norms) at(n.layer)["norms"].push_back(to_json(n));
  return by_layer;
}

}  // namespace

Inspection inspect(const CheckpointSource& source, const InspectOptions& options) {
  Subject s(source);
  Inspection i;
  i.source = source.name;
  i.format = source.format;
  i.architecture = s.architecture;
  i.architecture_because = s.architecture_because;
  i.placement = placement_of(s);
  i.norm = norm_of(s);
  i.final_norm = final_norm_of(s);
  i.position = position_of(s);
  i.attention = attention_of(s);
  i.ffn = ffn_of(s);
  i.qk_norm = qk_norm_of(s);
  i.tied = tied_of(s);
  i.details = details_of(s);
  i.n_layer = s.n_layer, i.d_model = s.d_model, i.n_head = s.n_head, i.n_kv_head = s.n_kv_head;
  i.d_head = s.d_head, i.d_ff = s.d_ff, i.vocab_size = s.vocab_size, i.block_size = s.block_size;
  if (options.weights && s.has_tensors) {
    i.weights = measure_weights(s, options.measure);
    i.measured = true;
  }
  i.scaled_init = scaled_init_of(s, i);

  i.warnings = s.warnings;
  i.notes = source.notes;
  warn_of_flags(s, i);
  warn_of_norms(s, i);
  warn_of_ends(s, i);
  warn_of_layers(s, i);
  for (std::string& warning : part_warnings(s)) i.warnings.push_back(std::move(warning));
  warn_of_names(s, i);
  warn_of_unread(s, i);
  warn_of_values(i);
  i.notes.insert(i.notes.end(), i.weights.notes.begin(), i.weights.notes.end());
  return i;
}

Json to_json(const Inspection& i) {
  const std::pair<std::string_view, const Answer*> answers[] = {{"placement", &i.placement},
                                                                {"norm", &i.norm},
                                                                {"final_norm", &i.final_norm},
                                                                {"scaled_init", &i.scaled_init},
                                                                {"position", &i.position},
                                                                {"attention", &i.attention},
                                                                {"ffn", &i.ffn},
                                                                {"qk_norm", &i.qk_norm},
                                                                {"tied", &i.tied}};
  Json j = Json::object(), evidence = Json::object();
  evidence["architecture"] = i.architecture_because;
  for (const auto& [key, answer] : answers) {
    j[key] = key == "final_norm" || key == "tied" ? tri_state(*answer) : Json(answer->value);
    evidence[key] = answer->because;
  }
  j["warnings"] = i.warnings;
  j["notes"] = i.notes;
  j["architecture"] = i.architecture;
  j["evidence"] = evidence;
  j["source"] = i.source;
  j["format"] = i.format;
  j["n_layer"] = optional_size(i.n_layer);
  j["d_model"] = optional_size(i.d_model);
  j["n_head"] = optional_size(i.n_head);
  j["n_kv_head"] = optional_size(i.n_kv_head);
  j["d_head"] = optional_size(i.d_head);
  j["d_ff"] = optional_size(i.d_ff);
  j["vocab_size"] = optional_size(i.vocab_size);
  j["block_size"] = optional_size(i.block_size);
  j["details"] = i.details;
  Json layers = Json::array();
  std::map<std::int64_t, Json> statistics = statistics_of(i.weights);
  for (auto& [layer, of_layer] : statistics)
    if (layer >= 0) layers.push_back(std::move(of_layer));
  j["layers"] = std::move(layers);
  j["ends"] = std::move(statistics[-1]);
  return j;
}

}  // namespace plumb
