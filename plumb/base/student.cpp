#include "plumb/base/student.h"

#include <cmath>
#include <numbers>

#include "plumb/base/error.h"

namespace plumb {
namespace {

// P(|T| <= sqrt(dof) tan(angle)); the terms are positive and fall, so the sum is as exact as its largest term.
double between(double angle, int dof) {
  const double sine = std::sin(angle), cosine = std::cos(angle);
  double term = dof % 2 ? cosine : 1, sum = 0;
  for (int k = dof % 2 ? 1 : 0; k <= dof - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * (k + 1) / (k + 2);
  }
  return dof % 2 ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

}  // namespace

double student_cdf(double t, int dof) {
  if (dof < 1)
    fail("Student's distribution has at least one degree of freedom, not {}; take two values or more", dof);
  const double inside = between(std::atan(std::abs(t) / std::sqrt(dof)), dof);
  return t < 0 ? (1 - inside) / 2 : (1 + inside) / 2;
}

double student_quantile(double p, int dof) {
  if (dof < 1)
    fail("Student's distribution has at least one degree of freedom, not {}; take two values or more", dof);
  if (!(p > 0 && p < 1))
    fail("a quantile is asked for at a probability between 0 and 1, not {}; correct it", p);
  // The angle grows with the probability and is bounded, so that halving finds it to the last bits.
  const double wanted = std::abs(2 * p - 1);
  double low = 0, high = std::numbers::pi / 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (between(middle, dof) < wanted ? low : high) = middle;
  }
  const double t = std::sqrt(dof) * std::tan((low + high) / 2);
  return p < 0.5 ? -t : t;
}

}  // namespace plumb
