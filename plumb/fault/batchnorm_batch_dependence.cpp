// Batch norm: what a sequence is told depends on the others in its batch.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string batchnorm_batch_dependence_refuses(const Config& c) {
  return c.model.norm == "batch" ? "model.norm = \"batch\" is that already" : refuses_without_norm(c);
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry batchnorm_batch_dependence = {
    .name = "batchnorm_batch_dependence",
    .what = "the output of a sequence depends on the others of its batch (batch norm)",
    .refuses = batchnorm_batch_dependence_refuses,
    .config = [](Config& c, double) { c.model.norm = "batch"; },
};
}  // namespace entries::fault

}  // namespace plumb
