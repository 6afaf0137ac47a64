#include "plumb/cli/say.h"

#include <cstdlib>
#include <new>
#include <string_view>

#include "plumb/base/error.h"
#include "plumb/fault/fault.h"
#include "plumb/spec/from_config.h"
#include "plumb/train/checkpoint.h"
#include "plumb/train/run_folder.h"

namespace plumb::cli {

std::string as_called(std::string text) {
  const char* name = std::getenv("PLUMB_CALLED_AS");
  if (!name || !*name) return text;
  for (const std::string_view before : {"`", "\n  "}) {
    const std::string from = std::string(before) + "plumb ", to = std::string(before) + name + " ";
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

void note_faults(const Config& config, bool quiet) {
  with_faults(resolve_config(config), fault_table());
  if (const std::string wrong = faults_text(config.fault); !wrong.empty() && !quiet)
    say("note: FAULT injected on purpose: {}; docs/faults.md says what is wrong\n", wrong);
}

void note_faults_of_run(const std::string& path, bool quiet) {
  Config config;
  try {
    config = read_checkpoint_info(newest_checkpoint(path)).config;
  } catch (const Error&) {
    return;
  }
  note_faults(config, quiet);
}

Sentence sentence_of(const std::exception_ptr& error) {
  Sentence s;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    s = {e.what(), e.exit_code};
  } catch (const std::bad_alloc&) {
    s = {"there is not enough memory; lower train.batch_size or model.n_layer, or take a smaller text", 1};
  } catch (const std::exception& e) {
    s = {e.what(), 1};
  }
  s.text = one_line(s.text);
  return s;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

}  // namespace plumb::cli
