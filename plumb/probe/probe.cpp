#include "plumb/probe/probe.h"

#include <charconv>

#include "plumb/kernel/rows.h"

namespace plumb {

void LayerMoments::add(int shard, std::size_t layer, View<const float> v) {
  add(shard, layer, static_cast<double>(v.size()), sum(v), sum_squares(v));
}

void LayerMoments::merge() {
  total_.assign(n_layer_, {});
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& t = total_[i % n_layer_];
    t.n += parts_[i].n, t.sum += parts_[i].sum, t.squares += parts_[i].squares;
  }
}

std::vector<double> LayerMoments::mean() const {
  std::vector<double> v;
  for (const Part& p : total_) v.push_back(p.sum / p.n);
  return v;
}

std::vector<double> LayerMoments::std() const {
  std::vector<double> v;
  for (const Part& p : total_) {
    const double m = p.sum / p.n, var = p.squares / p.n - m * m;
    v.push_back(std::sqrt(var < 0 ? 0 : var));  // rounding may leave −1e-17; a NaN stays
  }
  return v;
}

int layer_of(std::string_view point, std::string_view suffix) {
  constexpr std::string_view prefix = "blocks.";
  if (!point.starts_with(prefix) || !point.ends_with(suffix) || point.size() <= prefix.size() + suffix.size()) return -1;
  const std::string_view digits = point.substr(prefix.size(), point.size() - prefix.size() - suffix.size());
  int layer = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  return error == std::errc() && end == digits.data() + digits.size() ? layer : -1;
}

}  // namespace plumb
