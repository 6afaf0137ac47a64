// How far each block's norm gains are from where they started (1, or 0 where the gain is stored as 1 + w),
// before the step's update: root of the mean square over all of them. A block whose gains do not move adapts
// by its matrices alone; gains that run away scale what the branches read.
#include <cmath>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Drift {
  double squares = 0;
  std::int64_t count = 0;
};

class GainDrift final : public ParamProbe<Drift> {
 public:
  using ParamProbe::ParamProbe;
  void write(StepRow& row) const override {
    write_number(
        row,
        {"gain_drift", [](const Drift& d) { return std::sqrt(d.squares / static_cast<double>(d.count)); }},
        parts_, true);
  }

 private:
  void look(const ParamInfo& p, std::span<const float> before, std::span<const float>, std::span<const float>,
            Drift& drift) override {
    // Gains that start as drawn (weight normalisation's: the rows' lengths) are not known here.
    if (p.spec.role != Role::norm_gain || p.rule.kind != ParamRule::Kind::constant) return;
    const auto start = static_cast<double>(static_cast<float>(p.rule.scale));
    for (const float gain : before) {
      const double d = static_cast<double>(gain) - start;
      drift.squares += d * d;
    }
    drift.count += static_cast<std::int64_t>(before.size());
  }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry gain_drift =
    probe_entry<GainDrift>("gain_drift", "how far a block's norm gains are from where they started");
}  // namespace entries::probe

}  // namespace plumb
