// The tutorial's invariants [a] to [f], each measured on random numbers of our own, beside what it printed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plumb/base/rng.h"
#include "plumb/ffn/ffn.h"
#include "plumb/kernel/activation.h"
#include "plumb/kernel/matmul.h"
#include "plumb/model/ends.h"
#include "plumb/plan/graph.h"
#include "plumb/plan/plan.h"
#include "plumb/study/check.h"
#include "plumb/study/component_run.h"

namespace plumb {
namespace {

template <class R>
Grid<R> normal(std::string_view name, std::int64_t rows, std::int64_t cols, double mean = 0, double std = 1,
               std::uint64_t seed = 1) {
  Grid<R> g{rows, cols, std::vector<R>(static_cast<std::size_t>(rows * cols))};
  const Stream s = stream(seed, "check/" + std::string(name));
  for (std::size_t i = 0; i < g.data.size(); ++i)
    g.data[i] = static_cast<R>(static_cast<float>(mean + std * s.normal(0, 0, i)));
  return g;
}

template <class R>
auto norm_named(const Components& c, const std::string& name, const DecoderSpec& s) {
  return choose(c.norm, "norm", name, s).template make<R>(s);
}

// y of a norm of x, one sequence.
template <class R>
Grid<R> normed(const Components& c, const std::string& name, const Grid<R>& x, double eps) {
  DecoderSpec s;
  s.d_model = x.cols, s.norm_eps = eps;
  const auto norm = norm_named<R>(c, name, s);
  return run_component<R>([&](Builder<R>& b, Value v) { return norm->build(b, v, "norm", 0); }, x, 1, {}).y;
}

double mean_of(const double* x, std::int64_t n) {
  return std::accumulate(x, x + n, 0.0) / static_cast<double>(n);
}
double squares_of(const double* x, std::int64_t n, double about) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += (x[i] - about) * (x[i] - about);
  return sum / static_cast<double>(n);
}

template <class A, class B>
double largest_difference(const Grid<A>& a, const Grid<B>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(a.data[i]) - static_cast<double>(b.data[i])));
  return worst;
}

// The formulas, row by row.
Grid<double> by_formula(const Grid<double>& x, bool centred, double eps) {
  Grid<double> y = x;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    double* row = y.data.data() + i * x.cols;
    const double mean = centred ? mean_of(row, x.cols) : 0,
                 std = std::sqrt(squares_of(row, x.cols, mean) + eps);
    for (std::int64_t j = 0; j < x.cols; ++j) row[j] = (row[j] - mean) / std;
  }
  return y;
}

template <class R>
Grid<R> shifted(Grid<R> x, R by) {
  for (R& v : x.data) v += by;
  return x;
}

Check at_most(std::string id, std::string name, double value, double limit, std::string published = {}) {
  return {std::move(id),  std::move(name),     value, fmt::format("at most {:g}", limit),
          value <= limit, std::move(published)};
}
Check near(std::string id, std::string name, double value, double want, double off,
           std::string published = {}) {
  return {std::move(id),
          std::move(name),
          value,
          fmt::format("{:g} +- {:g}", want, off),
          std::abs(value - want) <= off,
          std::move(published)};
}

// -- [d]: h + W h' or N(h + W h), 48 times, then a head

struct Stack {
  std::int64_t depth = 48, width = 64, batch = 16;
  bool pre = true, cross_entropy = false, final_norm = false, two_layers = false;
  std::uint64_t seed = 0;
};

// d loss / d y of the head's output, for the mean square or for cross-entropy against targets of the seed.
Grid<double> loss_gradient(const Stack& s, const Grid<double>& y) {
  Grid<double> dy = y;
  const auto n = static_cast<double>(y.rows);
  if (!s.cross_entropy) {
    for (double& v : dy.data) v *= 2 / static_cast<double>(y.data.size());
    return dy;
  }
  const Stream targets = stream(s.seed, "check/targets");
  for (std::int64_t i = 0; i < y.rows; ++i) {
    double* row = dy.data.data() + i * y.cols;
    const double top = *std::max_element(row, row + y.cols);
    double sum = 0;
    for (std::int64_t j = 0; j < y.cols; ++j) sum += row[j] = std::exp(row[j] - top);
    for (std::int64_t j = 0; j < y.cols; ++j) row[j] /= sum * n;
    row[targets.below(static_cast<std::uint64_t>(y.cols), 0, 0, static_cast<std::uint64_t>(i))] -= 1 / n;
  }
  return dy;
}

// Norms of the gradients of the blocks' last matrices: of the first block and of the last.
std::pair<double, double> block_gradients(const Components& c, const Stack& s) {
  DecoderSpec spec;
  spec.d_model = s.width, spec.norm = "layer";
  const auto norm = norm_named<double>(c, "layer", spec);
  const Dim width{'C', s.width};
  std::map<std::string, Grid<double>> start;
  const double bound =
      1 / std::sqrt(static_cast<double>(s.width));  // PyTorch's: uniform, for weights and biases
  const auto draw = [&](const std::string& name, std::int64_t rows, std::int64_t cols, double by) {
    Grid<double> g{rows, cols, {}};
    const Stream random = stream(s.seed, "check/" + name);
    for (std::int64_t i = 0; i < rows * cols; ++i)
      g.data.push_back(by * (2 * random.uniform(0, 0, static_cast<std::uint64_t>(i)) - 1));
    start.emplace(name, std::move(g));
  };
  const double weights = s.two_layers ? std::sqrt(3.0) * bound : bound;  // Xavier: variance 2 / (n + n)
  const auto linear = [&](Builder<double>& b, Value x, const std::string& name) {
    if (!start.contains(name + ".weight")) {
      draw(name + ".weight", s.width, s.width, weights);
      draw(name + ".bias", 1, s.width, s.two_layers ? 0 : bound);
    }
    return b.linear(x, {.name = name, .out = width, .bias = true});
  };
  const auto build = [&](Builder<double>& b, Value h) {
    for (std::int64_t l = 0; l < s.depth; ++l) {
      const std::string name = "block" + std::to_string(l);
      Value branch = s.pre ? norm->build(b, h, name + ".norm", static_cast<int>(l)) : h;
      if (s.two_layers)
        branch =
            activation(b, linear(b, branch, name + ".first"), Activation{.act = Act::relu}, name + ".relu");
      branch = linear(b, branch, name);
      h = scaled_sum(b, 1, h, 1, branch, name + ".add");
      if (!s.pre) h = norm->build(b, h, name + ".norm", static_cast<int>(l));
    }
    if (s.final_norm) h = norm->build(b, h, "final_norm", -1);
    return linear(b, h, "head");
  };
  // Building once draws everything.
  Builder<double> once({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, Mode::train, {});
  (void)build(once, once.param({.name = "x", .shape = {{'B'}, {'T', s.batch}, width}}));
  const Grid<double> x = normal<double>("input", s.batch, s.width, 0, 1, s.seed);
  const Grid<double> y = run_component<double>(build, x, 1, {}, start).y;
  const auto ran = run_component<double>(build, x, 1, loss_gradient(s, y), start);
  const auto size = [&](std::int64_t block) {
    const auto& g = ran.grads.at("block" + std::to_string(block) + ".weight").data;
    return std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0));
  };
  return {size(0), size(s.depth - 1)};
}

struct Spread {
  double mean, sd;
};
Spread top_over_bottom(const Components& c, Stack s) {
  constexpr int seeds = 20;
  std::vector<double> r;
  for (s.seed = 0; s.seed < seeds; ++s.seed) {
    const auto [first, last] = block_gradients(c, s);
    r.push_back(last / first);
  }
  const double mean = mean_of(r.data(), seeds);
  return {mean, std::sqrt(squares_of(r.data(), seeds, mean) * seeds / (seeds - 1))};
}

}  // namespace

std::vector<Check> check_layer_norm(const Components& c) {
  const Grid<float> x = normal<float>("rows", 8, 64);
  const Grid<double> exact = by_formula({8, 64, {x.data.begin(), x.data.end()}}, true, 1e-5);
  return {at_most("a", "LayerNorm in float: largest |difference| from its formula in double",
                  largest_difference(normed(c, "layer", x, 1e-5), exact), 1e-6,
                  "2.38e-07 from another float code")};
}

std::vector<Check> check_rms_norm(const Components& c) {
  const Grid<float> x = normal<float>("rows", 8, 64), moved = shifted(x, 5.0f);
  const Grid<double> exact = by_formula({8, 64, {x.data.begin(), x.data.end()}}, false, 1e-6);
  const Grid<float> y = normed(c, "rms", x, 1e-6);
  // (x + 5) / sqrt(1 + 25) - x for x ~ N(0, 1): largest where x is least
  const double least = static_cast<double>(*std::ranges::min_element(x.data));
  const double want = (least + 5) / std::sqrt(26.0) - least;
  return {at_most("b", "RMSNorm in float: largest |difference| from its formula in double",
                  largest_difference(y, exact), 1e-6, "2.38e-07 from another float code"),
          at_most("b.layer_shift", "LayerNorm of x + 5 and of x: largest |difference|",
                  largest_difference(normed(c, "layer", moved, 1e-5), normed(c, "layer", x, 1e-5)), 1e-5,
                  "9.54e-07"),
          near("b.rms_shift", "RMSNorm of x + 5 and of x: largest |difference|",
               largest_difference(normed(c, "rms", moved, 1e-6), y), want, 0.15 * want, "3.05")};
}

// Features of mean 7 and standard deviation 3, which is where the printed numbers come from.
std::vector<Check> check_batch_norm(const Components& c) {
  constexpr std::int64_t rows = 32, width = 16;
  const Grid<double> x = normal<double>("features", rows, width, 7, 3);
  DecoderSpec s;
  s.d_model = width, s.norm = "batch";
  const auto norm = norm_named<double>(c, "batch", s);
  struct Output final : Hook<double> {
    std::vector<double> y;
    bool wants(std::string_view p, Dir d) const override { return p == "y" && d == Dir::forward; }
    void at(std::string_view, Dir, View<double> v, int) override { y.assign(v.data, v.data + v.size()); }
  } output;
  Hook<double>* hooks[] = {&output};
  const auto graph = [&](Mode mode) {
    Builder<double> b({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, mode, hooks);
    const Value table = b.param({.name = "x", .shape = {{'V', rows}, {'C', width, true}}});
    token_loss(b, b.point("y", norm->build(b, embed_tokens(b, table, rows), "norm", 0)), -100);
    return b.finish();
  };
  ParamStore<double> store(graph(Mode::train).layout(), 0);
  std::ranges::copy(x.data, store.param("x").data);
  ThreadPool pool(1);
  std::vector<std::int32_t> ids(rows), targets(rows, 0);
  std::iota(ids.begin(), ids.end(), 0);
  const auto run = [&](Mode mode) {
    Plan<double> plan(graph(mode), store, {.mode = mode, .batch = 1, .block = rows}, pool, hooks);
    plan.loss(ids, targets);
    if (mode == Mode::train) plan.commit();
    return output.y;
  };
  const std::vector<double> training = run(Mode::train), evaluation = run(Mode::eval);
  // What the definitions make of these features: biased variance in training; in evaluation a tenth of the mean, and of the
  // unbiased variance beside nine tenths of the 1 it started from.
  double centre = 0, running = 0, mean_of_means = 0, apart = 0, wanted = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    const auto at = [&](const auto& v, std::int64_t i) { return v[static_cast<std::size_t>(i * width + j)]; };
    double sum = 0, mean = 0, squares = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += at(training, i), mean += at(x.data, i) / rows;
    for (std::int64_t i = 0; i < rows; ++i) squares += (at(x.data, i) - mean) * (at(x.data, i) - mean);
    centre = std::max(centre, std::abs(sum / rows));
    mean_of_means += mean / width;
    const double biased = 1 / std::sqrt(squares / rows + s.norm_eps),
                 kept = 1 / std::sqrt(0.9 + 0.1 * squares / (rows - 1) + s.norm_eps);
    for (std::int64_t i = 0; i < rows; ++i)
      wanted =
          std::max(wanted, std::abs((at(x.data, i) - mean) * biased - (at(x.data, i) - 0.1 * mean) * kept));
  }
  for (const StateInfo& state : store.layout().states)
    if (state.spec.name == "norm.running_mean")
      for (std::int64_t j = 0; j < width; ++j) running += store.view(state).data[j] / width;
  for (std::size_t i = 0; i < training.size(); ++i)
    apart = std::max(apart, std::abs(training[i] - evaluation[i]));
  return {at_most("c", "BatchNorm in training: largest |mean| of a feature", centre, 1e-6, "8.15e-08"),
          near("c.running", "its running mean after one step from 0, momentum 0.1: a tenth of the features'",
               running, 0.1 * mean_of_means, 1e-9, "0.701"),
          near("c.eval", "training and evaluation after that step: largest |difference|", apart, wanted, 1e-9,
               "8.37")};
}

std::vector<Check> check_gradient_by_depth(const Components& c) {
  const auto ratio = [&](const char* id, const char* name, const Stack& s, double want, double off,
                         const char* published) {
    const Spread r = top_over_bottom(c, s);
    return near(id,
                fmt::format("{}: last over first block's gradient, mean of 20 seeds (sd {:.2g})", name, r.sd),
                r.mean, want, off, published);
  };
  std::vector<Check> all{
      ratio("d", "Pre-LN, mean square", {.pre = true}, 0.388, 0.04, "0.40, one seed"),
      ratio("d.post", "Post-LN, mean square", {.pre = false}, 1.98, 0.5, "2.35, one seed"),
      ratio("d.post_ce", "Post-LN, cross-entropy: the loss decides, it is not top-heavy",
            {.pre = false, .cross_entropy = true}, 0.96, 0.24, "not tried"),
  };
  // The law of 1/sqrt(L) needs a final norm, which the stack above has not: it divides by the stream's size. A branch of two
  // Xavier matrices around a ReLU writes variance 1/2, so the stream has 1 + L/2. One sample: in a batch the gradients of
  // samples that grow alike with depth add up.
  const Stack law{.batch = 1, .pre = true, .final_norm = true, .two_layers = true};
  constexpr int seeds = 20;
  double top[2] = {}, bottom[2] = {};
  for (int deep = 0; deep < 2; ++deep)
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      Stack s = law;
      s.depth = deep ? 96 : 6, s.seed = seed;
      const auto [first, last] = block_gradients(c, s);
      top[deep] += last, bottom[deep] += first;
    }
  all.push_back(near(
      "d.final_norm",
      "Pre-LN with a final norm: the last block's gradient at 96 layers over that at 6, mean of 20 seeds",
      top[1] / top[0], std::sqrt((1 + 3.0) / (1 + 48.0)), 0.05));
  all.push_back(near("d.final_norm_first", "the first block's, likewise: it does not fall",
                     bottom[1] / bottom[0], 1, 0.35));
  return all;
}

std::vector<Check> check_kaiming(const Components&) {
  constexpr std::int64_t n = 512, rows = 1024;
  const Grid<float> x = normal<float>("input", rows, n);
  const auto behind_relu = [&](double variance) {
    const Grid<float> w = normal<float>("weights", n, n, 0, std::sqrt(variance / n));
    std::vector<float> y(static_cast<std::size_t>(rows * n));
    const Product<float> product({.m = rows, .n = n, .k = n, .trans_b = true});
    std::vector<std::byte> scratch(product.scratch_bytes() + 64);
    product.run(x.data.data(), w.data.data(), nullptr, y.data(), scratch.data());
    activation_forward<float>({.act = Act::relu}, {y.data(), rows, n, n}, {y.data(), rows, n, n});
    return std::vector<double>(y.begin(), y.end());
  };
  const std::vector<double> kaiming = behind_relu(2), xavier = behind_relu(1);
  const auto size = static_cast<std::int64_t>(kaiming.size());
  return {
      near("e", "E y^2 behind Kaiming's linear layer and a ReLU", squares_of(kaiming.data(), size, 0), 1,
           0.02, "1.000"),
      near("e.xavier", "with half its variance", squares_of(xavier.data(), size, 0), 0.5, 0.01, "0.499"),
      near("e.variance", "Var y behind Kaiming's: 1 - 1/pi",
           squares_of(kaiming.data(), size, mean_of(kaiming.data(), size)), 1 - 1 / std::acos(-1.0), 0.015)};
}

std::vector<Check> check_residual_growth(const Components& c) {
  constexpr std::int64_t width = 512, rows = 32;
  // 50 layers of the residual rule, each branch of which writes fresh numbers of variance 1.
  const auto grown = [&](const char* rule) {
    DecoderSpec s;
    s.n_layer = 50, s.d_model = width, s.residual = rule, s.init.residual_scale = false;
    std::map<std::string, Grid<double>> start;
    const auto build = [&](Builder<double>& b, Value x) {
      const auto bus = choose(c.residual, "residual", rule, s).template make<double>(s);
      Value stream = bus->open(b, x);
      for (int w = 0; w < 100; ++w) {
        const Site at{w / 2, 50, w % 2 == 0 ? Sub::attention : Sub::ffn, w, 100};
        b.site(at);
        const auto in = bus->enter(b, stream, at);
        // A linear map of what came in first, by a matrix of variance 1/width, is as fresh as it gets.
        const std::string name = "write" + std::to_string(w);
        if (!start.contains(name + ".weight"))
          start.emplace(name + ".weight",
                        normal<double>(name, width, width, 0, 1 / std::sqrt(static_cast<double>(width))));
        stream = bus->leave(b, in.shortcut, b.linear(x, {.name = name, .out = {'C', width}}), at);
      }
      b.site(std::nullopt);
      return bus->close(b, stream);
    };
    Builder<double> once({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, Mode::train, {});
    (void)build(once, once.param({.name = "x", .shape = {{'B'}, {'T', rows}, {'C', width}}}));
    const Grid<double> x = normal<double>("stream", rows, width);
    const Grid<double> y = run_component<double>(build, x, 1, {}, start).y;
    const auto n = static_cast<std::int64_t>(y.data.size());
    return squares_of(y.data.data(), n, 0) / squares_of(x.data.data(), n, 0);
  };
  return {near("f", "variance of the stream behind 100 writes of variance 1, over that before", grown("add"),
               101, 6, "101.1"),
          near("f.scaled", "with writes times 1/sqrt(100)", grown("depth_scale"), 2, 0.1, "2.00")};
}

}  // namespace plumb
