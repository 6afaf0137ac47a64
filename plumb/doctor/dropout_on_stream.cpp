// dropout_on_stream: dropout stands on the residual stream.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace dropout_on_stream_cause {
constexpr double most = 0.01;

std::optional<Finding> look(const Evidence& e) {
  const auto zeros = e.numbers("stream_zeros");
  for (std::size_t i = 0; i < zeros.size(); ++i)
    if (zeros[i] > most && zeros[i] < 0.99)
      return Finding{.where = fmt::format("blocks.{}", i),
                     .confidence = 0.95,
                     .why = fmt::format("{:.0f} % of the stream behind block {} are 0.", 100 * zeros[i], i),
                     .clues = {{"stream_zeros", zeros[i], most, 0}}};
  return {};
}

}  // namespace dropout_on_stream_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry dropout_on_stream = {
    .name = "dropout_on_stream",
    .what = "dropout stands on the residual stream",
    .symptom = "Worse with depth: what one block drops is lost to all that follow.",
    .test =
        "More than 1 % of the stream behind a block is exactly 0 in training (0 by chance does not happen).",
    .alike = "Dropout of branches before the write leaves no zeros in the sum.",
    .mend = "Drop in the branches, before the write.",
    .needs = "stream_zeros",
    .shows = "slightly_worse 11, worse_with_depth 6",
    .explains = "no_residual",
    .look = dropout_on_stream_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
