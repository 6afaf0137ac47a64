// Timings of single kernels at the shapes of one shard of the chapter's model: 8 sequences of 64, d_model
// 128.
#include <benchmark/benchmark.h>

#include <vector>

#include "plumb/kernel/activation.h"
#include "plumb/kernel/attention.h"
#include "plumb/kernel/matmul.h"
#include "plumb/kernel/rows.h"

namespace plumb {
namespace {

constexpr std::int64_t rows = 512;

struct Matrix {
  std::int64_t n_row, n_col;
  std::vector<float> data;
  Matrix(std::int64_t r, std::int64_t c) : n_row(r), n_col(c), data(static_cast<std::size_t>(r * c)) {
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>(i * 2654435761u % 1000) / 500.0f - 1.0f;
  }
  View<float> view() { return {data.data(), n_row, n_col, n_col}; }
  View<const float> in() const { return {data.data(), n_row, n_col, n_col}; }
};

void layer_norm(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Matrix x(rows, n), gamma(1, n), beta(1, n), y(rows, n), mean(rows, 1), rstd(rows, 1), dgamma(1, n),
      dbeta(1, n);
  for (auto _ : state) {
    layer_norm_forward<float>(x.in(), gamma.in(), beta.in(), 1e-5, y.view(), mean.view(), rstd.view());
    layer_norm_backward<float>(y.in(), x.in(), gamma.in(), mean.in(), rstd.in(), {y.view(), true},
                               {dgamma.view(), true}, {dbeta.view(), true});
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(layer_norm)->Arg(128)->Arg(256)->Arg(1200);

void gelu(benchmark::State& state) {
  Matrix x(rows, state.range(0)), y(rows, state.range(0));
  for (auto _ : state) {
    activation_forward<float>({.act = Act::gelu}, x.in(), y.view());
    activation_backward<float>({.act = Act::gelu}, y.in(), x.in(), {y.view(), true});
  }
  state.SetItemsProcessed(state.iterations() * rows * state.range(0));
}
BENCHMARK(gelu)->Arg(256);

// Useful FLOPs: the causal half of 2 products forward and 5 backward.
void attention(benchmark::State& state) {
  const std::int64_t t = state.range(0), heads = 4, d = 32, n = rows / t;
  const AttentionShape shape{
      .n_seq = n, .block = t, .n_head = heads, .n_kv_head = heads, .d_head = d, .scale = 0.17677669529};
  Matrix qkv(rows, 3 * heads * d), o(rows, heads * d), lse(rows, heads), dqkv(rows, 3 * heads * d);
  std::vector<float> scratch(attention_scratch<float>(shape));
  auto part = [&](auto v, std::int64_t i) { return v.columns(i * heads * d, heads * d); };
  for (auto _ : state) {
    attention_forward<float>(shape, part(qkv.in(), 0), part(qkv.in(), 1), part(qkv.in(), 2), nullptr, {},
                             o.view(), lse.view(), {}, {}, scratch.data());
    attention_backward<float>(shape, part(qkv.in(), 0), part(qkv.in(), 1), part(qkv.in(), 2), nullptr, {},
                              o.in(), lse.in(), o.in(), {part(dqkv.view(), 0), true},
                              {part(dqkv.view(), 1), true}, {part(dqkv.view(), 2), true}, {}, scratch.data());
  }
  const double pairs = static_cast<double>(n * heads * t * (t + 1)) / 2;
  state.counters["GFLOP/s"] =
      benchmark::Counter(pairs * static_cast<double>(d) * 14 * static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate);
}
BENCHMARK(attention)->Arg(64)->Arg(256);

void product(benchmark::State& state) {
  const ProductShape shape{.m = rows, .n = state.range(0), .k = state.range(1), .trans_b = true};
  const Product<float> p(shape);
  Matrix a(rows, shape.k), b(shape.n, shape.k), c(rows, shape.n);
  std::vector<std::byte> scratch(p.scratch_bytes() + 64);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  for (auto _ : state) p.run(a.data.data(), b.data.data(), nullptr, c.data.data(), aligned);
  state.counters["GFLOP/s"] = benchmark::Counter(
      shape.flops() * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}
BENCHMARK(product)->Args({384, 128})->Args({128, 128})->Args({256, 128})->Args({128, 256})->Args({1200, 128});

}  // namespace
}  // namespace plumb
