#include "plumb/tensor/arena.h"

#include <sys/mman.h>

#include "plumb/base/error.h"

namespace plumb {

// Mapped, not malloc'ed: the pages are zero, given back whole, and large ones may be huge pages.
Arena::Arena(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    fail("[plan] no memory for {} MiB; lower train.batch_size, raise train.recompute, or use fewer threads",
         bytes >> 20);
  madvise(p, bytes, MADV_HUGEPAGE);
  p_ = {static_cast<std::byte*>(p), Free{bytes}};
}

void Arena::Free::operator()(std::byte* p) const { munmap(p, bytes); }

}  // namespace plumb
