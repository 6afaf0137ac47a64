#include "plumb/plan/linear.h"

#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

template <class R>
bool adjacent(View<R> a, View<R> b) {
  return a.contiguous() && b.contiguous() && a.data + a.size() == b.data;
}

}  // namespace

template <class R>
std::size_t LinearOp<R>::prepare(const Run<R>& r, ProductCache<R>& products) {
  fused_ = true;
  for (std::size_t i = 1; i < n_; ++i) {
    fused_ = fused_ && adjacent(r.in(i), r.in(i + 1));
    if (bias_) fused_ = fused_ && adjacent(r.in(n_ + i), r.in(n_ + i + 1));
  }
  const auto x = r.in(0), y = r.out(0);
  const bool one_shard = r.piece_rows() < x.rows;
  auto& parts = parts_[r.variant()];
  parts.resize(this->parts());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < this->parts(); ++i) {
    const auto w = r.in(1 + i);
    std::int64_t out = w.rows;
    if (fused_)
      for (std::size_t j = 1; j < n_; ++j) out += r.in(1 + j).rows;
    Part& p = parts[i];
    bytes = std::max(bytes, p.forward.prepare(products,
                                              {.m = x.rows,
                                               .n = out,
                                               .k = x.cols,
                                               .trans_b = true,
                                               .lda = x.stride,
                                               .ldb = w.stride,
                                               .ldc = y.stride,
                                               .bias = bias_,
                                               .steady_rows = r.mode() == Mode::eval,
                                               .operands = r.operands()},
                                              r.piece_rows()));
    if (r.mode() == Mode::eval)
      continue;  // no gradient; a position decoded alone has the bits that it has among all
    const auto dy = r.dout(0);
    if (auto dx = r.din(0))
      bytes = std::max(bytes, p.dx.prepare(products,
                                           {.m = x.rows,
                                            .n = x.cols,
                                            .k = out,
                                            .lda = dy.stride,
                                            .ldb = w.stride,
                                            .ldc = dx.v.stride,
                                            .accumulate = i > 0 || !dx.overwrite,
                                            .operands = r.operands()},
                                           r.piece_rows()));
    if (auto dw = r.din(1 + i)) {
      const ProductShape shape{.m = out,
                               .n = x.cols,
                               .k = x.rows,
                               .trans_a = true,
                               .lda = dy.stride,
                               .ldb = x.stride,
                               .ldc = dw.v.stride,
                               .accumulate = !dw.overwrite,
                               .operands = r.operands()};
      if (one_shard) {
        p.long_dw = std::make_shared<CutProduct<R>>(shape);
        bytes = std::max(bytes, p.long_dw->scratch_bytes());
      } else {
        bytes = std::max(bytes, p.dw.prepare(products, shape, out));
      }
    }
  }
  return bytes;
}

template <class R>
void LinearOp<R>::forward(Run<R>& r) const {
  const auto x = r.in(0);
  for (std::size_t i = 0; i < parts(); ++i)
    parts_[r.variant()][i].forward.run(r, x.data, r.in(1 + i).data, bias_ ? r.in(1 + n_ + i).data : nullptr,
                                       r.out(i).data);
}

template <class R>
void LinearOp<R>::backward(Run<R>& r) const {
  const auto x = r.in(0);
  for (std::size_t i = 0; i < parts(); ++i) {
    const Part& p = parts_[r.variant()][i];
    if (auto dx = r.din(0)) p.dx.run(r, r.dout(i).data, r.in(1 + i).data, nullptr, dx.v.data);
    if (auto dw = r.din(1 + i)) {
      if (p.long_dw)
        p.long_dw->run(r.dout(i).data, x.data, nullptr, dw.v.data, r.scratch(),
                       [&r](std::int64_t n, const auto& piece) { r.parallel(n, piece); });
      else
        p.dw.run(r, r.dout(i).data, x.data, nullptr, dw.v.data);
    }
  }
  if (bias_)
    for (std::size_t i = 0; i < n_; ++i) column_sums(r.dout(i), r.din(1 + n_ + i));
}

template class LinearOp<float>;
template class LinearOp<double>;

}  // namespace plumb
