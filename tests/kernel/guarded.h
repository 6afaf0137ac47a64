// What the tests of SIMD kernels share: matrices whose last element lies against a page that cannot be
// touched, and a loop over the instruction sets of this machine.
#pragma once
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "plumb/tensor/view.h"

namespace plumb::test {

inline constexpr double kEps = 0x1p-24;  // half an ulp of 1 in float

/// A (rows, cols) matrix with `gap` elements between rows and `shift` after the last, then a page that
/// faults. The gaps hold a canary; its alignment varies with the shape.
template <class R>
class Guarded {
 public:
  Guarded(std::int64_t rows, std::int64_t cols, std::int64_t gap = 0, std::int64_t shift = 0)
      : rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        used_(std::size_t((rows - 1) * stride_ + cols + shift)) {
    const auto page = std::size_t(sysconf(_SC_PAGESIZE));
    bytes_ = (used_ * sizeof(R) + page - 1) / page * page + page;
    pages_ =
        static_cast<char*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (pages_ == MAP_FAILED || mprotect(pages_ + bytes_ - page, page, PROT_NONE) != 0) std::abort();
    data_ = reinterpret_cast<R*>(pages_ + bytes_ - page) - used_;
    for (std::size_t i = 0; i < used_; ++i) data_[i] = kCanary;
    fill([](std::int64_t, std::int64_t) { return 0.0; });
  }
  ~Guarded() { munmap(pages_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  View<R> view() const { return {data_, rows_, cols_, stride_}; }
  View<const R> read() const { return view(); }
  R& at(std::int64_t i, std::int64_t j) const { return data_[i * stride_ + j]; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  template <class F>
  void fill(F f) {
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = 0; j < cols_; ++j) at(i, j) = R(f(i, j));
  }
  /// Values that float holds exactly, so that a double twin sees the same.
  void randomise(std::mt19937_64& rng, double scale, double offset = 0) {
    std::normal_distribution<double> normal;
    fill([&](std::int64_t, std::int64_t) { return double(float(offset + scale * normal(rng))); });
  }
  template <class Q>
  void copy(const Guarded<Q>& other) {
    fill([&](std::int64_t i, std::int64_t j) { return double(other.at(i, j)); });
  }
  bool gaps_intact() const {
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = cols_; j < stride_ && i * stride_ + j < std::int64_t(used_); ++j)
        if (data_[i * stride_ + j] != kCanary) return false;
    return true;
  }

 private:
  static constexpr R kCanary = R(-12345.5);
  std::int64_t rows_, cols_, stride_;
  std::size_t used_, bytes_;
  char* pages_;
  R* data_;
};

/// Every element of got within tolerance(i, j) of want, NaN exactly where want has one, gaps untouched.
template <class F>
testing::AssertionResult near(const Guarded<float>& got, const Guarded<double>& want, F tolerance) {
  if (!got.gaps_intact()) return testing::AssertionFailure() << "wrote between rows";
  for (std::int64_t i = 0; i < got.rows(); ++i)
    for (std::int64_t j = 0; j < got.cols(); ++j) {
      const double g = double(got.at(i, j)), w = want.at(i, j);
      if (std::isnan(g) && std::isnan(w)) continue;
      if (!(g == w || std::abs(g - w) <= tolerance(i, j)))
        return testing::AssertionFailure()
               << "(" << i << ", " << j << ") got " << g << ", want " << w << ", off by " << std::abs(g - w)
               << ", allowed " << tolerance(i, j);
    }
  return testing::AssertionSuccess();
}
inline testing::AssertionResult near(const Guarded<float>& got, const Guarded<double>& want,
                                     double tolerance) {
  return near(got, want, [&](std::int64_t, std::int64_t) { return tolerance; });
}

template <class R>
bool same_bits(View<R> a, View<R> b) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) {
      const bool nan = std::isnan(a.row(i)[j]) && std::isnan(b.row(i)[j]);
      if (!nan && (a.row(i)[j] != b.row(i)[j] || std::signbit(a.row(i)[j]) != std::signbit(b.row(i)[j])))
        return false;
    }
  return true;
}

/// Runs f with every instruction set that was compiled and that this machine has.
template <class F>
void for_each_target(F f) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::GetChosenTarget().Update(target);
    const testing::ScopedTrace trace(__FILE__, __LINE__, hwy::TargetName(target));
    f();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Checks d loss / d x[i] = want[i] for every element by the five-point rule, |a - n| <= 1e-6 max(1, |a|,
/// |n|).
inline void expect_gradient(const Guarded<double>& x, const Guarded<double>& want, double step,
                            const std::function<double()>& loss, const char* name) {
  for (std::int64_t i = 0; i < x.rows(); ++i)
    for (std::int64_t j = 0; j < x.cols(); ++j) {
      double& v = x.at(i, j);
      const double v0 = v;
      const auto at = [&](double d) { return v = v0 + d, loss(); };
      const double numeric = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
      v = v0;
      const double a = want.at(i, j), size = std::max({1.0, std::abs(a), std::abs(numeric)});
      ASSERT_LE(std::abs(a - numeric), 1e-6 * size)
          << name << " (" << i << ", " << j << "): " << a << " " << numeric;
    }
}

inline const std::vector<std::int64_t>& swept_lengths() {
  static const std::vector<std::int64_t> lengths = [] {
    std::vector<std::int64_t> n;
    for (std::int64_t i = 1; i <= 70; ++i) n.push_back(i);
    for (const std::int64_t i : {127, 128, 129, 256, 1200}) n.push_back(i);
    return n;
  }();
  return lengths;
}

}  // namespace plumb::test
