// The products of one layer of the chapter's decoder, for one shard of 512 tokens, on one thread: plumb's
// Product (oneDNN's matmul primitive), dnnl_sgemm, and OpenBLAS. Every round times each of the three on each
// product, one after the other, so that a busy machine hurts them alike; the table shows each one's best
// round.
//
// Build, in the repository's root (needs libopenblas-pthread-dev and libdnnl-dev):
//   g++ -std=c++20 -O2 -I. bench/peers/openblas/products.cpp plumb/kernel/matmul.cpp -o
//   build/openblas_products -ldnnl -lopenblas -lgomp -lfmt
// Run:
//   OPENBLAS_NUM_THREADS=1 build/openblas_products [rounds]
//   OPENBLAS_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell build/openblas_products
#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "plumb/kernel/matmul.h"

namespace {

using plumb::ProductShape;

struct Case {
  std::string name;
  ProductShape shape;
  double best[3] = {1e9, 1e9, 1e9};  // seconds: Product, dnnl_sgemm, OpenBLAS
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::int64_t m = 512;
  const std::int64_t weights[][2] = {
      {384, 128}, {128, 128}, {256, 128}, {128, 256}, {1200, 128}};  // (out, in)
  for (const auto& [n, k] : weights) {
    const std::string w = "W " + std::to_string(n) + " x " + std::to_string(k);
    all.push_back({"forward " + w, ProductShape{.m = m, .n = n, .k = k, .trans_b = true}.resolved()});
    all.push_back({"dX      " + w, ProductShape{.m = m, .n = k, .k = n}.resolved()});
    all.push_back({"dW      " + w,
                   ProductShape{.m = n, .n = k, .k = m, .trans_a = true, .accumulate = true}.resolved()});
  }
  return all;
}

void run_sgemm(const ProductShape& s, const float* a, const float* b, float* c) {
  const dnnl_status_t status = dnnl_sgemm(s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F,
                                          a, s.lda, b, s.ldb, s.accumulate ? 1.0F : 0.0F, c, s.ldc);
  if (status != dnnl_success) std::exit(1);
}

void run_openblas(const ProductShape& s, const float* a, const float* b, float* c) {
  const auto i = [](std::int64_t x) { return static_cast<int>(x); };
  cblas_sgemm(CblasRowMajor, s.trans_a ? CblasTrans : CblasNoTrans, s.trans_b ? CblasTrans : CblasNoTrans,
              i(s.m), i(s.n), i(s.k), 1.0F, a, i(s.lda), b, i(s.ldb), s.accumulate ? 1.0F : 0.0F, c,
              i(s.ldc));
}

/// Seconds a call, over enough calls to take about 5 ms.
template <class F>
double seconds(double flops, F&& f) {
  const int calls = std::max(1, static_cast<int>(5e-3 * 6e10 / flops));
  f();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 30;
  std::vector<float> a(1 << 20), b(1 << 20), c(1 << 20), scratch(1 << 20);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(i % 13) - 6, b[i] = static_cast<float>(i % 7) - 3;
  openblas_set_num_threads(1);

  std::vector<Case> all = cases();
  for (int round = 0; round < rounds; ++round)
    for (Case& one : all) {
      const ProductShape& s = one.shape;
      const plumb::Product<float> product(s);
      const double t[3] = {
          seconds(s.flops(), [&] { product.run(a.data(), b.data(), nullptr, c.data(), scratch.data()); }),
          seconds(s.flops(), [&] { run_sgemm(s, a.data(), b.data(), c.data()); }),
          seconds(s.flops(), [&] { run_openblas(s, a.data(), b.data(), c.data()); })};
      for (int i = 0; i < 3; ++i) one.best[i] = std::min(one.best[i], t[i]);
    }

  std::printf("OpenBLAS core %s, best of %d rounds, GFLOP/s on one thread\n\n", openblas_get_corename(),
              rounds);
  std::printf("| product | plumb (oneDNN matmul) | dnnl_sgemm | OpenBLAS |\n| --- | --- | --- | --- |\n");
  double flops = 0, total[3] = {};
  for (const Case& one : all) {
    const double g = one.shape.flops() / 1e9;
    std::printf("| %s | %.1f | %.1f | %.1f |\n", one.name.c_str(), g / one.best[0], g / one.best[1],
                g / one.best[2]);
    flops += g;
    for (int i = 0; i < 3; ++i) total[i] += one.best[i];
  }
  std::printf("| all | %.1f | %.1f | %.1f |\n", flops / total[0], flops / total[1], flops / total[2]);
}
