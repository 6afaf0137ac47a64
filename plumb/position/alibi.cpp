// ALiBi: attention with linear biases, s_ij = scale q_i·k_j - m_h (i - j). Press et al. 2021, arXiv
// 2108.12409.
//
//   n a power of two:  m_h = 2^(-8 h / n), h = 1 … n
//   otherwise: those of the power of two below n, then every other one of the next, from its first
//
// Falcon's form: (r(r(m_h) r(j)) - r(r(m_h) r(i))) / sqrt(d_head), r rounding to bfloat16; its own code leaves
// out the second term, which is one constant a row. No parameters, no gradients: the bias is a constant of the graph.
#include <bit>
#include <cmath>

#include "plumb/position/position.h"
#include "plumb/tensor/rounding.h"

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
class FalconBias final : public ScoreBias<R> {
 public:
  explicit FalconBias(const DecoderSpec& s) : scale_(1 / std::sqrt(static_cast<double>(s.d_head))) {
    for (const double m : alibi_slopes(s.n_head)) slopes_.push_back(to_bf16(static_cast<float>(m)));
  }
  void add(View<R> s, int head, std::int64_t q0, std::int64_t k0, View<const R>) const override {
    const float m = slopes_[static_cast<std::size_t>(head)];
    const auto at = [&](std::int64_t position) {
      return double{to_bf16(m * to_bf16(static_cast<float>(position)))};
    };
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < s.cols; ++j)
        s.row(i)[j] += static_cast<R>((at(k0 + j) - at(q0 + i)) * scale_);
  }
  void grad(View<const R>, int, std::int64_t, std::int64_t, View<R>) const override {}

 private:
  double scale_;
  std::vector<float> slopes_;
};

template <class R>
class Alibi final : public Position<R> {
 public:
  explicit Alibi(const DecoderSpec& s) : s_(s) {}
  typename Position<R>::Bias bias(Builder<R>&) const override {
    if (s_.alibi_form == "falcon") return {std::make_shared<FalconBias<R>>(s_), {}};
    return {std::make_shared<AlibiBias<R>>(s_.n_head), {}};
  }

 private:
  DecoderSpec s_;
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
                "two series, not one. Falcon's are rounded to bfloat16, product with the position included, "
                "and divided by "
                "sqrt(d_head): read exactly, its checkpoints give other logits.",
    .fields = "model.alibi_form",
});
}  // namespace entries::position

}  // namespace plumb
