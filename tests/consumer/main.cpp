// Uses an installed plumb as another project would: its version, a digest, and a matrix product in float against the same
// in double. Between them they need every library that plumb links.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "plumb/base/rng.h"
#include "plumb/base/sha256.h"
#include "plumb/kernel/matmul.h"
#include "plumb/version.h"

namespace {

template <class R>
std::vector<R> product(const plumb::ProductShape& shape) {
  const auto count = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  std::vector<R> a(count(shape.m, shape.k)), b(count(shape.k, shape.n)), c(count(shape.m, shape.n));
  plumb::stream(0, "a").fill_normal(0, 1, a);
  plumb::stream(0, "b").fill_normal(0, 1, b);
  const plumb::Product<R> op(shape);
  const std::align_val_t line{64};
  void* scratch = ::operator new(op.scratch_bytes() + 64, line);
  op.run(a.data(), b.data(), nullptr, c.data(), scratch);
  ::operator delete(scratch, line);
  return c;
}

bool expect(bool truth, const char* what) {
  std::printf("%s: %s\n", truth ? "ok" : "WRONG", what);
  return truth;
}

}  // namespace

int main() {
  std::printf("plumb %s\n", plumb::kVersion);
  bool good = expect(std::strcmp(plumb::kVersion, PLUMB_PACKAGE_VERSION) == 0, "header and package agree on it");

  good &= expect(plumb::sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                 "SHA-256 of FIPS 180-4's example");

  const plumb::ProductShape shape{.m = 33, .n = 17, .k = 65};
  const auto in_float = product<float>(shape);
  const auto in_double = product<double>(shape);
  double worst = 0;
  for (std::size_t i = 0; i < in_double.size(); ++i) worst = std::fmax(worst, std::fabs(in_float[i] - in_double[i]));
  std::printf("largest difference of a float product from the double one: %.2g\n", worst);
  // 65 terms of size about one, each rounded by 2^-24 relatively, and the inputs too.
  good &= expect(worst > 0 && worst < 65 * 6 * std::ldexp(1.0, -24), "a product in float is near the one in double");
  return good ? 0 : 1;
}
