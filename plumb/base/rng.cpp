#include "plumb/base/rng.h"

#include <bit>
#include <cmath>
#include <limits>

namespace plumb {
namespace {

// Spreads every bit of x over all 64 (the finaliser of splitmix64; a bijection).
std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint64_t join(std::uint32_t low, std::uint32_t high) noexcept { return std::uint64_t{high} << 32 | low; }

std::array<std::uint32_t, 2> split(std::uint64_t x) noexcept {
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x >> 32)};
}

// The two 64-bit halves of a block: element i of a stream of 64-bit numbers is half i mod 2 of block i / 2.
std::uint64_t word64(const uint32x4& block, std::uint64_t element) noexcept {
  return element % 2 == 0 ? join(block[0], block[1]) : join(block[2], block[3]);
}

// High 64 bits of a * b; `low` gets the others.
std::uint64_t multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& low) noexcept {
  const std::uint64_t a0 = a & 0xffffffffU, a1 = a >> 32, b0 = b & 0xffffffffU, b1 = b >> 32;
  const std::uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
  const std::uint64_t middle = (p00 >> 32) + (p01 & 0xffffffffU) + (p10 & 0xffffffffU);
  low = a * b;
  return p11 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
}

// Natural logarithm of a positive normal double. Only exactly rounded operations, unlike the C library's,
// which differs between versions: x = m 2^k with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh(s) with s = (m -
// 1) / (m + 1), |s| < 0.1716.
double natural_log(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto k = static_cast<double>(static_cast<int>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffU) | 0x3ff0000000000000U);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    k += 1;
  }
  const double s = (m - 1) / (m + 1), t = s * s;
  double series = 0;
  for (int n = 23; n >= 3; n -= 2)
    series = (series + 1.0 / n) * t;  // the next term is below 2^-66 of the first
  // ln 2 in two parts, the first with zero low bits, so that k * high is exact.
  constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
  return k * ln2_high + (k * ln2_low + 2 * (s + s * series));
}

template <std::size_t N>
double polynomial(const std::array<double, N>& c, double x) noexcept {
  double sum = 0;
  for (const double a : c) sum = sum * x + a;
  return sum;
}

// AS 241's coefficients, highest power first.
constexpr std::array near_num{2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
                              4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
                              1.3314166789178437745e+2, 3.3871328727963666080e+0};
constexpr std::array near_den{
    5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
    5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0};
constexpr std::array middle_num{7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                2.41780725177450611770e-1, 1.27045825245236838258e+0,
                                3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                4.63033784615654529590e+0, 1.42343711074968357734e+0};
constexpr std::array middle_den{1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                2.05319162663775882187e+0, 1.0};
constexpr std::array far_num{2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                             2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
                             5.46378491116411436990e+0, 6.65790464350110377720e+0};
constexpr std::array far_den{2.04426310338993978564e-15, 1.42151175831644588870e-7,
                             1.84631831751005468180e-5,  7.86869131145613259100e-4,
                             1.48753612908506148525e-2,  1.36929880922735805310e-1,
                             5.99832206555887937690e-1,  1.0};

// The normal from one 64-bit word: its 52 high bits k give the point (2k + 1) / 2^53, which is exact, never 0
// or 1, and symmetric about 1/2.
double normal_of(std::uint64_t word) noexcept {
  return normal_quantile((2.0 * static_cast<double>(word >> 12) + 1.0) * 0x1p-53);
}

double unit_of(std::uint64_t word) noexcept { return static_cast<double>(word >> 11) * 0x1p-53; }

// Calls store(i, word) for i = 0 … n - 1, making each block of four words once.
template <class Store>
void each_word(const Stream& s, std::size_t n, std::uint64_t step, std::uint64_t sample, Store store) {
  for (std::size_t i = 0; i < n; i += 2) {
    const uint32x4 block = s.at(step, sample, i / 2);
    store(i, word64(block, 0));
    if (i + 1 < n) store(i + 1, word64(block, 1));
  }
}

}  // namespace

uint32x4 philox4x32(uint32x4 c, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xd2511f53U} * c[0], p1 = std::uint64_t{0xcd9e8d57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9e3779b9U;
    key[1] += 0xbb67ae85U;
  }
  return c;
}

std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

double normal_quantile(double p) noexcept {
  if (!(p > 0 && p < 1)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return p == 0 ? -infinity : p == 1 ? infinity : std::numeric_limits<double>::quiet_NaN();
  }
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(near_num, r) / polynomial(near_den, r);
  }
  double tail = q < 0 ? p : 1 - p;
  double extra = 0;
  if (tail < std::numeric_limits<double>::min()) {  // subnormal: natural_log wants a normal number
    tail *= 0x1p54;
    extra = 54 * 0.6931471805599453;
  }
  const double r = std::sqrt(extra - natural_log(tail));
  const double x = r <= 5 ? polynomial(middle_num, r - 1.6) / polynomial(middle_den, r - 1.6)
                          : polynomial(far_num, r - 5) / polynomial(far_den, r - 5);
  return q < 0 ? -x : x;
}

uint32x4 Stream::at(std::uint64_t step, std::uint64_t sample, std::uint64_t block) const noexcept {
  const std::uint64_t high =
      (step >> 32 & 0x3ff) << 22 | (sample >> 32 & 0x3ff) << 12 | (block >> 32 & 0xfff);
  return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(sample),
                     static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(high)},
                    key);
}

double Stream::uniform(std::uint64_t step, std::uint64_t sample, std::uint64_t element) const noexcept {
  return unit_of(word64(at(step, sample, element / 2), element));
}

float Stream::uniform_float(std::uint64_t step, std::uint64_t sample, std::uint64_t element) const noexcept {
  return static_cast<float>(word64(at(step, sample, element / 2), element) >> 40) * 0x1p-24F;
}

std::uint64_t Stream::below(std::uint64_t n, std::uint64_t step, std::uint64_t sample,
                            std::uint64_t element) const noexcept {
  if (n == 0) return 0;
  const std::uint64_t unfair = (0 - n) % n;  // 2^64 mod n: so many words would make some results likelier
  Stream attempt = *this;
  for (;;) {
    std::uint64_t low = 0;
    const std::uint64_t result = multiply(word64(attempt.at(step, sample, element / 2), element), n, low);
    if (low >= unfair) return result;
    attempt.key =
        split(mix(join(attempt.key[0], attempt.key[1]) + 0x9e3779b97f4a7c15U));  // a retry has its own stream
  }
}

double Stream::normal(std::uint64_t step, std::uint64_t sample, std::uint64_t element) const noexcept {
  return normal_of(word64(at(step, sample, element / 2), element));
}

void Stream::fill_normal(double mean, double std, std::span<double> out, std::uint64_t step,
                         std::uint64_t sample) const noexcept {
  each_word(*this, out.size(), step, sample,
            [&](std::size_t i, std::uint64_t word) { out[i] = mean + std * normal_of(word); });
}

void Stream::fill_normal(double mean, double std, std::span<float> out, std::uint64_t step,
                         std::uint64_t sample) const noexcept {
  each_word(*this, out.size(), step, sample, [&](std::size_t i, std::uint64_t word) {
    out[i] = static_cast<float>(mean + std * normal_of(word));
  });
}

void Stream::fill_uniform(double low, double high, std::span<double> out, std::uint64_t step,
                          std::uint64_t sample) const noexcept {
  each_word(*this, out.size(), step, sample,
            [&](std::size_t i, std::uint64_t word) { out[i] = low + (high - low) * unit_of(word); });
}

void Stream::fill_uniform(double low, double high, std::span<float> out, std::uint64_t step,
                          std::uint64_t sample) const noexcept {
  each_word(*this, out.size(), step, sample, [&](std::size_t i, std::uint64_t word) {
    out[i] = static_cast<float>(low + (high - low) * unit_of(word));
  });
}

Stream stream(std::uint64_t seed, std::string_view name) noexcept {
  return {split(mix(mix(seed + 0x9e3779b97f4a7c15U) ^ fnv1a(name)))};
}

}  // namespace plumb
