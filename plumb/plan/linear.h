// y = x w^T + b: the op behind Builder::linear, and the cache of matrix products of a plan.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "plumb/kernel/matmul.h"
#include "plumb/plan/op.h"

namespace plumb {

/// Products made while planning, on one thread, each shape once; pointers stay valid.
template <class R>
class ProductCache {
 public:
  const Product<R>* get(const ProductShape& s) {
    for (auto& e : made_)
      if (e.shape == s) return &e.product;
    return &made_.emplace_back(s).product;
  }
  /// Each shape beside the implementation that runs it, for the manifest.
  std::vector<std::pair<ProductShape, std::string>> list() const {
    std::vector<std::pair<ProductShape, std::string>> v;
    for (auto& e : made_) v.emplace_back(e.shape, e.product.impl());
    return v;
  }

 private:
  struct Made {
    explicit Made(const ProductShape& s) : shape(s), product(s) {}
    ProductShape shape;
    Product<R> product;
  };
  std::deque<Made> made_;
};

/// A product cut into pieces along its rows; the cut depends on sizes only. Inside a shard there is one piece.
template <class R>
class CutRows {
 public:
  /// `shape.m` is cut into pieces of at most `piece`. Returns the scratch bytes.
  std::size_t prepare(ProductCache<R>& cache, ProductShape shape, std::int64_t piece) {
    m_ = shape.m;
    piece_ = std::min(piece, std::max<std::int64_t>(m_, 1));
    a_step_ = shape.trans_a ? 1 : shape.lda;
    ldc_ = shape.ldc;
    shape.m = piece_;
    full_ = cache.get(shape);
    std::size_t bytes = full_->scratch_bytes();
    if (m_ % piece_) {
      shape.m = m_ % piece_;
      tail_ = cache.get(shape);
      bytes = std::max(bytes, tail_->scratch_bytes());
    }
    return bytes;
  }
  void run(const Run<R>& r, const R* a, const R* b, const R* bias, R* c) const {
    r.parallel((m_ + piece_ - 1) / piece_, [&](std::int64_t i) {
      const Product<R>* p = (i + 1) * piece_ <= m_ ? full_ : tail_;
      p->run(a + i * piece_ * a_step_, b, bias, c + i * piece_ * ldc_, r.scratch());
    });
  }

 private:
  std::int64_t m_ = 0, piece_ = 1, a_step_ = 0, ldc_ = 0;
  const Product<R>*full_ = nullptr, *tail_ = nullptr;
};

/// Inputs: x (rows, in), n weights (out_i, in), then no bias or n biases (1, out_i). Outputs: n, joined side by side.
/// Weights that are adjacent in memory run as one product. din(0) and the parameters' sinks overwrite or add as told.
template <class R>
class LinearOp final : public Op<R> {
 public:
  LinearOp(std::size_t n, bool bias) : n_(n), bias_(bias) {}
  OpInfo info() const override { return {.kind = "linear"}; }
  std::size_t prepare(const Run<R>& r, ProductCache<R>& products) override;
  void forward(Run<R>& r) const override;
  void backward(Run<R>& r) const override;

 private:
  struct Part {
    CutRows<R> forward, dx, dw;
    std::shared_ptr<const CutProduct<R>> long_dw;  // of one shard that several threads share: its k is the whole batch
  };
  std::size_t parts() const { return fused_ ? 1 : n_; }
  std::size_t n_;
  bool bias_, fused_ = false;
  std::array<std::vector<Part>, 2> parts_;  // by variant
};

}  // namespace plumb
