#include "plumb/interop/spectrum.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"

namespace plumb {
namespace {

constexpr std::size_t min_eigenvalues = 50, min_tail = 10;

}  // namespace

std::vector<double> gram_eigenvalues(std::span<const float> w, std::int64_t rows, std::int64_t cols) {
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd m = Eigen::Map<const RowMajor>(w.data(), rows, cols).cast<double>();
  const Eigen::Index n = std::min(rows, cols);
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(n, n);
  if (rows < cols)
    gram.selfadjointView<Eigen::Lower>().rankUpdate(m);
  else
    gram.selfadjointView<Eigen::Lower>().rankUpdate(m.transpose());
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  if (solver.info() != Eigen::Success) fail("the eigenvalues of a {} x {} matrix were not found", rows, cols);
  const auto& values = solver.eigenvalues();
  return {values.data(), values.data() + n};
}

TailSearch fit_tail(std::span<const double> ascending) {
  // What rounding leaves of a zero is not part of the spectrum.
  const double floor = ascending.empty() ? 0 : 1e-12 * ascending.back();
  while (!ascending.empty() && !(ascending.front() > floor)) ascending = ascending.subspan(1);
  if (ascending.size() < min_eigenvalues)
    return {std::nullopt, "it has fewer than 50 eigenvalues other than zero"};

  std::optional<TailFit> best;
  double sum_of_logs = 0;  // over the tail
  for (const double x : ascending.last(min_tail - 1)) sum_of_logs += std::log(x);
  for (std::size_t first = ascending.size() - min_tail + 1; first-- > 0;) {
    const double x_min = ascending[first];
    const auto n = static_cast<double>(ascending.size() - first);
    sum_of_logs += std::log(x_min);
    const double excess = sum_of_logs - n * std::log(x_min);
    if (!(excess > 0)) continue;  // all equal: no tail
    TailFit fit{1 + n / excess, x_min, 0, static_cast<std::int64_t>(ascending.size() - first)};
    for (std::size_t i = first; i < ascending.size(); ++i) {
      const double model = 1 - std::pow(ascending[i] / x_min, 1 - fit.alpha);
      const auto below = static_cast<double>(i - first);
      fit.ks = std::max({fit.ks, std::abs(model - below / n), std::abs(model - (below + 1) / n)});
    }
    if (!best || fit.ks < best->ks) best = fit;
  }
  return {best, best ? "" : "its eigenvalues are all equal"};
}

}  // namespace plumb
