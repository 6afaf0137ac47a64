#include "plumb/plan/tree_sum.h"

#include <algorithm>
#include <bit>

namespace plumb {
namespace {

constexpr std::int64_t slice = 8192;  // elements of one piece: fixed, and small enough for a cache

// out = tree over leaves[0..n) of a slice; `out` may be leaves[0].
template <class R>
void sum_slice(std::span<R* const> leaves, std::int64_t at, std::int64_t len, R* out) {
  const auto n = leaves.size();
  if (n == 1) {
    if (leaves[0] + at != out) std::copy_n(leaves[0] + at, len, out);
    return;
  }
  if (n == 2) {
    const R *a = leaves[0] + at, *b = leaves[1] + at;
    for (std::int64_t i = 0; i < len; ++i) out[i] = a[i] + b[i];
    return;
  }
  const auto left = std::bit_floor(n - 1);
  R right[slice];
  sum_slice(leaves.subspan(left), at, len, right);
  sum_slice(leaves.first(left), at, len, out);
  for (std::int64_t i = 0; i < len; ++i) out[i] += right[i];
}

template <class R>
void sum(std::span<R* const> leaves, R* out, std::int64_t elements, ThreadPool& pool) {
  pool.run((elements + slice - 1) / slice, [&](std::int64_t p) {
    const std::int64_t at = p * slice;
    sum_slice(leaves, at, std::min(slice, elements - at), out + at);
  });
}

}  // namespace

template <class R>
TreeSum<R>::TreeSum(std::int64_t n, std::int64_t elements) : n_(n), elements_(elements) {
  const auto size = static_cast<std::size_t>(elements) * sizeof(R);
  slots_ = Arena(static_cast<std::size_t>(std::min(n, wave)) * size);
  if (n > wave) levels_ = Arena(static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n / wave))) * size);
  total_ = Arena(size);
}

template <class R>
void TreeSum<R>::end_wave(std::int64_t done, ThreadPool& pool) {
  const std::int64_t in_wave = (done - 1) % wave + 1;
  R* leaves[wave + 1];
  for (std::int64_t i = 0; i < in_wave; ++i) leaves[i] = slots_.as<R>() + i * elements_;
  sum<R>({leaves, static_cast<std::size_t>(in_wave)}, total(), elements_, pool);
  if (n_ <= wave) return;
  // A binary counter of whole waves: level l holds the sum of 2^l of them.
  auto level = [&](int l) { return levels_.as<R>() + l * elements_; };
  auto add_from = [&](int l) {
    R* const pair[2] = {level(l), total()};
    sum<R>(pair, total(), elements_, pool);
  };
  if (in_wave == wave && done < n_) {
    const auto before = static_cast<std::uint64_t>(done / wave - 1);
    int l = 0;
    for (; (before >> l) & 1u; ++l) add_from(l);
    R* const one[1] = {total()};
    sum<R>(one, level(l), elements_, pool);
  } else {  // the last wave: what waits is added from the smallest up, as the tree has it
    const auto before = static_cast<std::uint64_t>((done - in_wave) / wave);
    for (int l = 0; l < 63; ++l)
      if ((before >> l) & 1u) add_from(l);
  }
}

template class TreeSum<float>;
template class TreeSum<double>;

}  // namespace plumb
