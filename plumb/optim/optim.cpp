// What all optimisers share. Adaptive clipping (Brock et al. 2021, arXiv 2102.06171, eq. 3): a unit's
// gradient G_i is at most limit = lambda max(|W_i|, 1e-3) long: G_i <- G_i limit / max(|G_i|, 1e-6) where
// |G_i| >= limit. A unit is what makes one output: a row of a matrix; gains, biases and scalars are clipped
// as a whole. The classifier is left alone: the readout, or the token embedding that is tied to it.
#include "plumb/optim/optim.h"

#include <algorithm>
#include <cmath>

#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

constexpr std::int64_t piece_size = 16384;
constexpr double least_weight = 1e-3, least_grad = 1e-6;

bool has_rows(const ParamInfo& p) { return p.spec.shape.dims.size() >= 2 && decays(p.spec.role); }

}  // namespace

double clip_scale(double grad_norm, double clip) {
  if (clip == 0) return 1;
  return std::min(1.0, clip / (grad_norm + 1e-6));
}

ParamRate::ParamRate(const ParamInfo& p, const OptimSpec& s, double parametrisation)
    : lr(parametrisation * s.lr_scale[p.spec.role]),
      lr_of_decay(s.lr_scale[p.spec.role]),
      decay(has_rows(p) || p.rule.decays_anyway ? s.weight_decay * p.rule.decay : 0),
      independent(s.independent_decay) {}

template <class R>
StateBuffer<R>::StateBuffer(const ParamLayout& layout, const std::function<bool(const ParamInfo&)>& chosen) {
  std::int64_t n = 0;
  for (const ParamInfo& p : layout.params) {
    if (!chosen(p)) continue;
    offsets_.emplace(p.offset, n);
    n += static_cast<std::int64_t>(round_up(static_cast<std::size_t>(p.size()), cache_line / sizeof(R)));
  }
  values_ = Arena(static_cast<std::size_t>(n) * sizeof(R));
}

template <class R>
View<R> StateBuffer<R>::view(const ParamInfo& p) const {
  const Shape& s = p.spec.shape;
  return {values_.as<R>() + offsets_.at(p.offset), s.rows(), s.cols(), s.cols()};
}

std::vector<Piece> pieces_of(const ParamLayout& layout, const std::function<bool(const ParamInfo&)>& chosen) {
  std::vector<Piece> all;
  for (std::size_t i = 0; i < layout.params.size(); ++i) {
    const ParamInfo& p = layout.params[i];
    if (!chosen(p)) continue;
    for (std::int64_t at = 0; at < p.size(); at += piece_size)
      all.push_back({p.offset + at, std::min(piece_size, p.size() - at), i, at});
  }
  return all;
}

template <class R>
Optimizer<R>::Optimizer(const ParamLayout& layout, const OptimSpec& s)
    : grad_clip_(s.grad_clip), agc_(s.agc) {
  if (agc_ == 0) return;
  const bool tied = std::ranges::none_of(layout.params, [](auto& p) { return p.spec.role == Role::readout; });
  for (const ParamInfo& p : layout.params) {
    if (p.spec.role == (tied ? Role::token_embed : Role::readout)) continue;
    const std::int64_t size = has_rows(p) ? p.spec.shape.cols() : p.size(), rows = p.size() / size;
    const std::int64_t a_piece = std::max<std::int64_t>(1, piece_size / size);
    for (std::int64_t at = 0; at < rows; at += a_piece)
      units_.push_back({p.offset + at * size, std::min(a_piece, rows - at), size});
  }
  shortened_.resize(units_.size());
  squares_.resize(static_cast<std::size_t>((layout.n_param_elements + piece_size - 1) / piece_size));
}

template <class R>
Clipped Optimizer<R>::clip_units(const ParamStore<R>& store, std::span<R> grads, ThreadPool& pool) {
  pool.run(static_cast<std::int64_t>(units_.size()), [&](std::int64_t i) {
    const Units& u = units_[static_cast<std::size_t>(i)];
    std::int64_t& shortened = shortened_[static_cast<std::size_t>(i)] = 0;
    for (std::int64_t k = 0; k < u.n; ++k) {
      const std::int64_t at = u.offset + k * u.size;
      const View<R> g{grads.data() + at, 1, u.size, u.size}, w{store.values().data() + at, 1, u.size, u.size};
      const double limit = agc_ * std::max(std::sqrt(sum_squares<R>(w)), least_weight);
      const double norm = std::sqrt(sum_squares<R>(g));
      if (norm < limit) continue;
      axpby<R>(limit / std::max(norm, least_grad), g, 0, {}, g);
      ++shortened;
    }
  });
  Clipped c;
  for (const Units& u : units_) c.units += u.n;
  for (const std::int64_t n : shortened_) c.shortened += n;
  return c;
}

template <class R>
Clipped Optimizer<R>::update(ParamStore<R>& store, std::span<R> grads, double grad_norm, const Rate& rate,
                             ThreadPool& pool) {
  ++t_;
  const Clipped c = agc_ > 0 ? clip_units(store, grads, pool) : Clipped{};
  if (c.shortened > 0 && grad_clip_ > 0) {
    const auto size = static_cast<std::int64_t>(grads.size());
    pool.run(static_cast<std::int64_t>(squares_.size()), [&](std::int64_t i) {
      const std::int64_t at = i * piece_size, n = std::min(piece_size, size - at);
      squares_[static_cast<std::size_t>(i)] = sum_squares(View<const R>{grads.data() + at, 1, n, n});
    });
    grad_norm = 0;
    for (const double d : squares_) grad_norm += d;
    grad_norm = std::sqrt(grad_norm);
  }
  apply({store.values().data(), grads.data(), clip_scale(grad_norm, grad_clip_), rate, t_, pool});
  return c;
}

double OptimEntry::scaled_lr(double lr, double batch_factor) const {
  return lr * std::pow(batch_factor, batch_power);
}

const OptimEntry& choose_optimizer(const std::vector<OptimEntry>& table, std::string_view name) {
  return choose(table, "optimizer", name, DecoderSpec{});
}

template class StateBuffer<float>;
template class StateBuffer<double>;
template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace plumb
