#include "plumb/probe/probe.h"

#include <charconv>
#include <cmath>


namespace plumb {

void LayerMoments::add(int shard, std::size_t layer, View<const float> v) {
  parts_[static_cast<std::size_t>(shard) * n_layer_ + layer].merge(moments(v));
}

void LayerMoments::merge() {
  total_.assign(n_layer_, {});
  for (std::size_t i = 0; i < parts_.size(); ++i) total_[i % n_layer_].merge(parts_[i]);
}

std::vector<double> LayerMoments::mean() const {
  std::vector<double> v;
  for (const Moments& m : total_) v.push_back(m.count ? m.mean : std::nan(""));
  return v;
}

std::vector<double> LayerMoments::std() const {
  std::vector<double> v;
  for (const Moments& m : total_) v.push_back(m.std());
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
