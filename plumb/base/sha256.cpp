#include "plumb/base/sha256.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>

#include "plumb/base/error.h"

namespace plumb {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { EVP_MD_CTX_free(context); }
  void start() const {
    if (context == nullptr || EVP_DigestInit_ex(context, EVP_sha256(), nullptr) != 1)
      fail("OpenSSL cannot compute a SHA-256 here; free some memory or check its configuration");
  }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) { impl_->start(); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) != 1)
    fail("OpenSSL cannot continue a SHA-256; check its configuration");
}

void Sha256::add(std::string_view bytes) { add(std::as_bytes(std::span(bytes.data(), bytes.size()))); }

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_DigestFinal_ex(impl_->context, digest.data(), &size) != 1)
    fail("OpenSSL cannot finish a SHA-256; check its configuration");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest.at(i));
  impl_->start();
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.hex();
}

}  // namespace plumb
