#include "tests/support/allocations.h"

#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> ours{0}, onednn{0};

struct Range {
  std::uintptr_t first = 0, last = 0;
} library;

int find_library(dl_phdr_info* info, std::size_t, void*) {
  if (!info->dlpi_name || !std::strstr(info->dlpi_name, "libdnnl")) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    library.first = info->dlpi_addr + segment.p_vaddr;
    library.last = library.first + segment.p_memsz;
  }
  return 1;
}

/// nullptr when there is no memory.
void* allocate(std::size_t size, std::size_t alignment, const void* caller) noexcept {
  if (counting.load(std::memory_order_relaxed)) {
    const auto from = reinterpret_cast<std::uintptr_t>(caller);
    (from >= library.first && from < library.last ? onednn : ours).fetch_add(1, std::memory_order_relaxed);
  }
  if (size == 0) size = 1;
  const bool plain = alignment <= alignof(std::max_align_t);
  return plain ? std::malloc(size)
               : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* checked(void* p) {
  if (!p) throw std::bad_alloc();
  return p;
}

void count(const std::function<void()>& work) {
  dl_iterate_phdr(find_library, nullptr);
  ours = onednn = 0;
  counting = true;
  try {
    work();
  } catch (...) {
    counting = false;
    throw;
  }
  counting = false;
}

}  // namespace

// All forms: one that is left to the library would hand out memory that it alone may free.
void* operator new(std::size_t n) { return checked(allocate(n, 1, __builtin_return_address(0))); }
void* operator new[](std::size_t n) { return checked(allocate(n, 1, __builtin_return_address(0))); }
void* operator new(std::size_t n, std::align_val_t a) {
  return checked(allocate(n, static_cast<std::size_t>(a), __builtin_return_address(0)));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return checked(allocate(n, static_cast<std::size_t>(a), __builtin_return_address(0)));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return allocate(n, 1, __builtin_return_address(0));
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return allocate(n, 1, __builtin_return_address(0));
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }

namespace plumb::test {

std::int64_t allocations_of_ours(const std::function<void()>& work) {
  count(work);
  return ours;
}

std::int64_t allocations_of_onednn(const std::function<void()>& work) {
  count(work);
  return onednn;
}

}  // namespace plumb::test
