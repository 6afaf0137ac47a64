#include "plumb/study/ridge.h"

#include <cmath>
#include <numeric>

#include "plumb/base/error.h"

namespace plumb {
namespace {

constexpr std::size_t rows_at_once = 32;

// Element (i, j) with j <= i of a lower triangle.
std::size_t at(std::size_t i, std::size_t j) { return i * (i + 1) / 2 + j; }

double dot(const double* a, const double* b, std::size_t n) { return std::inner_product(a, a + n, b, 0.0); }

// a = L L^T, in place.
void cholesky(std::vector<double>& a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const double left = a[at(i, j)] - dot(&a[at(i, 0)], &a[at(j, 0)], j);
      if (j < i)
        a[at(i, j)] = left / a[at(j, j)];
      else if (left > 0)
        a[at(i, i)] = std::sqrt(left);
      else
        fail(
            "[ridge] the matrix of a least-squares problem is not positive definite; a value is not finite, "
            "or the ridge is 0");
    }
}

// L L^T x = b, in place.
void solve(const std::vector<double>& l, std::size_t n, double* b) {
  for (std::size_t i = 0; i < n; ++i) b[i] = (b[i] - dot(&l[at(i, 0)], b, i)) / l[at(i, i)];
  for (std::size_t i = n; i-- > 0;) {
    b[i] /= l[at(i, i)];
    for (std::size_t j = 0; j < i; ++j) b[j] -= l[at(i, j)] * b[i];
  }
}

}  // namespace

double LinearFit::predict(std::span<const double> x, std::size_t target) const {
  return intercept[target] + dot(x.data(), &weights[target * x.size()], x.size());
}

LeastSquares::LeastSquares(std::int64_t n_feature, std::int64_t n_target)
    : d_(static_cast<std::size_t>(n_feature)),
      m_(static_cast<std::size_t>(n_target)),
      sum_x_(d_),
      sum_y_(m_),
      xy_(m_ * d_),
      yy_(m_),
      xx_(at(d_, 0)) {}

void LeastSquares::add(std::span<const double> x, std::span<const double> y) {
  ++n_;
  for (std::size_t i = 0; i < d_; ++i) sum_x_[i] += x[i];
  for (std::size_t k = 0; k < m_; ++k) {
    if (y[k] == 0) continue;
    sum_y_[k] += y[k], yy_[k] += y[k] * y[k];
    for (std::size_t i = 0; i < d_; ++i) xy_[k * d_ + i] += y[k] * x[i];
  }
  waiting_.insert(waiting_.end(), x.begin(), x.end());
  if (waiting_.size() >= rows_at_once * d_) flush();
}

void LeastSquares::flush() const {
  waiting_.resize((waiting_.size() + 4 * d_ - 1) / (4 * d_) * 4 * d_);  // rows of zeros add nothing
  for (std::size_t i = 0; i < d_; ++i) {
    double* to = &xx_[at(i, 0)];
    for (std::size_t r = 0; r < waiting_.size(); r += 4 * d_) {
      const double *a = &waiting_[r], *b = a + d_, *c = b + d_, *e = c + d_;
      const double ai = a[i], bi = b[i], ci = c[i], ei = e[i];
      for (std::size_t j = 0; j <= i; ++j) to[j] += (ai * a[j] + bi * b[j]) + (ci * c[j] + ei * e[j]);
    }
  }
  waiting_.clear();
}

void LeastSquares::add(const LeastSquares& other) {
  flush();
  other.flush();
  n_ += other.n_;
  const auto join = [](std::vector<double>& a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  };
  join(sum_x_, other.sum_x_), join(sum_y_, other.sum_y_), join(xy_, other.xy_), join(yy_, other.yy_);
  join(xx_, other.xx_);
}

LinearFit LeastSquares::fit(double ridge) const {
  flush();
  const auto n = static_cast<double>(n_);
  std::vector<double> mean(d_), scale(d_), a(xx_.size());  // scale: 1 / standard deviation
  for (std::size_t i = 0; i < d_; ++i) {
    mean[i] = sum_x_[i] / n;
    const double square = xx_[at(i, i)] / n, var = square - mean[i] * mean[i];
    scale[i] = var > 1e-12 * square ? 1 / std::sqrt(var) : 0;  // below it the difference is rounding
  }
  for (std::size_t i = 0; i < d_; ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      a[at(i, j)] = (xx_[at(i, j)] / n - mean[i] * mean[j]) * scale[i] * scale[j];
    a[at(i, i)] += ridge;
  }
  cholesky(a, d_);
  LinearFit f{static_cast<std::int64_t>(d_), std::vector<double>(m_ * d_), std::vector<double>(m_)};
  for (std::size_t k = 0; k < m_; ++k) {
    double* w = &f.weights[k * d_];
    f.intercept[k] = sum_y_[k] / n;
    for (std::size_t i = 0; i < d_; ++i) w[i] = (xy_[k * d_ + i] / n - mean[i] * f.intercept[k]) * scale[i];
    solve(a, d_, w);
    for (std::size_t i = 0; i < d_; ++i) w[i] *= scale[i];
    f.intercept[k] -= dot(w, mean.data(), d_);
  }
  return f;
}

double LeastSquares::error(const LinearFit& f, std::size_t k) const {
  flush();
  const double *w = &f.weights[k * d_], b = f.intercept[k], n = static_cast<double>(n_);
  double squares = 0;  // w^T X^T X w
  for (std::size_t i = 0; i < d_; ++i) {
    const double* row = &xx_[at(i, 0)];
    squares += w[i] * (2 * dot(row, w, i) + row[i] * w[i]);
  }
  return (squares + 2 * b * dot(w, sum_x_.data(), d_) + n * b * b - 2 * dot(w, &xy_[k * d_], d_) -
          2 * b * sum_y_[k] + yy_[k]) /
         n;
}

}  // namespace plumb
