// Student's t distribution of a whole number of degrees of freedom.
#pragma once
#include <cstdint>

namespace plumb {

/// P(|T| < t) for T with `df` >= 1 degrees of freedom and t >= 0: the finite sums of Abramowitz & Stegun
/// 1964, 26.7.3 (df odd) and 26.7.4 (df even), in time proportional to df.
double student_between(double t, std::int64_t df);

/// The t with P(|T| < t) = `between`, 0 <= between < 1: half the width of a two-sided interval, in standard
/// errors. 12.706 for 0.95 and one degree of freedom, 1.960 for ever more. NaN for df < 1.
double student_width(double between, std::int64_t df);

}  // namespace plumb
