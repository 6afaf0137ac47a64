// Which learning rates move the loss, and which break it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/median.h"
#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/study/lr_ramp.h"

namespace plumb {
namespace {
namespace lr_ramp_parts {

constexpr std::size_t window = 2;     // steps to both sides that a loss is averaged with
constexpr double broken_above = 0.5;  // nats over the lowest mean so far

// Batches differ: each loss as the mean with its neighbours.
std::vector<double> smoothed(const std::vector<double>& loss) {
  std::vector<double> means;
  for (std::size_t i = 0; i < loss.size(); ++i) {
    const std::size_t from = i < window ? 0 : i - window, to = std::min(loss.size(), i + window + 1);
    double sum = 0;
    for (std::size_t k = from; k < to; ++k) sum += loss[k] / static_cast<double>(to - from);
    means.push_back(sum);
  }
  return means;
}

// How much the mean of five seems to fall over two steps by the batches alone, at most (three deviations). A loss deviates
// by 1.05 times the median of what neighbours differ (normal), and that fall is the sum of four of them, a fifth each.
double fall_of_batches(std::span<const double> loss) {
  std::vector<double> apart;
  for (std::size_t i = 1; i < loss.size(); ++i) apart.push_back(std::abs(loss[i] - loss[i - 1]));
  return apart.empty() ? 0 : 3 * 2.0 / 5 * 1.05 * Median(std::move(apart)).value;
}

struct Marks {
  std::optional<std::size_t> steepest, breaks;
};
Marks marks_of(const std::vector<double>& loss, const std::vector<double>& mean) {
  Marks m;
  double lowest = HUGE_VAL;
  std::size_t sound = 0;
  for (; sound < loss.size() && std::isfinite(loss[sound]) && !(loss[sound] > lowest + broken_above); ++sound)
    lowest = std::min(lowest, mean[sound]);
  if (sound < loss.size()) m.breaks = sound;
  double fastest = fall_of_batches(std::span(loss).first(sound));
  for (std::size_t i = 1; i + 1 < sound; ++i)
    if (const double fall = mean[i - 1] - mean[i + 1]; fall > fastest) fastest = fall, m.steepest = i;
  return m;
}

}  // namespace lr_ramp_parts

Reading lr_ramp_read(Patient& p, const InstrumentOptions& o) {
  using namespace lr_ramp_parts;
  const LrRamp ramp = lr_ramp(p, [&] { stop_if_asked(o); });
  const std::vector<double> mean = smoothed(ramp.losses);
  const Marks m = marks_of(ramp.losses, mean);
  double most = 0, least = HUGE_VAL;
  for (const double v : mean)
    if (std::isfinite(v)) most = std::max(most, v), least = std::min(least, v);
  most = std::min(most, mean.front() + 2 * broken_above);

  Reading r{.text = fmt::format("{:>10}  {:>9}  {:>9}\n", "rate", "loss", "mean"), .json = Json::object()};
  Json rows = Json::array();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double part =
        std::isfinite(mean[i]) && most > least ? std::clamp((mean[i] - least) / (most - least), 0.0, 1.0) : 1;
    r.text += fmt::format("{:>10}  {:>9}  {:>9}  {}{}\n", fmt::format("{:.3g}", ramp.rates[i]),
                          number_text(ramp.losses[i], "{:.4f}"), number_text(mean[i], "{:.4f}"),
                          std::string(static_cast<std::size_t>(std::lround(30 * part)), '#'),
                          m.steepest == i ? "  falls fastest"
                          : m.breaks == i ? "  breaks"
                                          : "");
    Json row = Json::object();
    row["lr"] = ramp.rates[i], row["loss"] = ramp.losses[i], row["mean"] = mean[i];
    rows.push_back(row);
  }
  const auto rate = [&](const std::optional<std::size_t>& at) { return at ? Json(ramp.rates[*at]) : Json(); };
  r.json["steps"] = rows, r.json["steepest_lr"] = rate(m.steepest), r.json["breaks_lr"] = rate(m.breaks);
  r.json["lr"] = p.sick.train.lr;
  r.text += wrapped(fmt::format("train.lr = {:g}. The loss {}, and {}.", p.sick.train.lr,
                                m.steepest ? fmt::format("falls fastest at {:.3g}", ramp.rates[*m.steepest])
                                           : "nowhere falls faster than batches differ",
                                m.breaks ? fmt::format("breaks at {:.3g}", ramp.rates[*m.breaks])
                                         : fmt::format("does not break up to {:.3g}", ramp.rates.back())),
                    o.width, 0);
  r.text += '\n';
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry lr_ramp = {
    .name = "lr_ramp",
    .measures = "the loss while the learning rate grows from a hundredth to a hundred times train.lr",
    .how =
        "The range test (Smith 2017, arXiv 1506.01186, section 3.3) in 40 steps with the run's optimiser, on "
        "a copy of the "
        "parameters. The mean is over five steps; where it falls fastest is a good peak, and where a loss is "
        "half a nat above "
        "the lowest mean before, the rate breaks it. To be held against train.lr: a peak within a factor of "
        "three of what "
        "breaks has no room, one a hundred times below where it falls fastest learns nothing. A training "
        "with warm-up bears "
        "more than this test says, a long one at its peak less.",
    .read = lr_ramp_read,
};
}  // namespace entries::instrument

}  // namespace plumb
