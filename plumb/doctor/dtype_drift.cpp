// dtype_drift: the stream's type changes at a layer.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace dtype_drift_cause {
constexpr double all = 0.999, half = 0.5;

std::optional<Finding> look(const Evidence& e) {
  const auto narrow = e.numbers("stream_in_bf16");
  for (std::size_t i = 1; i < narrow.size(); ++i)
    if (narrow[i] > all && narrow[i - 1] < half)
      return Finding{.where = fmt::format("blocks.{}", i),
                     .confidence = 0.95,
                     .why = fmt::format("From block {} on the stream is held in bf16.", i),
                     .clues = {{"stream_in_bf16", narrow[i], all, 0}}};
  return {};
}

}  // namespace dtype_drift_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry dtype_drift = {
    .name = "dtype_drift",
    .what = "the stream's type changes at a layer",
    .symptom = "A little worse; a difference between blocks that nothing explains.",
    .test =
        "From one block on every value of the stream is one that bf16 holds (of floats 1 in 65,536 is by "
        "chance), and before it not.",
    .alike = "train.precision = \"bf16_pure\" has it everywhere.",
    .mend = "Cast the stream back, or keep it in one type.",
    .needs = "stream_in_bf16",
    .shows = "nan_sudden 4, slightly_worse 15, import_differs 9",
    .explains = "",
    .look = dtype_drift_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
