#include "plumb/study/curvature.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plumb/base/rng.h"
#include "plumb/model/decoder.h"

namespace plumb {
namespace {

using Vector = std::vector<double>;

// e in the norm of the parameters. Most of that norm is gains of norms, and steep directions lie in a few rows of the
// embedding: their share is some hundred times e's. The error of third derivatives is the square of that, and that of
// rounding, 1e-7 |g| / e, is far below.
constexpr double step_share = 1e-4;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
void add(Vector& to, double by, const Vector& v) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += by * v[i];
}
void scale(Vector& v, double by) {
  for (double& x : v) x *= by;
}

// A vector and what the Hessian makes of it: linear in one another.
struct Mapped {
  Vector v, hv;
  void plus(double by, const Mapped& o) { add(v, by, o.v), add(hv, by, o.hv); }
  void times(double by) { scale(v, by), scale(hv, by); }
};

using Small = std::array<std::array<double, 3>, 3>;

// The eigenvector of the largest eigenvalue of a symmetric matrix: squared again and again, a matrix without negative
// eigenvalues becomes its projector.
std::array<double, 3> top_of(Small t) {
  double size = 0;
  for (const auto& row : t)
    for (const double x : row) size += std::abs(x);
  for (std::size_t i = 0; i < 3; ++i) t[i][i] += size;
  for (int round = 0; round < 60; ++round) {
    Small next{};
    double trace = 0;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j)
        for (std::size_t k = 0; k < 3; ++k) next[i][j] += t[i][k] * t[k][j];
    for (std::size_t i = 0; i < 3; ++i) trace += next[i][i];
    for (auto& row : next)
      for (double& x : row) x /= trace;
    t = next;
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < 3; ++i)
    if (t[i][i] > t[best][best]) best = i;
  return t[best];
}

// Copies the parameters back however the block ends.
class PutBack {
 public:
  explicit PutBack(std::span<float> values) : values_(values), before(values.begin(), values.end()) {}
  ~PutBack() { std::ranges::copy(before, values_.begin()); }
  PutBack(const PutBack&) = delete;
  PutBack& operator=(const PutBack&) = delete;

 private:
  std::span<float> values_;

 public:
  const std::vector<float> before;
};

}  // namespace

LossHessian::LossHessian(Patient& p)
    : p_(p),
      step_([&] {
        double squares = 0;
        for (const float w : p.store.values()) squares += static_cast<double>(w) * static_cast<double>(w);
        return step_share * std::sqrt(squares);
      }()),
      pool_(static_cast<int>(p.sick.train.threads)),
      plan_(make_plan<float>(p.spec, p.components, p.store,
                             {.mode = Mode::train,
                              .batch = p.sequences(),
                              .block = p.block(),
                              .loss = {p.sick.train.label_smoothing, p.sick.train.z_loss},
                              .loss_factor = p.faults.loss_factor},
                             pool_)) {}

std::vector<double> LossHessian::times(std::span<const double> v) {
  const std::span<float> values = p_.store.values();
  const PutBack theirs(values);
  Vector product(values.size(), 0.0);
  for (const double side : {1.0, -1.0}) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<double>(theirs.before[i]) + side * step_ * v[i]);
    plan_.loss_and_grad(p_.x, p_.y, {0, 0});
    const std::span<float> g = plan_.grads();
    for (std::size_t i = 0; i < product.size(); ++i)
      product[i] += side * static_cast<double>(g[i]) / (2 * step_);
  }
  return product;
}

Steepest steepest_direction(Patient& p, LossHessian& hessian, const std::function<void()>& each,
                            double settles, std::int64_t most_products) {
  Steepest s;
  const auto product = [&](const Vector& v) {
    each();
    ++s.products;
    return hessian.times(v);
  };
  Mapped x{.v = Vector(p.store.values().size(), 0.0), .hv = {}};
  // Padding between parameters stays 0.
  for (const ParamInfo& i : p.store.layout().params)
    stream(static_cast<std::uint64_t>(p.sick.train.seed), "curvature/" + i.spec.name)
        .fill_normal(
            0, 1,
            std::span(x.v).subspan(static_cast<std::size_t>(i.offset), static_cast<std::size_t>(i.size())));
  scale(x.v, 1 / std::sqrt(dot(x.v, x.v)));
  x.hv = product(x.v);
  Mapped last;  // the step before; empty at first
  for (bool fresh = true;;) {
    s.eigenvalue = dot(x.v, x.hv);
    Mapped rest{.v = x.hv, .hv = {}};
    add(rest.v, -s.eigenvalue, x.v);
    const double left = std::sqrt(dot(rest.v, rest.v));
    s.residual = left / std::abs(s.eigenvalue);
    const bool out_of_time = s.products >= most_products;
    if ((s.residual < settles || out_of_time) &&
        !fresh) {  // x.hv is a sum of products by now: its errors are, too
      x.hv = product(x.v), fresh = true;
      continue;
    }
    s.settled = s.residual < settles;
    if (s.settled || out_of_time || !(left > 0) || !std::isfinite(left)) break;

    scale(rest.v, 1 / left);
    rest.hv = product(rest.v);
    std::vector<Mapped*> basis{&x, &rest};
    if (!last.v.empty()) {
      const double before = std::sqrt(dot(last.v, last.v));
      for (const Mapped* b : {&x, &rest}) last.plus(-dot(last.v, b->v), *b);
      const double after = std::sqrt(dot(last.v, last.v));
      if (after > 1e-6 * before) last.times(1 / after), basis.push_back(&last);
    }
    Small t{};
    for (std::size_t i = 0; i < basis.size(); ++i)
      for (std::size_t j = 0; j <= i; ++j)
        t[i][j] = t[j][i] = (dot(basis[i]->v, basis[j]->hv) + dot(basis[j]->v, basis[i]->hv)) / 2;
    // A missing third vector must not win.
    if (basis.size() < 3) t[2][2] = std::min(t[0][0], t[1][1]) - std::abs(t[0][1]) - 1;
    const auto best = top_of(t);
    Mapped moved = rest;
    moved.times(best[1]);
    if (basis.size() == 3) moved.plus(best[2], last);
    x.times(best[0]);
    x.plus(1, moved);
    x.times(1 / std::sqrt(dot(x.v, x.v)));
    last = std::move(moved);
    fresh = false;
  }
  s.direction = std::move(x.v);
  return s;
}

}  // namespace plumb
