// The config says that head and embedding are one matrix; the model has two.
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

std::string tied_embedding_broken_refuses(const Config& c) {
  return c.model.tied_embeddings.value_or(true)
             ? ""
             : "the config does not tie them; set model.tied_embeddings = true";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry tied_embedding_broken = {
    .name = "tied_embedding_broken",
    .what = "head and embedding are two matrices although the config ties them",
    .refuses = tied_embedding_broken_refuses,
    .spec = [](DecoderSpec& s, double) { s.tied_embeddings = false; },
};
}  // namespace entries::fault

}  // namespace plumb
