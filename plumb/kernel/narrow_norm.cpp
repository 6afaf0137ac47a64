#include "plumb/kernel/narrow_norm.h"

#include "plumb/tensor/rounding.h"

namespace plumb {

void narrow_norm_forward(Format f, bool centred, View<const float> x, View<const float> gamma,
                         View<const float> beta, double eps, View<float> y, View<float> mean,
                         View<float> rstd) {
  const auto n = static_cast<float>(x.cols);
  const float added = rounded(f, static_cast<float>(eps));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* from = x.row(i);
    float m = 0, square = 0;
    if (centred) {
      for (std::int64_t j = 0; j < x.cols; ++j) m = rounded(f, m + from[j]);
      m = rounded(f, m / n);
      *mean.row(i) = m;
    }
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const float c = rounded(f, from[j] - m);
      square = rounded(f, square + rounded(f, c * c));
    }
    const float r = rounded(f, 1 / rounded(f, std::sqrt(rounded(f, rounded(f, square / n) + added))));
    *rstd.row(i) = r;
    for (std::int64_t j = 0; j < x.cols; ++j)
      y.row(i)[j] = (from[j] - m) * r * (gamma ? gamma.data[j] : 1) + (beta ? beta.data[j] : 0);
  }
}

}  // namespace plumb
