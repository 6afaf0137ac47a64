#include "plumb/tensor/rounding.h"

namespace plumb {
namespace {

template <class F>
void each(View<float> v, F f) {
  for (std::int64_t i = 0; i < v.rows; ++i)
    for (std::int64_t j = 0; j < v.cols; ++j) v.row(i)[j] = f(v.row(i)[j]);
}

}  // namespace

void round_to(Format format, View<float> v) {
  if (!v.data || format == Format::fp32) return;
  if (format == Format::bf16)
    each(v, to_bf16);
  else
    each(v, to_fp16);
}

}  // namespace plumb
