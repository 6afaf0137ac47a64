// kv_head_mapping: grouped heads read the wrong keys.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace kv_head_mapping_cause {

std::optional<Finding> look(const Evidence& e) {
  if (e.flag("kv_heads_in_groups") != false) return {};
  return Finding{.where = "every attention",
                 .confidence = 0.97,
                 .why = "Heads of queries follow keys of another group than their own.",
                 .clues = {{"kv_heads_in_groups", 0, 1, 0}}};
}

}  // namespace kv_head_mapping_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry kv_head_mapping = {
    .name = "kv_head_mapping",
    .what = "grouped heads read the wrong keys",
    .symptom =
        "A model trained so learns as well as any; weights from elsewhere are wrong in it, and its own "
        "elsewhere.",
    .test = "Values of one head of keys are doubled: exactly the queries of its own group should follow.",
    .alike = "",
    .mend = "Head h of the queries reads head h / (n_head / n_kv_head): repeat_interleave, not repeat.",
    .needs = "kv_heads_in_groups",
    .shows = "import_differs 2",
    .explains = "",
    .look = kv_head_mapping_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
