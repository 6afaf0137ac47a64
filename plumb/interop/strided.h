// Views of a storage: tensors whose elements lie a stride apart, as PyTorch saves a transposed, sliced or
// expanded one.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plumb/base/files.h"

namespace plumb {

/// Sizes and strides in elements, as many of each, none negative.
struct StridedView {
  std::vector<std::int64_t> sizes, strides;

  std::optional<std::uint64_t> elements() const;  // nothing when the product does not fit 63 bits
  /// Elements of the storage from the first to the last that is used; nothing when there are more than
  /// `room`.
  std::optional<std::uint64_t> extent(std::uint64_t room) const;
  /// One element behind the other, in the order of the indices.
  bool is_contiguous() const;
  /// Two sizes, of which the first moves in smaller steps than the second: a transposed matrix.
  bool is_transposed() const;
  StridedView transposed() const { return {{sizes[1], sizes[0]}, {strides[1], strides[0]}}; }
  /// Whether reading all of it (transposed where it is) passes over no more than sixteen times the `room`
  /// elements of the storage, or sixteen million. A view of four bytes may claim to have a trillion elements.
  bool is_affordable(std::uint64_t room) const;
};

/// Fills `out` with the elements of `element` bytes from `first` on; the view begins at byte `base` of the
/// file. `window` is the memory that it uses: a megabyte.
void read_view(const FileReader& file, std::uint64_t base, const StridedView& view, std::size_t element,
               std::uint64_t first, std::span<std::byte> out, std::vector<std::byte>& window);

}  // namespace plumb
