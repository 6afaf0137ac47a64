#include "plumb/plan/params.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/rng.h"
#include "plumb/base/sha256.h"
#include "plumb/base/text.h"

namespace plumb {

bool decays(Role r) {
  switch (r) {
    case Role::bias:
    case Role::norm_gain:
    case Role::norm_bias:
    case Role::residual_gain:
    case Role::score_bias:
    case Role::scalar:
      return false;
    default:
      return true;
  }
}

std::int64_t ParamLayout::count() const {
  std::int64_t n = 0;
  for (const auto& p : params) n += p.size();
  return n;
}

const ParamInfo& ParamLayout::find(std::string_view name) const {
  for (const auto& p : params)
    if (p.spec.name == name) return p;
  std::vector<std::string> known;
  for (const auto& p : params) known.push_back(p.spec.name);
  bad_input("{}", unknown_name("parameter", name, known));
}

bool ParamLayout::operator==(const ParamLayout& o) const {
  auto same_param = [](const ParamInfo& a, const ParamInfo& b) {
    return a.spec.name == b.spec.name && a.offset == b.offset && a.spec.shape.text() == b.spec.shape.text();
  };
  auto same_state = [](const StateInfo& a, const StateInfo& b) {
    return a.spec.name == b.spec.name && a.offset == b.offset && a.spec.shape.text() == b.spec.shape.text();
  };
  return std::equal(params.begin(), params.end(), o.params.begin(), o.params.end(), same_param) &&
         std::equal(states.begin(), states.end(), o.states.begin(), o.states.end(), same_state);
}

template <class R>
ParamStore<R>::ParamStore(ParamLayout layout, std::uint64_t seed)
    : layout_(std::move(layout)),
      values_(static_cast<std::size_t>(layout_.n_param_elements) * sizeof(R)),
      states_(static_cast<std::size_t>(layout_.n_state_elements) * sizeof(R)) {
  for (const ParamInfo& p : layout_.params) {
    const std::span<R> v(view(p).data, static_cast<std::size_t>(p.size()));
    const Stream s = stream(seed, "init/" + p.spec.name);
    switch (p.rule.kind) {
      case ParamRule::Kind::constant:
        std::ranges::fill(v, static_cast<R>(p.rule.scale));
        break;
      case ParamRule::Kind::normal:
        s.fill_normal(0, p.rule.scale, v);
        break;
      case ParamRule::Kind::uniform:
        s.fill_uniform(-p.rule.scale, p.rule.scale, v);
        break;
      case ParamRule::Kind::row_norms:
        break;  // once all are drawn
    }
  }
  for (const ParamInfo& p : layout_.params) {
    if (p.rule.kind != ParamRule::Kind::row_norms) continue;
    const View<R> rows = param(p.rule.of);
    for (std::int64_t i = 0; i < p.size(); ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < rows.cols; ++j)
        sum += static_cast<double>(rows.row(i)[j]) * static_cast<double>(rows.row(i)[j]);
      view(p).data[i] = static_cast<R>(std::sqrt(sum));
    }
  }
  for (const StateInfo& s : layout_.states) {
    const auto v = view(s);
    std::fill(v.data, v.data + v.size(), static_cast<R>(s.spec.init));
  }
}

template <class R>
View<R> ParamStore<R>::view(const ParamInfo& p) const {
  const Shape& s = p.spec.shape;
  return {values_.as<R>() + p.offset, s.rows(), s.cols(), s.cols()};
}

template <class R>
View<R> ParamStore<R>::view(const StateInfo& p) const {
  const Shape& s = p.spec.shape;
  return {states_.as<R>() + p.offset, s.rows(), s.cols(), s.cols()};
}

template <class R>
View<R> ParamStore<R>::param(std::string_view name) const {
  return view(layout_.find(name));
}

template <class R>
std::string ParamStore<R>::hash() const {
  Sha256 h;
  auto add = [&](const std::string& name, const Shape& shape, View<R> v) {
    h.add(name + shape.text());
    h.add(std::as_bytes(std::span(v.data, static_cast<std::size_t>(v.size()))));
  };
  for (const ParamInfo& p : layout_.params) add(p.spec.name, p.spec.shape, view(p));
  for (const StateInfo& s : layout_.states)
    if (s.spec.saved) add(s.spec.name, s.spec.shape, view(s));
  return h.hex();
}

template class ParamStore<float>;
template class ParamStore<double>;

}  // namespace plumb
