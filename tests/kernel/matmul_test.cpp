#include "plumb/kernel/matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plumb/base/error.h"
#include "tests/support/allocations.h"

extern "C" void omp_set_num_threads(int);  // of oneDNN's OpenMP runtime

namespace plumb {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Scratch = std::unique_ptr<void, Free>;
Scratch make_scratch(std::size_t bytes) {
  return Scratch(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64)));
}

/// Operands of a product, with random values everywhere, gaps between rows included.
template <class R>
struct Operands {
  ProductShape s;
  std::vector<R> a, b, bias, c;

  explicit Operands(const ProductShape& shape, unsigned seed = 1) : s(shape.resolved()) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    const auto fill = [&](std::vector<R>& v, std::int64_t n) {
      v.resize(static_cast<std::size_t>(n));
      for (R& x : v) x = static_cast<R>(uniform(random));
    };
    fill(a, (s.trans_a ? s.k : s.m) * s.lda);
    fill(b, (s.trans_b ? s.n : s.k) * s.ldb);
    fill(bias, s.n);
    fill(c, s.m * s.ldc);
  }

  double a_at(std::int64_t i, std::int64_t p) const {
    return static_cast<double>(a[static_cast<std::size_t>(s.trans_a ? p * s.lda + i : i * s.lda + p)]);
  }
  double b_at(std::int64_t p, std::int64_t j) const {
    return static_cast<double>(b[static_cast<std::size_t>(s.trans_b ? j * s.ldb + p : p * s.ldb + j)]);
  }

  /// What C must become, and for each element a bound on the error of any summation order in R.
  void expect(std::vector<double>& want, std::vector<double>& bound) const {
    want.assign(c.begin(), c.end());
    bound.assign(c.size(), 0);
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        const auto at = static_cast<std::size_t>(i * s.ldc + j);
        double sum = s.accumulate ? static_cast<double>(c[at]) : 0, size = std::abs(sum);
        for (std::int64_t p = 0; p < s.k; ++p) {
          sum += a_at(i, p) * b_at(p, j);
          size += std::abs(a_at(i, p) * b_at(p, j));
        }
        if (s.bias) sum += static_cast<double>(bias[static_cast<std::size_t>(j)]);
        want[at] = sum;
        bound[at] = (size + 1) * static_cast<double>(s.k + 3) * std::numeric_limits<R>::epsilon();
      }
  }
};

template <class R>
void expect_close(const Operands<R>& o, const std::vector<R>& got, const std::vector<double>& want,
                  const std::vector<double>& bound) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - want[i]), bound[i])
        << o.s.text() << (o.s.accumulate ? " accumulate" : "") << (o.s.bias ? " bias" : "") << " strides "
        << o.s.lda << " " << o.s.ldb << " " << o.s.ldc << ": element " << i << " is " << got[i]
        << ", expected " << want[i];
}

template <class R>
void check_product(const ProductShape& s) {
  const Operands<R> o(s);
  std::vector<double> want, bound;
  o.expect(want, bound);
  const Product<R> product(s);
  const Scratch scratch = make_scratch(product.scratch_bytes());
  std::vector<R> c = o.c;
  product.run(o.a.data(), o.b.data(), o.s.bias ? o.bias.data() : nullptr, c.data(), scratch.get());
  expect_close(o, c, want, bound);
}

template <class R>
class MatmulTest : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(MatmulTest, Reals);

/// Every layout, with and without gaps between rows, accumulation and bias, for sizes with tails and sides of
/// 0 and 1.
TYPED_TEST(MatmulTest, AgreesWithTheNaiveProduct) {
  const std::int64_t sizes[][3] = {{1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {7, 5, 1},     {1, 1, 9},
                                   {1, 9, 1}, {9, 1, 1}, {3, 5, 7}, {17, 33, 65},  {64, 128, 32},
                                   {0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {129, 31, 257}};
  for (const auto& [m, n, k] : sizes)
    for (int bits = 0; bits < 32; ++bits) {
      ProductShape s{.m = m, .n = n, .k = k, .trans_a = (bits & 1) != 0, .trans_b = (bits & 2) != 0};
      s.accumulate = (bits & 4) != 0;
      s.bias = (bits & 8) != 0;
      if (bits & 16) {
        s = s.resolved();
        s.lda += 3, s.ldb += 13, s.ldc += 5;
      }
      check_product<TypeParam>(s);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TYPED_TEST(MatmulTest, NothingIsReadFromCWithoutAccumulate) {
  const ProductShape s{.m = 13, .n = 21, .k = 17, .bias = true};
  Operands<TypeParam> o(s);
  std::vector<double> want, bound;
  o.expect(want, bound);
  const Product<TypeParam> product(s);
  const Scratch scratch = make_scratch(product.scratch_bytes());
  std::vector<TypeParam> c(o.c.size(), std::numeric_limits<TypeParam>::quiet_NaN());
  product.run(o.a.data(), o.b.data(), o.bias.data(), c.data(), scratch.get());
  expect_close(o, c, want, bound);
}

/// A NaN (or 0 · Inf) anywhere in A's row i makes row i of C NaN, and no other; in B's column j, column j.
TYPED_TEST(MatmulTest, NaNReachesItsRowAndItsColumn) {
  for (int bits = 0; bits < 4; ++bits) {
    const ProductShape s{.m = 19, .n = 37, .k = 23, .trans_a = (bits & 1) != 0, .trans_b = (bits & 2) != 0};
    Operands<TypeParam> o(s);
    const std::int64_t row = 11, column = 29, inner = 20;
    for (TypeParam& x : o.b) x = 0;  // 0 · NaN must be NaN: no product may skip zeros
    o.a[static_cast<std::size_t>(s.trans_a ? inner * o.s.lda + row : row * o.s.lda + inner)] =
        std::numeric_limits<TypeParam>::quiet_NaN();
    o.b[static_cast<std::size_t>(s.trans_b ? column * o.s.ldb + inner : inner * o.s.ldb + column)] =
        std::numeric_limits<TypeParam>::infinity();
    for (std::int64_t i = 0; i < s.m; ++i)
      if (i != row)
        o.a[static_cast<std::size_t>(s.trans_a ? inner * o.s.lda + i : i * o.s.lda + inner)] = 0;  // 0 · Inf
    const Product<TypeParam> product(s);
    const Scratch scratch = make_scratch(product.scratch_bytes());
    std::vector<TypeParam> c = o.c;
    product.run(o.a.data(), o.b.data(), nullptr, c.data(), scratch.get());
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j)
        ASSERT_EQ(std::isnan(c[static_cast<std::size_t>(i * o.s.ldc + j)]), i == row || j == column)
            << product.shape().text() << " at " << i << ", " << j;
  }
}

TYPED_TEST(MatmulTest, OneProductRunByFourThreadsGivesTheSerialBits) {
  for (const ProductShape& s :
       {ProductShape{.m = 64, .n = 96, .k = 48, .trans_b = true, .bias = true},
        ProductShape{.m = 33, .n = 65, .k = 129, .trans_a = true},
        ProductShape{.m = 65, .n = 1, .k = 31, .trans_b = true, .accumulate = true}}) {
    const Operands<TypeParam> o(s);
    const Product<TypeParam> product(s);
    const auto once = [&](void* scratch, std::vector<TypeParam>& c) {
      c = o.c;
      product.run(o.a.data(), o.b.data(), s.bias ? o.bias.data() : nullptr, c.data(), scratch);
    };
    std::vector<TypeParam> serial;
    once(make_scratch(product.scratch_bytes()).get(), serial);
    std::atomic<int> wrong{0};
    const auto work = [&] {
      const Scratch scratch = make_scratch(product.scratch_bytes());
      std::vector<TypeParam> c;
      for (int repeat = 0; repeat < 300; ++repeat) {
        once(scratch.get(), c);
        if (std::memcmp(c.data(), serial.data(), c.size() * sizeof(TypeParam)) != 0) ++wrong;
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0) << product.shape().text() << ": of 1200 results";
  }
}

/// A thread that was never told to use one OpenMP thread runs a long sum first: told apart by oneDNN's bits
/// for several.
TEST(MatmulThreadTest, AFreshThreadGivesTheBitsOfOneOpenMpThread) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{64, 64, 2048}, {32, 32, 65536}, {128, 128, 8192}}) {
    const ProductShape s{.m = m, .n = n, .k = k};
    const Operands<float> o(s);
    const Product<float> product(s);
    const Scratch scratch = make_scratch(product.scratch_bytes());
    std::vector<float> one = o.c, fresh = o.c;
    omp_set_num_threads(1);
    product.run(o.a.data(), o.b.data(), nullptr, one.data(), scratch.get());
    std::thread([&] {
      omp_set_num_threads(4);
      product.run(o.a.data(), o.b.data(), nullptr, fresh.data(), scratch.get());
    }).join();
    EXPECT_EQ(std::memcmp(one.data(), fresh.data(), one.size() * sizeof(float)), 0) << s.text();
  }
}

/// Threads that take the next piece from a counter, as a pool would.
Executor on_threads(int n_thread) {
  return [n_thread](std::int64_t n, const std::function<void(std::int64_t)>& body) {
    std::atomic<std::int64_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < n_thread; ++t)
      threads.emplace_back([&] {
        for (std::int64_t i = next++; i < n; i = next++) body(i);
      });
    for (std::thread& t : threads) t.join();
  };
}

std::uint64_t hash(const void* data, std::size_t bytes) {
  std::uint64_t h = 14695981039346656037ULL;
  for (std::size_t i = 0; i < bytes; ++i)
    h = (h ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ULL;
  return h;
}

TEST(CutProductTest, BitsDoNotDependOnTheNumberOfThreads) {
  const std::int64_t sizes[][3] = {{64, 64, 2048},   {32, 32, 65536},  {128, 128, 8192}, {512, 384, 128},
                                   {1200, 128, 512}, {2048, 130, 257}, {37, 41, 5003}};
  for (const auto& [m, n, k] : sizes)
    for (const bool trans_a : {false, true})
      for (const bool accumulate : {false, true}) {
        const ProductShape s{.m = m,
                             .n = n,
                             .k = k,
                             .trans_a = trans_a,
                             .trans_b = !trans_a,
                             .accumulate = accumulate,
                             .bias = accumulate};
        const Operands<float> o(s);
        const CutProduct<float> product(s);
        const Scratch scratch = make_scratch(product.scratch_bytes());
        std::uint64_t one = 0;
        for (const int n_thread : {1, 2, 4}) {
          std::vector<float> c = o.c;
          product.run(o.a.data(), o.b.data(), o.bias.data(), c.data(), scratch.get(), on_threads(n_thread));
          const std::uint64_t h = hash(c.data(), c.size() * sizeof(float));
          if (n_thread == 1) one = h;
          EXPECT_EQ(h, one) << s.text() << " on " << n_thread << " threads, " << product.impl();
        }
      }
}

TEST(CutProductTest, LongSumsAreShared) {
  EXPECT_GE(cut({.m = 64, .n = 64, .k = 2048}).pieces(), 4);
  EXPECT_GE(cut({.m = 32, .n = 32, .k = 65536}).pieces(), 16);
  EXPECT_GE(cut({.m = 128, .n = 128, .k = 8192}).pieces(), 16);
  EXPECT_EQ(cut({.m = 64, .n = 64, .k = 64}).pieces(), 1);
}

template <class R>
void check_cut_product(const ProductShape& s) {
  const Operands<R> o(s);
  std::vector<double> want, bound;
  o.expect(want, bound);
  const CutProduct<R> product(s);
  const Scratch scratch = make_scratch(product.scratch_bytes());
  std::vector<R> c = o.c;
  product.run(o.a.data(), o.b.data(), o.bias.data(), c.data(), scratch.get(), run_serially);
  expect_close(o, c, want, bound);
}

TYPED_TEST(MatmulTest, ACutProductAgreesWithTheNaiveProduct) {
  for (int bits = 0; bits < 16; ++bits)
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{37, 41, 5003}, {300, 150, 130}, {5, 0, 3}, {5, 3, 0}}) {
      ProductShape s{.m = m, .n = n, .k = k, .trans_a = (bits & 1) != 0, .trans_b = (bits & 2) != 0};
      s.accumulate = (bits & 4) != 0;
      s.bias = (bits & 8) != 0;
      s = s.resolved();
      s.lda += 2, s.ldb += 1, s.ldc += 4;
      check_cut_product<TypeParam>(s);
      if (testing::Test::HasFatalFailure()) return;
    }
}

/// After each worker's first run. oneDNN's own allocations are told apart by where they are called from.
TEST(MatmulAllocationTest, RunAllocatesNothingOfOurs) {
  const ProductShape s{.m = 64, .n = 96, .k = 4096, .trans_b = true, .accumulate = true, .bias = true};
  Operands<float> o(s);
  const Product<float> product(s);
  const CutProduct<float> cut_product(s);
  ASSERT_GT(cut_product.cut().k, 1);
  const Scratch scratch = make_scratch(std::max(product.scratch_bytes(), cut_product.scratch_bytes()));
  const Executor serially = run_serially;
  const auto work = [&] {
    for (int i = 0; i < 10; ++i) {
      product.run(o.a.data(), o.b.data(), o.bias.data(), o.c.data(), scratch.get());
      cut_product.run(o.a.data(), o.b.data(), o.bias.data(), o.c.data(), scratch.get(), serially);
    }
  };
  EXPECT_GT(test::allocations_of_onednn([&] { Product<float> another({.m = 5, .n = 6, .k = 7}); }), 0);
  EXPECT_GT(test::allocations_of_ours([&] { Product<float> another({.m = 5, .n = 6, .k = 7}); }), 0);
  work();
  EXPECT_EQ(test::allocations_of_ours(work), 0);
  const Product<double> plain({.m = 5, .n = 6, .k = 7});
  std::vector<double> x(42, 1.0), y(30);
  EXPECT_EQ(test::allocations_of_ours([&] { plain.run(x.data(), x.data(), nullptr, y.data(), nullptr); }), 0);
}

template <class F>
std::string sentence(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(MatmulErrorTest, ShapeErrorsNameBothShapes) {
  EXPECT_EQ(sentence([] { Product<float> p({.m = 512, .n = 384, .k = 128, .trans_b = true, .lda = 100}); }),
            "[matmul] A's row stride is 100, its rows have 128 elements: A (512, 128) x B^T (384, 128) -> C "
            "(512, 384)");
  EXPECT_EQ(sentence([] { Product<double> p({.m = 2, .n = 3, .k = 4, .ldc = 2}); }),
            "[matmul] C's row stride is 2, its rows have 3 elements: A (2, 4) x B (4, 3) -> C (2, 3)");
  EXPECT_EQ(sentence([] { CutProduct<float> p({.m = 2, .n = -3, .k = 4}); }),
            "[matmul] a size is negative: A (2, 4) x B (4, -3) -> C (2, -3)");
}

TEST(MatmulErrorTest, TheImplementationHasAName) {
  EXPECT_NE(Product<float>({.m = 64, .n = 64, .k = 64}).impl(), "");
  EXPECT_EQ(Product<double>({.m = 64, .n = 64, .k = 64}).impl(), "plain");
}

}  // namespace
}  // namespace plumb
