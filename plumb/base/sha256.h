// SHA-256 (FIPS 180-4), by OpenSSL.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

/// Takes bytes piece by piece. fail() when OpenSSL refuses (no memory).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view bytes);
  /// The digest as 64 lower-case hexadecimal digits; afterwards the object is as new.
  std::string hex();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The digest of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace plumb
