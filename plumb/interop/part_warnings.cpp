#include "plumb/interop/part_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plumb/base/text.h"

namespace plumb {
namespace {

using Warnings = std::vector<std::string>;

std::string some_of_sizes(const std::vector<const SourceTensor*>& tensors) {
  std::vector<std::string> names;
  for (const SourceTensor* t : tensors) names.push_back(t->name + " " + shape_text(t->shape));
  return some_of(names);
}

// -- norms of queries and keys

// Of one layer: the gains of the norms of one of both, one for all heads or one a head.
struct HeadNorms {
  std::string_view of;  // queries, keys
  std::optional<std::int64_t> heads;
  std::vector<const SourceTensor*> gains;
  std::set<std::string> modules;
};

std::int64_t first_layer_with_norms(const TensorMap& map) {
  for (const NamedTensor& t : map.tensors)
    if ((t.name.part == Part::q_norm || t.name.part == Part::k_norm) && !t.name.bias) return t.name.layer;
  return -1;
}

HeadNorms head_norms(const Subject& s, Part part, std::int64_t layer) {
  HeadNorms n{.of = part == Part::q_norm ? "queries" : "keys",
              .heads = part == Part::q_norm ? s.n_head : s.n_kv_head,
              .gains = {},
              .modules = {}};
  for (const NamedTensor& t : s.map.tensors)
    if (t.name.part == part && t.name.layer == layer && !t.name.bias)
      n.gains.push_back(t.tensor), n.modules.insert(t.name.module);
  return n;
}

// Each head has a norm of its own, in a module with the head's number.
void warn_of_each_head(const HeadNorms& n, std::int64_t layer, bool complete, Warnings& w) {
  if (!n.heads) return;
  std::vector<std::string> missing;
  std::set<std::string> surplus = n.modules;
  // No more steps than there are modules and a few to name, whatever number of heads a config claims.
  for (std::int64_t h = 0; h < *n.heads && missing.size() < 6; ++h)
    if (surplus.erase(std::to_string(h)) == 0) missing.push_back(std::to_string(h));
  const bool more = missing.size() > 5;
  if (more) missing.pop_back();
  if (complete && !missing.empty())
    w.push_back(fmt::format(
        "In layer {} heads {}{} of the {} of {} have no norm, and others have one: it is incomplete.", layer,
        join(missing), more ? " and more" : "", *n.heads, n.of));
  if (!more && !surplus.empty())
    w.push_back(fmt::format("In layer {} there are norms of {} for more heads than the {} there are: {}.",
                            layer, n.of, *n.heads, some_of({surplus.begin(), surplus.end()})));
}

void warn_of_head_norms(const Subject& s, Warnings& w) {
  const std::int64_t layer = first_layer_with_norms(s.map);
  if (layer < 0) return;
  const HeadNorms both[] = {head_norms(s, Part::q_norm, layer), head_norms(s, Part::k_norm, layer)};
  const auto& [q, k] = both;
  if (s.complete && q.gains.empty() != k.gains.empty())
    w.push_back(fmt::format("{} are normalised and {} are not: no tensor is a norm of theirs.",
                            q.gains.empty() ? "Keys" : "Queries", q.gains.empty() ? q.of : k.of));
  if (s.arch->qk != QkRule::layer_if_set) return;  // gains of the others give d_head, or span all heads
  if (const Said said = s.config.flag("qk_layernorm");
      said == Said::no || (s.config && said == Said::nothing))
    w.push_back(
        fmt::format("qk_layernorm is not true in {}, but {} is there: a loader that goes by the config "
                    "leaves such norms out.",
                    s.config_said(), (q.gains.empty() ? k : q).gains.front()->name));
  const auto is_number = [](const std::string& m) { return m.find_first_not_of("0123456789") == m.npos; };
  const bool each = std::ranges::any_of(
      both, [&](const HeadNorms& n) { return std::ranges::any_of(n.modules, is_number); });
  std::vector<const SourceTensor*> misshapen;
  for (const HeadNorms& n : both) {
    if (each && !n.gains.empty()) warn_of_each_head(n, layer, s.complete, w);
    for (const SourceTensor* t : n.gains)
      if (s.d_head && t->shape != std::vector{*s.d_head}) misshapen.push_back(t);
  }
  if (!misshapen.empty())
    w.push_back(
        fmt::format("Norms of queries and keys must have the {} channels of a head; these have not: {}.",
                    *s.d_head, some_of_sizes(misshapen)));
}

void warn_of_absent_norms(const Subject& s, Warnings& w) {
  if (!s.complete || s.map.n_layer == 0 || s.map.has(Part::q_norm) || s.map.has(Part::k_norm)) return;
  if (s.arch->qk == QkRule::rms || s.arch->qk == QkRule::rms_all)
    w.push_back(fmt::format("{} normalises queries and keys, but no tensor is a gain of theirs.",
                            s.arch->model_type));
  if (s.arch->qk == QkRule::layer_if_set && s.config.flag("qk_layernorm") == Said::yes)
    w.push_back(fmt::format("{} has qk_layernorm = true, but no tensor is a norm of queries or keys.",
                            s.config_said()));
}

// -- projections between the embeddings and the layers

void warn_of_projections(const Subject& s, Warnings& w) {
  const SourceTensor *embed = s.map.find(Part::token_embed), *in = s.map.find(Part::project_in),
                     *out = s.map.find(Part::project_out);
  if (s.complete && (in == nullptr) != (out == nullptr))
    w.push_back(
        fmt::format("{} is there, and no projection {} the layers: embeddings of another width need both.",
                    (in ? in : out)->name, in ? "out of" : "into"));
  if (!embed || embed->shape.size() != 2 || is_packed(*embed)) return;
  const std::int64_t width = embed->shape[1];
  if (const auto said = s.config.size("word_embed_proj_dim"); said && *said != width)
    w.push_back(fmt::format("{} gives word_embed_proj_dim {}, but {} has {} columns; the tensors count.",
                            s.config_said(), *said, embed->name, width));
  if (!s.d_model) return;
  if (s.complete && s.map.n_layer > 0 && !in && !out && width != *s.d_model)
    w.push_back(
        fmt::format("{} has {} columns and the layers {} channels, but no projection is between them.",
                    embed->name, width, *s.d_model));
  std::vector<const SourceTensor*> misshapen;
  if (in && !is_packed(*in) && in->shape != std::vector{*s.d_model, width}) misshapen.push_back(in);
  if (out && !is_packed(*out) && out->shape != std::vector{width, *s.d_model}) misshapen.push_back(out);
  if (!misshapen.empty())
    w.push_back(fmt::format(
        "Projections between embeddings of {} columns and layers of {} channels do not fit either: {}.",
        width, *s.d_model, some_of_sizes(misshapen)));
}

void warn_of_absent_gate(const Subject& s, Warnings& w) {
  const bool experts = s.map.has(Part::router) || s.map.find_expert() != nullptr;
  if (s.complete && s.arch->gated && !experts && s.map.has(Part::up) && !s.map.has(Part::gate) &&
      !s.map.has(Part::gate_up))
    w.push_back(
        fmt::format("{} has a gate in its feed-forward networks, but no tensor is one.", s.arch->model_type));
}

}  // namespace

std::vector<std::string> part_warnings(const Subject& s) {
  Warnings w;
  if (s.n_head && s.n_kv_head && *s.n_kv_head > 0 && *s.n_head % *s.n_kv_head != 0)
    w.push_back(fmt::format(
        "{} heads of queries cannot be shared out evenly among {} heads of keys: one of the two is wrong.",
        *s.n_head, *s.n_kv_head));
  if (!s.arch || !s.has_tensors) return w;
  warn_of_absent_gate(s, w);
  warn_of_absent_norms(s, w);
  if (s.arch->qk != QkRule::none) warn_of_head_norms(s, w);
  warn_of_projections(s, w);
  return w;
}

}  // namespace plumb
