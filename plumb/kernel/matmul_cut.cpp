// CutProduct: one big product as a grid of pieces, chosen from the shape alone.
#include <algorithm>
#include <vector>

#include "plumb/base/error.h"
#include "plumb/kernel/matmul.h"

namespace plumb {

void run_serially(std::int64_t n, const std::function<void(std::int64_t)>& body) {
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

namespace {

// A piece should be worth the hand-over to a thread (about 2^21 multiply-adds, some 0.1 ms) and keep sides on
// which the library is fast. These numbers are part of the bits: changing them changes results in the last
// place.
constexpr double piece_macs = 2097152;
constexpr std::int64_t most_pieces = 64, least_rows = 128, least_columns = 64, least_k = 512, fold_rows = 32;

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Where piece i of `pieces` begins; pieces differ by at most one `grain`.
std::int64_t edge(std::int64_t total, std::int64_t pieces, std::int64_t i, std::int64_t grain) {
  return std::min(total, up(total, grain) * i / pieces * grain);
}

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

ProductCut cut(const ProductShape& s) {
  ProductCut c;
  const double wanted = std::min(s.flops() / 2 / piece_macs, static_cast<double>(most_pieces));
  const std::int64_t pieces = std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
  c.rows = std::min(pieces, std::max<std::int64_t>(1, s.m / least_rows));
  c.columns = std::min(up(pieces, c.rows), std::max<std::int64_t>(1, s.n / least_columns));
  c.k = std::min(up(pieces, c.rows * c.columns), std::max<std::int64_t>(1, s.k / least_k));
  return c;
}

template <class R>
struct CutProduct<R>::Impl {
  struct Piece {
    std::size_t product;          // index into `products`
    std::int64_t i0, j0, k0, ik;  // first row, column and k; which k piece
  };

  ProductShape shape;
  ProductCut cut;
  std::vector<Product<R>> products;  // at most two sizes a side: eight
  std::vector<Piece> pieces;
  std::size_t piece_scratch = 0;  // bytes a piece
  std::size_t partials = 0;       // bytes of all partial sums: cut.k planes of (m, n); 0 when k is whole

  explicit Impl(const ProductShape&);
  std::size_t product(const ProductShape&);
  void run_piece(std::int64_t i, const R* a, const R* b, const R* bias, R* c, std::byte* scratch) const;
  void fold(std::int64_t i, const R* bias, R* c, std::byte* scratch) const;
};

template <class R>
std::size_t CutProduct<R>::Impl::product(const ProductShape& s) {
  for (std::size_t i = 0; i < products.size(); ++i)
    if (products[i].shape() == s) return i;
  products.emplace_back(s);
  return products.size() - 1;
}

template <class R>
CutProduct<R>::Impl::Impl(const ProductShape& wanted) : shape(wanted.resolved()), cut(plumb::cut(shape)) {
  constexpr std::int64_t grain = 16;
  for (std::int64_t ii = 0; ii < cut.rows; ++ii)
    for (std::int64_t ij = 0; ij < cut.columns; ++ij)
      for (std::int64_t ik = 0; ik < cut.k; ++ik) {
        const std::int64_t i0 = edge(shape.m, cut.rows, ii, grain),
                           i1 = edge(shape.m, cut.rows, ii + 1, grain);
        const std::int64_t j0 = edge(shape.n, cut.columns, ij, grain),
                           j1 = edge(shape.n, cut.columns, ij + 1, grain);
        const std::int64_t k0 = edge(shape.k, cut.k, ik, grain), k1 = edge(shape.k, cut.k, ik + 1, grain);
        ProductShape s = shape;
        s.m = i1 - i0, s.n = j1 - j0, s.k = k1 - k0;
        if (cut.k > 1) s.accumulate = s.bias = false, s.ldc = shape.n;
        pieces.push_back({product(s), i0, j0, k0, ik});
      }
  for (const Product<R>& p : products) piece_scratch = std::max(piece_scratch, p.scratch_bytes());
  if (cut.k > 1) partials = round_up(static_cast<std::size_t>(cut.k * shape.m * shape.n) * sizeof(R));
}

template <class R>
void CutProduct<R>::Impl::run_piece(std::int64_t i, const R* a, const R* b, const R* bias, R* c,
                                    std::byte* scratch) const {
  const Piece& p = pieces[static_cast<std::size_t>(i)];
  const R* pa = a + (shape.trans_a ? p.k0 * shape.lda + p.i0 : p.i0 * shape.lda + p.k0);
  const R* pb = b + (shape.trans_b ? p.j0 * shape.ldb + p.k0 : p.k0 * shape.ldb + p.j0);
  R* pc = cut.k > 1 ? reinterpret_cast<R*>(scratch) + p.ik * shape.m * shape.n + p.i0 * shape.n + p.j0
                    : c + p.i0 * shape.ldc + p.j0;
  products[p.product].run(pa, pb, shape.bias ? bias + p.j0 : nullptr, pc,
                          scratch + partials + static_cast<std::size_t>(i) * piece_scratch);
}

/// Adds the partial sums of `fold_rows` rows by pairs, then the old C and the bias.
template <class R>
void CutProduct<R>::Impl::fold(std::int64_t i, const R* bias, R* c, std::byte* scratch) const {
  const std::int64_t first = i * fold_rows, n = shape.n, plane = shape.m * n;
  const std::int64_t rows = std::min(fold_rows, shape.m - first);
  R* sums = reinterpret_cast<R*>(scratch) + first * n;
  for (std::int64_t step = 1; step < cut.k; step *= 2)
    for (std::int64_t q = 0; q + step < cut.k; q += 2 * step) {
      R* to = sums + q * plane;
      const R* from = sums + (q + step) * plane;
      for (std::int64_t e = 0; e < rows * n; ++e) to[e] += from[e];
    }
  for (std::int64_t r = 0; r < rows; ++r) {
    R* out = c + (first + r) * shape.ldc;
    for (std::int64_t j = 0; j < n; ++j) {
      const R sum = shape.bias ? sums[r * n + j] + bias[j] : sums[r * n + j];
      out[j] = shape.accumulate ? out[j] + sum : sum;
    }
  }
}

template <class R>
CutProduct<R>::CutProduct(const ProductShape& shape) : impl_(std::make_unique<Impl>(shape)) {}
template <class R>
CutProduct<R>::~CutProduct() = default;
template <class R>
CutProduct<R>::CutProduct(CutProduct&&) noexcept = default;
template <class R>
CutProduct<R>& CutProduct<R>::operator=(CutProduct&&) noexcept = default;

template <class R>
const ProductShape& CutProduct<R>::shape() const {
  return impl_->shape;
}
template <class R>
ProductCut CutProduct<R>::cut() const {
  return impl_->cut;
}
template <class R>
std::size_t CutProduct<R>::scratch_bytes() const {
  return impl_->partials + impl_->piece_scratch * impl_->pieces.size();
}
template <class R>
std::string CutProduct<R>::impl() const {
  const ProductCut c = impl_->cut;
  return fmt::format("{} in {} x {} x {} pieces", impl_->products.front().impl(), c.rows, c.columns, c.k);
}

template <class R>
void CutProduct<R>::run(const R* a, const R* b, const R* bias, R* c, void* scratch,
                        const Executor& execute) const {
  // One pointer is all that the bodies capture, so that std::function needs no heap.
  struct Job {
    const Impl& impl;
    const R *a, *b, *bias;
    R* c;
    std::byte* scratch;
  } const job{*impl_, a, b, bias, c, static_cast<std::byte*>(scratch)};
  const auto n = static_cast<std::int64_t>(impl_->pieces.size());
  execute(n, [&job](std::int64_t i) { job.impl.run_piece(i, job.a, job.b, job.bias, job.c, job.scratch); });
  if (impl_->cut.k > 1)
    execute(up(impl_->shape.m, fold_rows),
            [&job](std::int64_t i) { job.impl.fold(i, job.bias, job.c, job.scratch); });
}

template class CutProduct<float>;
template class CutProduct<double>;

}  // namespace plumb
