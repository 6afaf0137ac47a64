// Plain twins of what is linear: embedding, a x + b z, bias, sums. Arithmetic in double whatever R is.
//
// embedding_backward and column_sums add rows in order; a sink that overwrites starts from zero, any other
// from what is there. `pass` overwrites or adds as its sink says; the forward kernels overwrite.
#include <cmath>

#include "plumb/kernel/rows.h"

namespace plumb::plain {

template <class R>
void embedding_forward(std::span<const std::int32_t> ids, View<const R> table, View<R> y) {
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; ++j) y.row(i)[j] = table.row(ids[std::size_t(i)])[j];
}

template <class R>
void embedding_backward(std::span<const std::int32_t> ids, View<const R> dy, Sink<R> dtable) {
  if (!dtable) return;
  if (dtable.overwrite)
    for (std::int64_t i = 0; i < dtable.v.rows; ++i)
      for (std::int64_t j = 0; j < dtable.v.cols; ++j) dtable.v.row(i)[j] = 0;
  for (std::int64_t i = 0; i < dy.rows; ++i)
    for (std::int64_t j = 0; j < dy.cols; ++j) dtable.v.row(ids[std::size_t(i)])[j] += dy.row(i)[j];
}

template <class R>
void axpby(double a, View<const R> x, double b, View<const R> z, View<R> y) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j)
      y.row(i)[j] = R(a * double(x.row(i)[j]) + (z ? b * double(z.row(i)[j]) : 0.0));
}

template <class R>
void pass(double a, View<const R> x, Sink<R> y) {
  if (!y) return;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      R& out = y.v.row(i)[j];
      out = R(a * double(x.row(i)[j]) + (y.overwrite ? 0.0 : double(out)));
    }
}

template <class R>
void column_sums(View<const R> x, Sink<R> out) {
  if (!out) return;
  for (std::int64_t j = 0; j < x.cols; ++j) {
    R total = out.overwrite ? R(0) : out.v.data[j];
    for (std::int64_t i = 0; i < x.rows; ++i) total += x.row(i)[j];
    out.v.data[j] = total;
  }
}

template <class R>
void add_bias(View<const R> x, View<const R> bias, View<R> y) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = x.row(i)[j] + bias.data[j];
}

template <class R>
double sum(View<const R> x) {
  double total = 0;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) total += double(x.row(i)[j]);
  return total;
}

template <class R>
double dot(View<const R> x, View<const R> y) {
  double total = 0;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) total += double(x.row(i)[j]) * double(y.row(i)[j]);
  return total;
}

template <class R>
double sum_squares(View<const R> x) {
  return plain::dot(x, x);
}

template <class R>
bool all_finite(View<const R> x) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j)
      if (!std::isfinite(x.row(i)[j])) return false;
  return true;
}

#define PLUMB_INSTANTIATE(R)                                                               \
  template void embedding_forward(std::span<const std::int32_t>, View<const R>, View<R>);  \
  template void embedding_backward(std::span<const std::int32_t>, View<const R>, Sink<R>); \
  template void axpby(double, View<const R>, double, View<const R>, View<R>);              \
  template void pass(double, View<const R>, Sink<R>);                                      \
  template void column_sums(View<const R>, Sink<R>);                                       \
  template void add_bias(View<const R>, View<const R>, View<R>);                           \
  template double sum(View<const R>);                                                      \
  template double sum_squares(View<const R>);                                              \
  template double dot(View<const R>, View<const R>);                                       \
  template bool all_finite(View<const R>);
PLUMB_INSTANTIATE(float)
PLUMB_INSTANTIATE(double)
#undef PLUMB_INSTANTIATE

}  // namespace plumb::plain
