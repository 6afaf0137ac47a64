// Finding a small decoder around every entry.
#include <algorithm>
#include <bit>
#include <optional>

#include "plumb/base/error.h"
#include "tests/conformance/covering.h"

namespace plumb::conformance {
namespace {

using Names = std::vector<std::string>;

// A choice of a model: an entry of a table, or one of a few settings that meet every entry (`settings`).
struct Family {
  std::string name;
  void (*set)(DecoderSpec&, const std::string&);
  Names (*entries)(const Components&);
  bool settings = false;
};

template <auto Table>
Names names_of(const Components& c) {
  Names names;
  for (const auto& e : c.*Table) names.emplace_back(e.name);
  return names;
}

using S = DecoderSpec;
using N = const std::string;
const Family families[] = {
    {"norm", [](S& s, N& n) { s.norm = n; }, names_of<&Components::norm>},
    {"weight", [](S& s, N& n) { s.weight_param = n; }, names_of<&Components::weight>},
    {"residual", [](S& s, N& n) { s.residual = n; }, names_of<&Components::residual>},
    {"position", [](S& s, N& n) { s.position = n; }, names_of<&Components::position>},
    {"attention", [](S& s, N& n) { s.attention.kind = n; }, names_of<&Components::attention>},
    {"ffn", [](S& s, N& n) { s.ffn.kind = n; }, names_of<&Components::ffn>},
    {"init", [](S& s, N& n) { s.init.scheme = n; }, names_of<&Components::init>},
    {"placement", [](S& s, N& n) { s.placement = n; }, names_of<&Components::placement>},
    {"qk_norm",
     [](S& s, N& n) {
       s.attention.qk_norm = n;
       if (n == "l2") s.attention.scale = "none";
     },
     [](const Components&) { return Names{"none", "l2", "rms", "rms_all", "layer", "layer_heads"}; }, true},
    {"heads",
     [](S& s, N& n) {
       if (n == "gqa") s.n_head = 4, s.n_kv_head = 2;
       if (n == "mqa") s.n_kv_head = 1;
     },
     [](const Components&) {
       return Names{"mha", "gqa", "mqa"};
     },
     true},
    {"scores",
     [](S& s, N& n) {
       if (n == "window") s.attention.window = 3;
       if (n == "softcap") s.attention.softcap = 5;
     },
     [](const Components&) {
       return Names{"all", "window", "softcap"};
     },
     true},
};

// What may be changed around an entry that refuses the plain model; the fewest changes that it accepts are
// made.
void (*const changes[])(S&) = {
    [](S& s) { s.norm = "none"; },
    [](S& s) { s.weight_param = "scaled_ws"; },
    [](S& s) { s.tied_embeddings = false; },
    [](S& s) { s.placement = s.placement == "pre" ? "post" : "pre"; },
    [](S& s) { s.residual = "add"; },
    [](S& s) { s.attention.scale = "none"; },
    [](S& s) { s.init.residual_scale = false; },
    [](S& s) { s.init.scheme = "normal"; },
    [](S& s) { s.attention.scale = "mup"; },
    [](S& s) { s.d_head = 4; },
};

// Settings under which an entry builds something else.
struct Variant {
  std::string family, text;
  void (*apply)(S&);
  std::string entry = {};  // the one that reads the setting, where that leaves no mark on the graph
};
const Variant variants[] = {
    {"norm", "no gain", [](S& s) { s.norm_affine = false; }},
    {"norm", "no bias", [](S& s) { s.norm_bias = false; }},
    {"norm", "gain 1 + w", [](S& s) { s.norm_gain = "plus_one"; }},
    {"norm", "other alpha", [](S& s) { s.norm_alpha_attention = 0.9; }},
    {"norm", "learned embedding scale", [](S& s) { s.embedding_scale = "learned"; }},
    {"norm", "cumulative average", [](S& s) { s.norm_momentum = 0; }},
    {"residual", "three lanes", [](S& s) { s.residual_lanes = 3; }},
    {"norm", "of the embeddings too",
     [](S& s) { s.embedding_norm = s.norm != "batch"; }},  // of two values: all rounding
    {"attention", "no bias", [](S& s) { s.attention.bias = "false"; }},
    {"attention", "q, k, v bias", [](S& s) { s.attention.bias = "qkv"; }},
    {"attention", "four heads, two of keys", [](S& s) { s.n_head = 4, s.n_kv_head = 2; }},
    {"attention", "one head of keys", [](S& s) { s.n_kv_head = 1; }},
    {"attention", "l2 norm", [](S& s) { s.attention.qk_norm = "l2", s.attention.scale = "none"; }},
    {"attention", "rms norm, gain 1 + w",
     [](S& s) { s.attention.qk_norm = "rms", s.norm_gain = "plus_one"; }},
    {"attention", "rms norm of all heads", [](S& s) { s.attention.qk_norm = "rms_all", s.n_kv_head = 1; }},
    {"attention", "layer norm", [](S& s) { s.attention.qk_norm = "layer"; }},
    {"attention", "layer norm, gains of each head",
     [](S& s) { s.attention.qk_norm = "layer_heads", s.n_head = 4, s.n_kv_head = 2; }},
    {"attention", "input as keys", [](S& s) { s.attention.qk_projection = false; }},
    {"attention", "input as values", [](S& s) { s.attention.value_projection = false; }},
    {"attention", "input as all",
     [](S& s) { s.attention.qk_projection = s.attention.value_projection = false; }},
    {"attention", "soft cap", [](S& s) { s.attention.softcap = 0.7; }, "mha"},
    {"attention", "window", [](S& s) { s.attention.window = 2; }, "mha"},
    {"attention", "a window in every other layer, turned by another base",
     [](S& s) {
       s.attention.window = 2, s.attention.full_every = 2;
       s.position = "rope", s.d_head = 4, s.rope.local_base = 50;
     },
     "mha"},
    {"attention", "dropout", [](S& s) { s.noise.dropout = 0.3; }},
    {"residual", "dropout", [](S& s) { s.noise.dropout = 0.3; }},
    {"placement", "dropout", [](S& s) { s.noise.dropout = 0.3; }},
    {"attention", "bias on the logits", [](S& s) { s.tied_embeddings = false, s.head_bias = true; }},
    {"attention", "capped logits", [](S& s) { s.logit_softcap = 0.8; }},
    {"position", "interleaved", [](S& s) { s.rope.layout = "interleaved"; }, "rope"},
    {"position", "partial", [](S& s) { s.rope.fraction = 0.5; }, "rope"},
    {"position", "linear", [](S& s) { s.rope.scaling = "linear"; }, "rope"},
    // one layer: deeper, what a cache holds was made of states of shorter sequences, turned by other angles
    {"position", "dynamic",
     [](S& s) { s.n_layer = 1, s.rope.scaling = "dynamic_ntk", s.rope.original_block_size = 3; }, "rope"},
    {"position", "Falcon's", [](S& s) { s.alibi_form = "falcon"; }, "alibi"},
    {"position", "yarn", [](S& s) { s.rope.scaling = "yarn"; }, "rope"},
    {"ffn", "no bias", [](S& s) { s.ffn.bias = false; }},
    {"ffn", "top 1", [](S& s) { s.ffn.top_k = 1; }},
    {"init", "wider than the base", [](S& s) { s.init.base_d_model = 2; }},
    {"init", "narrower embeddings", [](S& s) { s.d_embed = 4; }},
    {"init", "untied, uniform", [](S& s) { s.tied_embeddings = false, s.init.distribution = "uniform"; }},
};

// Why a model of this spec cannot be built; empty: it can.
std::string refusal(const DecoderSpec& s, const Components& c) {
  try {
    build_decoder<double>(s, c, Mode::train, s.block_size);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

// The plain small model with the fewest changes after which it accepts all of `wanted`; otherwise why not in
// `why_not`.
struct Wanted {
  const Family* family;
  std::string name;
};
DecoderSpec changed(unsigned set, const std::vector<Wanted>& wanted) {
  DecoderSpec s = small_spec();
  for (unsigned i = 0; i < std::size(changes); ++i)
    if (set >> i & 1u) changes[i](s);
  for (const Wanted& w : wanted) w.family->set(s, w.name);
  return s;
}

// The smallest set of changes, as bits.
std::optional<unsigned> smallest_set(const std::vector<Wanted>& wanted, const Components& c) {
  for (int count = 0; count <= 4; ++count)
    for (unsigned set = 0; set < 1u << std::size(changes); ++set)
      if (std::popcount(set) == count && refusal(changed(set, wanted), c).empty()) return set;
  return {};
}

// The changes that each of the wanted takes alone.
unsigned changes_alone(const std::vector<Wanted>& wanted, const Components& c) {
  unsigned all = 0;
  for (const Wanted& w : wanted) all |= smallest_set({w}, c).value_or(0);
  return all;
}

// The reason why not is what stays when each of the wanted has the changes that it takes alone.
std::optional<DecoderSpec> adapted(const std::vector<Wanted>& wanted, const Components& c,
                                   std::string* why_not = nullptr) {
  if (const auto set = smallest_set(wanted, c)) return changed(*set, wanted);
  if (why_not) *why_not = refusal(changed(changes_alone(wanted, c), wanted), c);
  return {};
}

DecoderSpec adapted(const Family& f, const std::string& name, const Components& c) {
  std::string why;
  if (auto s = adapted({{&f, name}}, c, &why)) return *s;
  fail("[conformance] no small decoder contains {} '{}': {}", f.name, name, why);
}

std::vector<Wanted> wanted_of(const Entries& entries) {
  std::vector<Wanted> found;
  for (const auto& [family, entry] : entries)
    found.push_back({std::ranges::find(families, family, &Family::name), entry});
  return found;
}

// Does the setting change the graph of this spec: other parameters, states or ops?
std::string fingerprint(const DecoderSpec& s, const Components& c) {
  const auto g = build_decoder<double>(s, c, Mode::train, s.block_size);
  std::string text;
  for (const auto& p : g.params) text += p.spec.name + p.spec.shape.text() + fmt::format("{}", p.rule.scale);
  for (const auto& n : g.nodes) {
    text += n.op->info().kind;
    for (const Shape& k : n.spec.kept) text += k.text();
  }
  return text;
}

}  // namespace

std::string Subject::text() const {
  return family + " '" + name + "'" + (variant.empty() ? "" : " (" + variant + ")");
}

DecoderSpec small_spec() {
  DecoderSpec s;
  s.n_layer = 2, s.d_model = 6, s.norm_groups = 2, s.n_head = 2, s.n_kv_head = 2, s.d_head = 3, s.d_ff = 10,
  s.block_size = 5;
  s.vocab_size = 11;
  s.attention.bias = "true";
  s.ffn.n_expert = 3, s.ffn.top_k = 2;
  s.ffn.balance_loss = 0.3, s.ffn.router_z_loss = 0.1;  // large enough for central differences to see
  return s;
}

std::vector<Subject> subjects(const Components& c) {
  std::vector<Subject> all;
  for (const Family& f : families) {
    if (f.settings) continue;  // they are variants of their entries
    for (const std::string& name : f.entries(c)) {
      const DecoderSpec base = adapted(f, name, c);
      all.push_back({f.name, name, "", base, &c});
      for (const Variant& v : variants) {
        if (v.family != f.name) continue;
        DecoderSpec s = base;
        v.apply(s);
        if (!refusal(s, c).empty()) continue;
        // The momentum is the one setting that leaves no mark on the graph: it matters where there is state.
        const bool has_state = !build_decoder<double>(s, c, Mode::train, s.block_size).states.empty();
        if (v.entry == name || fingerprint(s, c) != fingerprint(base, c) ||
            (has_state && s.norm_momentum != base.norm_momentum))
          all.push_back({f.name, name, v.text, s, &c});
      }
    }
  }
  return all;
}

std::vector<std::pair<std::string, Names>> family_names(const Components& c) {
  std::vector<std::pair<std::string, Names>> all;
  for (const Family& f : families) all.emplace_back(f.name, f.entries(c));
  return all;
}

std::optional<DecoderSpec> adapted_to(const Entries& wanted, const Components& c, std::string* why_not) {
  return adapted(wanted_of(wanted), c, why_not);
}

Adapter::Adapter(const Components& c) : c_(c) {
  for (const Family& f : families)
    for (const std::string& name : f.entries(c)) alone_[{f.name, name}] = changes_alone({{&f, name}}, c);
}

std::optional<DecoderSpec> Adapter::operator()(const Entries& entries) const {
  unsigned set = 0;
  for (const auto& e : entries) set |= alone_.at(e);
  DecoderSpec s = changed(set, wanted_of(entries));
  if (refusal(s, c_).empty()) return s;
  return {};
}

Subject subject(const Components& c, const std::string& family, const std::string& name) {
  for (const Family& f : families)
    if (f.name == family) return {family, name, "", adapted(f, name, c), &c};
  fail("[conformance] no family is called '{}'", family);
}

}  // namespace plumb::conformance
