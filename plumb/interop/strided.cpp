#include "plumb/interop/strided.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace plumb {
namespace {

constexpr std::uint64_t window_bytes = 1 << 20, times = 16, always = 1 << 24;

struct Dim {
  std::uint64_t size = 1, stride = 0;
};

// The dims that tell: without those of one element, and neighbours that lie one behind the other as one.
std::vector<Dim> joined(const StridedView& view) {
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    const Dim d{static_cast<std::uint64_t>(view.sizes[i]), static_cast<std::uint64_t>(view.strides[i])};
    if (d.size == 1) continue;
    if (!dims.empty() && dims.back().stride == d.size * d.stride)
      dims.back() = {dims.back().size * d.size, d.stride};
    else
      dims.push_back(d);
  }
  if (dims.empty()) dims.emplace_back();
  return dims;
}

// `n` elements that lie `stride` apart, the first at byte `at`.
void read_run(const FileReader& file, std::uint64_t at, std::uint64_t n, std::uint64_t stride,
              std::size_t element, std::byte* out, std::vector<std::byte>& window) {
  if (stride == 1 || n == 1) {
    file.read(at, {out, n * element});
    return;
  }
  if (stride == 0) {
    file.read(at, {out, element});
    for (std::uint64_t i = 1; i < n; ++i) std::memcpy(out + i * element, out, element);
    return;
  }
  const std::uint64_t step = stride * element, most = std::max<std::uint64_t>(1, window_bytes / step);
  for (std::uint64_t done = 0; done < n;) {
    const std::uint64_t some = std::min(most, n - done);
    window.resize((some - 1) * step + element);
    file.read(at + done * step, window);
    for (std::uint64_t i = 0; i < some; ++i)
      std::memcpy(out + (done + i) * element, window.data() + i * step, element);
    done += some;
  }
}

}  // namespace

std::optional<std::uint64_t> StridedView::elements() const {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  std::uint64_t n = 1;
  for (const std::int64_t size : sizes) {
    if (size == 0) return 0;
    if (static_cast<std::uint64_t>(size) > most / n) return {};
    n *= static_cast<std::uint64_t>(size);
  }
  return n;
}

std::optional<std::uint64_t> StridedView::extent(std::uint64_t room) const {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  if (room == 0) return {};
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto steps = static_cast<std::uint64_t>(sizes[i] - 1),
               stride = static_cast<std::uint64_t>(strides[i]);
    if (steps > 0 && stride > (room - 1 - last) / steps) return {};
    last += steps * stride;
  }
  return last + 1;
}

bool StridedView::is_contiguous() const {
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  const std::vector<Dim> dims = joined(*this);
  return dims.size() == 1 && (dims[0].size == 1 || dims[0].stride == 1);
}

bool StridedView::is_transposed() const {
  return sizes.size() == 2 && sizes[0] > 1 && sizes[1] > 1 && strides[0] < strides[1];
}

bool StridedView::is_affordable(std::uint64_t room) const {
  if (is_transposed()) return transposed().is_affordable(room);
  const auto n = elements();
  const std::uint64_t limit = std::max(always, room > UINT64_MAX / times ? room : room * times);
  if (!n || *n > limit) return false;
  if (*n == 0) return true;
  const Dim inner = joined(*this).back();
  const std::uint64_t rows = *n / inner.size, steps = inner.size - 1;
  // What the last dim passes over lies in the storage, so neither product overflows.
  return steps * inner.stride + 1 <= limit / rows;
}

void read_view(const FileReader& file, std::uint64_t base, const StridedView& view, std::size_t element,
               std::uint64_t first, std::span<std::byte> out, std::vector<std::byte>& window) {
  const std::vector<Dim> dims = joined(view);
  const Dim inner = dims.back();
  const std::uint64_t n = out.size() / element;
  for (std::uint64_t done = 0; done < n;) {
    std::uint64_t row = (first + done) / inner.size;
    const std::uint64_t column = (first + done) % inner.size;
    std::uint64_t at = column * inner.stride;
    for (std::size_t d = dims.size() - 1; d-- > 0; row /= dims[d].size)
      at += row % dims[d].size * dims[d].stride;
    const std::uint64_t some = std::min(n - done, inner.size - column);
    read_run(file, base + at * element, some, inner.stride, element, out.data() + done * element, window);
    done += some;
  }
}

}  // namespace plumb
