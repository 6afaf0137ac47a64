// ALiBi: attention with linear biases, s_ij = scale q_i·k_j - m_h (i - j). Press et al. 2021, arXiv
// 2108.12409.
//
//   n a power of two:  m_h = 2^(-8 h / n), h = 1 … n
//   otherwise: those of the power of two below n, then every other one of the next, from its first
//
// No parameters, no gradients: the bias is a constant of the graph.
#include <bit>
#include <cmath>

#include "plumb/position/position.h"

namespace plumb {
namespace {

std::vector<double> alibi_slopes(std::int64_t n_head) {
  const auto all = static_cast<std::size_t>(n_head);
  const std::size_t power = std::bit_floor(all);
  std::vector<double> m;
  for (std::size_t h = 1; h <= power; ++h)
    m.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(power)));
  for (std::size_t h = 1; m.size() < all; h += 2)
    m.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(2 * power)));
  return m;
}

template <class R>
class AlibiBias final : public ScoreBias<R> {
 public:
  explicit AlibiBias(std::int64_t n_head) : slopes_(alibi_slopes(n_head)) {}
  void add(View<R> s, int head, std::int64_t q0, std::int64_t k0, View<const R>) const override {
    const double m = slopes_[static_cast<std::size_t>(head)];
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < s.cols; ++j)
        s.row(i)[j] -= static_cast<R>(m * static_cast<double>(q0 + i - k0 - j));
  }
  void grad(View<const R>, int, std::int64_t, std::int64_t, View<R>) const override {}

 private:
  std::vector<double> slopes_;
};

template <class R>
class Alibi final : public Position<R> {
 public:
  explicit Alibi(const DecoderSpec& s) : n_head_(s.n_head) {}
  typename Position<R>::Bias bias(Builder<R>&) const override {
    return {std::make_shared<AlibiBias<R>>(n_head_), {}};
  }

 private:
  std::int64_t n_head_;
};

}  // namespace

namespace entries::position {
extern constexpr PositionEntry alibi = position_entry<Alibi>({
    .name = "alibi",
    .purpose = "Distances as a penalty on scores: nothing to learn, and lengths beyond training degrade "
               "gently.",
    .formula = "score -= m_h (query - key), m_h = 2^(-8h/n_head)",
    .paper = "Press, Smith, Lewis 2021, arXiv 2108.12409, section 3",
    .pitfalls = "Heads with a steep slope see few tokens. For a number of heads that is no power of two the "
                "slopes are "
                "two series, not one.",
});
}  // namespace entries::position

}  // namespace plumb
