// Student's t distribution: how far a mean of few values may be from the truth.
#pragma once

namespace plumb {

/// P(T <= t) for `dof` >= 1 degrees of freedom, by the finite sums of Abramowitz & Stegun 26.7.3 and 26.7.4.
double student_cdf(double t, int dof);

/// The t with P(T <= t) = `p`, which is above 0 and below 1: 4.303 for p = 0.975 and two degrees of freedom.
double student_quantile(double p, int dof);

}  // namespace plumb
