#include "plumb/train/opened.h"

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"
#include "plumb/train/run_folder.h"

namespace plumb {

Opened open_run(const std::filesystem::path& run_or_checkpoint, const Components& components) {
  const auto path = newest_checkpoint(run_or_checkpoint);
  CheckpointInfo info = read_checkpoint_info(path);
  Opened o{path, info, CharTokenizer::from_json(info.tokenizer, path.string()),
           ParamStore<float>(decoder_layout<float>(info.spec, components), 0)};
  if (const WeightsReport r = load_weights(path, o.store); !r.missing.empty())
    bad_input("{} lacks {}; it is no whole checkpoint", path.string(), r.missing.front());
  return o;
}

}  // namespace plumb
