// One aligned block of memory, made while planning and never grown.
#pragma once
#include <cstddef>
#include <memory>

namespace plumb {

inline constexpr std::size_t cache_line = 64;
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// `bytes` of zeroed memory aligned for any vector; throws Error when there is not enough.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::size_t bytes);
  std::byte* data() const { return p_.get(); }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(p_.get());
  }

 private:
  struct Free {
    std::size_t bytes;
    void operator()(std::byte*) const;
  };
  std::unique_ptr<std::byte, Free> p_{nullptr, Free{0}};
  std::size_t bytes_ = 0;
};

}  // namespace plumb
