// How large a batch is worth its tokens: the gradient noise scale.
#include <fmt/format.h>

#include <cmath>

#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/model/decoder.h"

namespace plumb {
namespace {

constexpr std::int64_t big_batches = 16, big_sequences = 8;

// Of one batch: |G|² and S, each without bias.
struct NoiseEstimate {
  double signal = 0, noise = 0;
};

double squared(std::span<const float> g) {
  double sum = 0;
  for (const float v : g) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

NoiseEstimate without(const std::vector<NoiseEstimate>& all, std::size_t left_out) {
  NoiseEstimate mean;
  const std::size_t n = all.size() - (left_out < all.size() ? 1 : 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == left_out) continue;
    mean.signal += all[i].signal / static_cast<double>(n),
        mean.noise += all[i].noise / static_cast<double>(n);
  }
  return mean;
}

double ratio(const NoiseEstimate& e) { return e.noise / e.signal; }

// Student's 97.5 % quantile of 15 degrees of freedom, for 16 batches.
constexpr double quantile = 2.131450;

Reading noise_scale_read(Patient& p, const InstrumentOptions& o) {
  ThreadPool pool(static_cast<int>(p.sick.train.threads));
  const auto plan_of = [&](std::int64_t sequences) {
    return make_plan<float>(p.spec, p.components, p.store,
                            {.mode = Mode::train,
                             .batch = sequences,
                             .block = p.block(),
                             .loss = {p.sick.train.label_smoothing, p.sick.train.z_loss},
                             .loss_factor = p.faults.loss_factor},
                            pool);
  };
  Plan<float> small = plan_of(1), big = plan_of(big_sequences);
  const auto block = static_cast<std::size_t>(p.block());
  std::vector<std::int32_t> x(block * big_sequences), y(x.size());
  std::vector<NoiseEstimate> all;
  const double b = big_sequences;
  double big_mean = 0, small_mean = 0;
  for (std::int64_t i = 0; i < big_batches; ++i) {
    // Sequences of the steps to come, none of them twice.
    p.feed.fill(p.step, i * big_sequences, x, y);
    double small_squared = 0;
    for (std::size_t s = 0; s < big_sequences; ++s) {
      stop_if_asked(o);
      small.loss_and_grad(std::span(x).subspan(s * block, block), std::span(y).subspan(s * block, block),
                          {0, 0});
      small_squared += squared(small.grads()) / b;
    }
    big.loss_and_grad(x, y, {0, 0});
    const double big_squared = squared(big.grads());
    all.push_back({(b * big_squared - small_squared) / (b - 1), (small_squared - big_squared) / (1 - 1 / b)});
    big_mean += big_squared / big_batches, small_mean += small_squared / big_batches;
  }
  const NoiseEstimate mean = without(all, all.size());
  const double scale = ratio(mean);
  // The jackknife: a ratio of means has no variance of its own to sum.
  const auto n = static_cast<double>(all.size());
  double center = 0, squares = 0;
  for (std::size_t i = 0; i < all.size(); ++i) center += ratio(without(all, i)) / n;
  for (std::size_t i = 0; i < all.size(); ++i) squares += std::pow(ratio(without(all, i)) - center, 2);
  const double error = std::sqrt((n - 1) / n * squares), low = scale - quantile * error,
               high = scale + quantile * error;
  const double batch = static_cast<double>(p.sick.train.batch_size * p.sick.train.accumulate);
  // The signal is a difference of two means; where noise hides it, so is the ratio's sign.
  const bool seen = mean.signal > 0 && low > 0;

  Reading r{.text = {}, .json = Json::object()};
  r.text += fmt::format("{:<34} {:>12}\n", "|G|^2, of the true gradient", number_text(mean.signal, "{:.4g}"));
  r.text +=
      fmt::format("{:<34} {:>12}\n", "S, variance of one sequence's", number_text(mean.noise, "{:.4g}"));
  r.text +=
      fmt::format("{:<34} {:>12}  95 %: {} to {}\n", "S / |G|^2, in sequences", number_text(scale, "{:.1f}"),
                  number_text(low, "{:.1f}"), number_text(high, "{:.1f}"));
  std::string says =
      !seen ? "The gradient cannot be told from its noise by so many sequences: no batch can be suggested."
      : batch < low ? fmt::format(
                          "train.batch_size is {}, below it: twice the batch makes nearly twice the way a "
                          "step, and a step of "
                          "this one {:.0f} % of the way that the true gradient would.",
                          batch, 100 / (1 + scale / batch))
      : batch > high ? fmt::format(
                           "train.batch_size is {}, above it: a smaller one would cost fewer tokens; of this "
                           "one's tokens {:.0f} % "
                           "more than the fewest are spent.",
                           batch, 100 * batch / scale)
                     : fmt::format(
                           "train.batch_size is {}, about as large: half of the best way a step, for twice "
                           "the fewest tokens.",
                           batch);
  r.text += wrapped(says, o.width, 0) + "\n";
  r.json["signal"] = mean.signal, r.json["noise"] = mean.noise, r.json["scale"] = scale;
  r.json["scale_tokens"] = scale * static_cast<double>(p.block());
  r.json["low"] = low, r.json["high"] = high, r.json["standard_error"] = error;
  r.json["big"] = big_sequences, r.json["batches"] = big_batches;
  r.json["big_squared"] = big_mean, r.json["small_squared"] = small_mean;
  r.json["batch_size"] = batch, r.json["suggests"] = says;
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry noise_scale = {
    .name = "noise_scale",
    .measures =
        "how many sequences' gradients must be averaged until their noise is as large as the gradient",
    .how =
        "Squared norms of gradients of one sequence and of 8, over 16 batches; |G|^2 and S from both, each "
        "averaged, then "
        "divided: B = S / |G|^2 (McCandlish et al. 2018, arXiv 1812.06162, appendix A.1). The interval is "
        "the jackknife's "
        "over batches, with Student's quantile. To be held against train.batch_size times train.accumulate: "
        "one step of a "
        "batch b goes 1 / (1 + B/b) of the best way (section 2.2). It grows while training, often tenfold; "
        "it is derived for "
        "SGD, and is only a guide for Adam. Padded rows of few targets count like others.",
    .read = noise_scale_read,
};
}  // namespace entries::instrument

}  // namespace plumb
