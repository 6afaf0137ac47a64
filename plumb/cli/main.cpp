// plumb <command> [args]: parse, dispatch, and one sentence for whatever goes wrong.
#include <cstdio>

#include "plumb/cli/flags.h"
#include "plumb/cli/say.h"

int main(int argc, char** argv) {
  using namespace plumb::cli;
  try {
    const int exit_code = run(argc, argv);
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return exit_code;
    say("plumb: the answer could not be written to standard output; is the disk full?\n");
    return 1;
  } catch (...) {
    const Sentence s = sentence_of(std::current_exception());
    say("plumb: {}\n", s.text);
    return s.exit_code;
  }
}
