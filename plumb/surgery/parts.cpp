#include "plumb/surgery/parts.h"

#include <algorithm>
#include <initializer_list>

namespace plumb {
namespace {

using Roles = std::initializer_list<Role>;

bool is_norm_gain(const ParamInfo& p) {
  // Weight normalisation's lengths have the role too; they start at lengths of rows.
  return p.spec.role == Role::norm_gain && p.rule.kind == ParamRule::Kind::constant;
}

class PartsOf {
 public:
  PartsOf(const DecoderSpec& s, const ParamLayout& l) : s_(s), layout_(l) {}

  std::vector<Part> all() {
    positions();
    norm_gains("embed.");
    for (std::int64_t i = 0; i < s_.n_layer; ++i) {
      const std::string block = "blocks." + std::to_string(i), attn = block + ".attn", ffn = block + ".ffn";
      parts_.push_back({.name = attn,
                        .kind = "attention",
                        .cuts = {{attn + ".write"}},
                        .weights = branch(attn),
                        .removed = writers(attn, Role::attn_out)});
      if (!s_.attention.output_projection) parts_.back().removed = linears(attn, {Role::v});
      for (std::int64_t h = 0; h < s_.n_head; ++h) head(attn, h);
      projections(attn);
      norm_gains(attn + ".");
      parts_.push_back({.name = ffn,
                        .kind = "ffn",
                        .cuts = {{ffn + ".write"}},
                        .weights = branch(ffn),
                        .removed = writers(ffn, Role::ffn_out)});
      norm_gains(ffn + ".");
    }
    if (s_.final_norm) {
      parts_.push_back({.name = "final_norm",
                        .kind = "final_norm",
                        .off = Part::Off::bypass,
                        .from = "blocks." + std::to_string(s_.n_layer - 1) + ".out",
                        .to = "final_norm"});
      for (const ParamInfo& p : layout_.params)
        if (p.spec.name.starts_with("final_norm.")) parts_.back().weights.push_back({p.spec.name});
      norm_gains("final_norm.");
    }
    return std::move(parts_);
  }

 private:
  template <class Wanted>
  std::vector<Slice> slices(const std::string& prefix, const Wanted& wanted) const {
    std::vector<Slice> found;
    for (const ParamInfo& p : layout_.params)
      if (p.spec.name.starts_with(prefix) && wanted(p)) found.push_back({p.spec.name});
    return found;
  }

  // What a sub-layer is made of: matrices, their biases and lengths; not its norms, nor gains of the residual
  // rule.
  std::vector<Slice> branch(const std::string& prefix) const {
    return slices(prefix + ".", [](const ParamInfo& p) {
      switch (p.spec.role) {
        case Role::norm_gain:
          return !is_norm_gain(p);
        case Role::norm_bias:
        case Role::residual_gain:
        case Role::score_bias:
        case Role::scalar:
          return false;
        default:
          return true;
      }
    });
  }

  // The linears of these roles: all parameters whose name starts as that of such a matrix
  // ("blocks.0.attn.o.").
  std::vector<Slice> linears(const std::string& prefix, Roles roles) const {
    std::vector<Slice> found;
    for (const ParamInfo& p : layout_.params) {
      if (!p.spec.name.starts_with(prefix + ".") || std::ranges::find(roles, p.spec.role) == roles.end())
        continue;
      const std::string linear = p.spec.name.substr(0, p.spec.name.rfind('.') + 1);
      for (Slice& s : slices(linear, [](const ParamInfo&) { return true; })) found.push_back(std::move(s));
    }
    return found;
  }
  std::vector<Slice> writers(const std::string& prefix, Role role) const { return linears(prefix, {role}); }

  void positions() {
    if (s_.position == "none") return;
    Part p{.name = "positions", .kind = "positions", .off = Part::Off::no_position};
    p.weights = slices("", [](const ParamInfo& i) {
      return i.spec.role == Role::pos_embed || i.spec.role == Role::score_bias;
    });
    if (!p.weights.empty()) p.off = Part::Off::parameters, p.removed = p.weights;
    parts_.push_back(std::move(p));
  }

  void head(const std::string& attn, std::int64_t h) {
    const std::int64_t d = s_.d_head, at = h * d;
    Part p{.name = attn + ".head." + std::to_string(h), .kind = "head", .cuts = {{attn + ".ctx", at, d}}};
    // Rows of a matrix are a head's only where nothing is made of the whole matrix.
    if (s_.weight_param == "plain") {
      const bool own_keys = s_.kv_heads() == s_.n_head;
      const auto rows = [&](Role role) {
        for (Slice s : linears(attn, {role})) {
          const bool is_bias = layout_.find(s.param).spec.role == Role::bias;
          (is_bias ? s.first_col : s.first_row) = at, (is_bias ? s.n_col : s.n_row) = d;
          p.weights.push_back(s);
        }
      };
      rows(Role::q);
      if (own_keys) rows(Role::k), rows(Role::v);
      for (const ParamInfo& i : layout_.params)
        if (i.spec.role == Role::attn_out && i.spec.name.starts_with(attn + "."))
          p.removed.push_back({.param = i.spec.name, .first_col = at, .n_col = d});
      p.weights.insert(p.weights.end(), p.removed.begin(), p.removed.end());
    }
    parts_.push_back(std::move(p));
  }

  void projections(const std::string& attn) {
    const auto& a = s_.attention;
    // Without a projection the point is the branch's input itself, which others read too.
    if (a.qk_projection) {
      const auto weights = linears(attn, {Role::q, Role::k});
      parts_.push_back({.name = attn + ".qk",
                        .kind = "query_key",
                        .cuts = {{attn + ".q"}, {attn + ".k"}},
                        .weights = weights,
                        .removed = weights});
    }
    if (a.value_projection) {
      const auto weights = linears(attn, {Role::v});
      parts_.push_back({.name = attn + ".v",
                        .kind = "value",
                        .cuts = {{attn + ".v"}},
                        .weights = weights,
                        .removed = weights});
    }
    if (!a.output_projection || s_.n_head * s_.d_head != s_.d_model) return;
    Part p{.name = attn + ".o",
           .kind = "output_projection",
           .off = Part::Off::bypass,
           .from = attn + ".ctx",
           .to = attn + ".out",
           .weights = writers(attn, Role::attn_out)};
    if (s_.weight_param == "plain") {
      p.removed = p.weights;
      for (Slice& s : p.removed)
        if (layout_.find(s.param).spec.role == Role::attn_out) s.to = Slice::To::identity;
    }
    parts_.push_back(std::move(p));
  }

  void norm_gains(const std::string& prefix) {
    for (const ParamInfo& p : layout_.params) {
      if (!p.spec.name.starts_with(prefix) || !is_norm_gain(p)) continue;
      const Slice gain{.param = p.spec.name,
                       .to = s_.norm_gain == "plus_one" ? Slice::To::zero : Slice::To::one};
      parts_.push_back({.name = p.spec.name,
                        .kind = "norm_gain",
                        .off = Part::Off::parameters,
                        .weights = {gain},
                        .removed = {gain}});
    }
  }

  const DecoderSpec& s_;
  const ParamLayout& layout_;
  std::vector<Part> parts_;
};

}  // namespace

std::vector<Part> parts_of(const DecoderSpec& s, const ParamLayout& layout) {
  return PartsOf(s, layout).all();
}

Part slots_part(const DecoderSpec& s, const ParamLayout& layout, std::int64_t layer,
                const std::vector<std::int64_t>& slots, const std::string& which) {
  const std::string ffn = "blocks." + std::to_string(layer) + ".ffn";
  Part part{.name = ffn + ".slots." + which, .kind = "slots"};
  for (const std::int64_t slot : slots) {
    part.cuts.push_back({ffn + ".act", slot, 1});
    if (s.weight_param != "plain") continue;
    for (const ParamInfo& p : layout.params) {
      if (!p.spec.name.starts_with(ffn + ".")) continue;
      if (p.spec.role == Role::ffn_in || p.spec.role == Role::ffn_gate)
        part.weights.push_back({.param = p.spec.name, .first_row = slot, .n_row = 1});
      if (p.spec.role != Role::ffn_out) continue;
      part.removed.push_back({.param = p.spec.name, .first_col = slot, .n_col = 1});
      part.weights.push_back(part.removed.back());
    }
  }
  return part;
}

}  // namespace plumb
