// layer_unused: a sub-layer whose removal changes nothing.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace layer_unused_cause {

constexpr double least = 0.1, most_plain = 0.9;

// Attention is held against attention, the feed-forward against itself.
double middle_like(const std::vector<double>& write, std::size_t i) {
  std::vector<double> alike;
  for (std::size_t k = i % 2; k < write.size(); k += 2) alike.push_back(write[k]);
  return middle(alike);
}

std::optional<Finding> look(const Evidence& e) {
  const std::string placement = e.text("model.placement");
  if (placement == "sandwich" || placement == "post_branch") return {};
  const auto write = e.numbers("write_over_branch");
  for (std::size_t i = 0; i < write.size(); ++i) {
    // Plain addition writes a branch as it is.
    const bool plain = e.text("model.residual") == "add";
    const double usual = plain ? 1 : middle_like(write, i);
    if (!(write[i] < (plain ? most_plain : least) * usual)) continue;
    return Finding{.where = sublayer(i),
                   .confidence = 0.9,
                   .why = fmt::format("Of its branch {} writes {:.2g} times the share that the others do.",
                                      sublayer(i), write[i] / usual),
                   .clues = {{"write_over_branch", write[i], (plain ? most_plain : least) * usual, 0}}};
  }
  return {};
}

}  // namespace layer_unused_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry layer_unused = {
    .name = "layer_unused",
    .what = "a sub-layer whose removal changes nothing",
    .symptom = "A block could be taken out.",
    .test =
        "What is written of a branch's output, before training: 1 with plain addition, below 0.9 is named; "
        "with other residual rules below a tenth of the other blocks. Where a norm stands behind a branch "
        "its output has another size, and nothing is said.",
    .alike = "All writes are 0 at the start of ReZero, SkipInit or zero_last: none stands out.",
    .mend = "Look at what multiplies that block's write.",
    .needs = "write_over_branch",
    .shows = "slightly_worse 10",
    .explains = "",
    .look = layer_unused_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
