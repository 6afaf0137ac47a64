// plumb <command> [args]: parse, dispatch, and one sentence for whatever goes wrong.
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "plumb/base/error.h"
#include "plumb/cli/flags.h"

namespace {

// One line, whatever the user's own words in it hold.
int say(const char* sentence, int exit_code) {
  std::string line = sentence;
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  std::fprintf(stderr, "plumb: %s\n", line.c_str());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace plumb;
  try {
    const int exit_code = cli::run(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      return say("the answer could not be written to standard output; is the disk full?", 1);
    return exit_code;
  } catch (const Error& e) {
    return say(e.what(), e.exit_code);
  } catch (const std::bad_alloc&) {
    return say("there is not enough memory; lower train.batch_size or model.n_layer, or take a smaller text", 1);
  } catch (const std::exception& e) {
    return say(e.what(), 1);
  }
}
