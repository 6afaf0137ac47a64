// A config, a run or a checkpoint: what profile, measure and ablate look at.
#include "plumb/base/error.h"
#include "plumb/cli/flags.h"
#include "plumb/train/checkpoint.h"
#include "plumb/train/run_folder.h"

namespace plumb::cli {
namespace fs = std::filesystem;

Subject subject_of(const std::string& what, const Flags& f, const std::string& command) {
  // A TOML file is a config; a folder or a .safetensors file is a run or a checkpoint.
  std::error_code ignored;
  const bool is_config =
      what.empty() || (!fs::is_directory(what, ignored) && !what.ends_with(".safetensors"));
  if (!is_config) return {config_of_run(read_checkpoint_info(newest_checkpoint(what)).config, f.set), what};
  try {
    return {config_of(what, f.set), {}};
  } catch (const Error&) {
    if (!what.ends_with(".toml")) refuse_misplaced(what, command);
    throw;
  }
}

}  // namespace plumb::cli
