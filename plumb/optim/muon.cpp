// Muon: momentum, orthogonalised by Newton–Schulz (Jordan et al. 2024,
// https://kellerjordan.github.io/posts/muon/), for the hidden matrices: q, k, v and output projections,
// feed-forward and router. Embeddings, readout, gains, biases and scalars are AdamW's, by the same settings.
//
//   b <- momentum b + g;  u = g + momentum b (Nesterov);  X = u / (|u|_F + 1e-7)
//   five times: A = X X^T;  X <- 3.4445 X + (-4.7750 A + 2.0315 A^2) X          (of tall matrices from the
//   other side: X^T X) p <- p (1 - shrink);  p <- p - lr 0.2 sqrt(max(rows, cols)) X
//
// The factor is that of Liu et al. 2025 (Moonlight, arXiv 2502.16982, section 2.2) instead of Jordan's
// sqrt(max(1, rows / cols)): an orthogonal matrix has elements of RMS 1 / sqrt(max(rows, cols)), so an
// update's RMS is about 0.2 lr whatever the shape, what AdamW's is. One train.lr then serves both kinds of
// parameters, and AdamW's values of lr and weight decay carry over.
//
// In R throughout (published: bfloat16). State: "momentum" of a matrix; m and v of the others. A matrix is
// one thread's work, its products have one shape each: the same bits on any number of threads.
#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/kernel/rows.h"
#include "plumb/optim/adamw.h"
#include "plumb/plan/linear.h"

namespace plumb {
namespace {

constexpr double linear = 3.4445, cubic = -4.7750, quintic = 2.0315;  // in the singular values of X
constexpr int iterations = 5;
constexpr double least_norm = 1e-7, update_rms = 0.2;

bool is_hidden_matrix(const ParamInfo& p) {
  if (p.spec.shape.dims.size() < 2) return false;
  switch (p.spec.role) {
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::attn_out:
    case Role::ffn_in:
    case Role::ffn_gate:
    case Role::ffn_out:
    case Role::router:
      return true;
    default:
      return false;
  }
}

template <class R>
class Muon final : public Optimizer<R> {
 public:
  Muon(const ParamLayout& layout, const OptimSpec& s, int threads)
      : Optimizer<R>(layout, s),
        momentum_(static_cast<R>(s.momentum)),
        others_(layout, s, [](auto& p) { return !is_hidden_matrix(p); }),
        buffer_(layout, is_hidden_matrix),
        threads_(threads) {
    for (const ParamInfo& p : layout.params)
      if (is_hidden_matrix(p)) add(p, s);
    // The longest first: whoever is free takes the next.
    std::ranges::stable_sort(matrices_, [](const Matrix& x, const Matrix& y) { return x.work() > y.work(); });
    scratch_bytes_ = 2 * part(most_) + 2 * part(most_side_ * most_side_) + products_bytes_;
    scratch_ = Arena(scratch_bytes_ * static_cast<std::size_t>(threads));
  }
  std::vector<OptimState<R>> state(const ParamInfo& p) const override {
    if (!buffer_.has(p)) return others_.state(p);
    return {{"momentum", buffer_.view(p)}};
  }
  std::size_t bytes() const override { return others_.bytes() + buffer_.bytes() + scratch_.bytes(); }

 private:
  struct Matrix {
    std::int64_t offset, rows, cols;
    R* buffer;
    ParamRate rate;
    const Product<R>*gram, *square, *turn;
    bool tall() const { return rows > cols; }
    std::int64_t side() const { return std::min(rows, cols); }
    std::int64_t work() const { return side() * rows * cols; }
  };

  static std::size_t part(std::int64_t n) {
    return round_up(static_cast<std::size_t>(n) * sizeof(R), cache_line);
  }

  void add(const ParamInfo& p, const OptimSpec& s) {
    const View<R> v = buffer_.view(p);
    Matrix m{p.offset, v.rows, v.cols, v.data, ParamRate(p, s, p.rule.lr), nullptr, nullptr, nullptr};
    const std::int64_t n = m.side(), length = std::max(m.rows, m.cols);
    m.gram = products_.get({.m = n, .n = n, .k = length, .trans_a = m.tall(), .trans_b = !m.tall()});
    m.square = products_.get({.m = n, .n = n, .k = n});
    m.turn = products_.get({.m = m.rows, .n = m.cols, .k = n});
    for (const auto* product : {m.gram, m.square, m.turn})
      products_bytes_ = std::max(products_bytes_, round_up(product->scratch_bytes(), cache_line));
    most_ = std::max(most_, p.size());
    most_side_ = std::max(most_side_, n);
    matrices_.push_back(m);
  }

  void apply(const Update<R>& u) override {
    if (u.pool.size() > threads_)
      fail("[muon] the pool has {} threads, {} were planned for", u.pool.size(), threads_);
    others_.apply(u);
    u.pool.run(static_cast<std::int64_t>(matrices_.size()), [&](std::int64_t i) {
      auto* scratch = scratch_.data() + static_cast<std::size_t>(u.pool.worker()) * scratch_bytes_;
      update(matrices_[static_cast<std::size_t>(i)], u, scratch);
    });
  }

  void update(const Matrix& m, const Update<R>& u, std::byte* scratch) const {
    const std::int64_t size = m.rows * m.cols;
    const auto scale = static_cast<R>(u.grad_scale);
    const R* g = u.grads + m.offset;
    R* p = u.values + m.offset;
    R* x = reinterpret_cast<R*>(scratch);
    for (std::int64_t i = 0; i < size; ++i) {
      const R gi = scale * g[i];
      m.buffer[i] = momentum_ * m.buffer[i] + gi;
      x[i] = gi + momentum_ * m.buffer[i];
    }
    if (m.rate.lr == 0) return;  // frozen: what follows would be multiplied by 0
    orthogonalise(m, x, scratch + part(most_));
    const double rms = update_rms * std::sqrt(static_cast<double>(std::max(m.rows, m.cols)));
    const auto lr = static_cast<R>(m.rate.step(u.rate) * rms), shrink = static_cast<R>(m.rate.shrink(u.rate));
    for (std::int64_t i = 0; i < size; ++i) p[i] = (p[i] - shrink * p[i]) - lr * x[i];
  }

  void orthogonalise(const Matrix& m, R* x, std::byte* scratch) const {
    const std::int64_t size = m.rows * m.cols, n = m.side() * m.side();
    R* turned = reinterpret_cast<R*>(scratch);
    R* gram = reinterpret_cast<R*>(scratch += part(most_));
    R* square = reinterpret_cast<R*>(scratch += part(most_side_ * most_side_));
    scratch += part(most_side_ * most_side_);
    const auto over =
        static_cast<R>(1 / (std::sqrt(sum_squares(View<const R>{x, 1, size, size})) + least_norm));
    for (std::int64_t i = 0; i < size; ++i) x[i] *= over;
    for (int k = 0; k < iterations; ++k) {
      m.gram->run(x, x, nullptr, gram, scratch);
      m.square->run(gram, gram, nullptr, square, scratch);
      for (std::int64_t i = 0; i < n; ++i)
        gram[i] = static_cast<R>(cubic) * gram[i] + static_cast<R>(quintic) * square[i];
      m.tall() ? m.turn->run(x, gram, nullptr, turned, scratch)
               : m.turn->run(gram, x, nullptr, turned, scratch);
      for (std::int64_t i = 0; i < size; ++i) x[i] = static_cast<R>(linear) * x[i] + turned[i];
    }
  }

  R momentum_;
  AdamWRule<R> others_;
  StateBuffer<R> buffer_;
  int threads_;
  ProductCache<R> products_;
  std::vector<Matrix> matrices_;
  std::int64_t most_ = 0, most_side_ = 0;
  std::size_t products_bytes_ = 0, scratch_bytes_ = 0;
  Arena scratch_;
};

}  // namespace

namespace entries::optim {
extern constexpr OptimEntry muon = optim_entry<Muon>(
    {
        .name = "muon",
        .purpose =
            "Matrices step by the nearest orthogonal matrix to their momentum: all directions learn at "
            "one rate.",
        .formula = "hidden matrices: p <- p (1 - shrink) - lr 0.2 sqrt(max(rows, cols)) orthogonalised(g + "
                   "momentum b); "
                   "others: AdamW",
        .paper = "Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; Liu et al. 2025, arXiv "
                 "2502.16982",
        .pitfalls = "Published learning rates of 0.02 belong to another scale of the update; here AdamW's "
                    "carry over.",
        .fields = "train.momentum, train.beta1, train.beta2, train.adam_eps",
    },
    0.5);
}  // namespace entries::optim

}  // namespace plumb
