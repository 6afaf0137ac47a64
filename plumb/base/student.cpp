#include "plumb/base/student.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace plumb {
namespace {

// As a function of the angle atan(t / sqrt(df)), which is finite where t is not.
double between_of(double angle, std::int64_t df) {
  const double c = std::cos(angle), s = std::sin(angle);
  const bool odd = df % 2 == 1;
  // odd: cos + 2/3 cos^3 + 2 4 / (3 5) cos^5 + …; even: 1 + 1/2 cos^2 + 1 3 / (2 4) cos^4 + …
  double term = odd ? c : 1, sum = df == 1 ? 0 : term;
  for (std::int64_t k = odd ? 3 : 2; k <= df - 2; k += 2) {
    term *= c * c * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (angle + s * sum) : s * sum;
}

}  // namespace

double student_between(double t, std::int64_t df) {
  return between_of(std::atan(t / std::sqrt(static_cast<double>(df))), df);
}

double student_width(double between, std::int64_t df) {
  if (df < 1) return std::numeric_limits<double>::quiet_NaN();
  double low = 0, high = std::numbers::pi / 2;
  for (int i = 0; i < 100 && low < high; ++i) {
    const double middle = (low + high) / 2;
    (between_of(middle, df) < between ? low : high) = middle;
  }
  return std::tan((low + high) / 2) * std::sqrt(static_cast<double>(df));
}

}  // namespace plumb
