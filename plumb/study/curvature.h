// Curvature of the loss from gradients.
#pragma once
#include <functional>
#include <vector>

#include "plumb/study/patient.h"

namespace plumb {

/// The Hessian of the mean loss of the patient's batch at its parameters: of what is minimised, as in training.
class LossHessian {
 public:
  explicit LossHessian(Patient&);
  LossHessian(const LossHessian&) = delete;
  LossHessian& operator=(const LossHessian&) = delete;

  /// H v by a central difference of gradients, (g(w + e v) - g(w - e v)) / 2e, for v of length 1 in the layout of the
  /// store. The parameters are put back as they were, to the bit.
  std::vector<double> times(std::span<const double> v);
  double step() const { return step_; }  // e

 private:
  Patient& p_;
  double step_;
  ThreadPool pool_;
  Plan<float> plan_;
};

struct Steepest {
  double eigenvalue = 0;          // the largest one
  double residual = 0;            // |H v - r v| / |r|: how far v is from an eigenvector
  std::int64_t products = 0;      // H v that were taken
  bool settled = false;           // the residual came below `settles`
  std::vector<double> direction;  // v, of length 1
};

/// The direction in which the loss bends up the most: in each step the best one of the span of the direction, its residual
/// and the step before (Knyazev 2001, LOBPCG with one vector and no preconditioner). Plain power iteration does not settle
/// where eigenvalues come as pairs of both signs, as they do at the start of training.
/// `each` is called before every product and may throw; the parameters are then as they were.
Steepest steepest_direction(Patient&, LossHessian&, const std::function<void()>& each, double settles = 0.01,
                            std::int64_t most_products = 100);

}  // namespace plumb
