#include "plumb/cli/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace plumb::cli {
namespace {
volatile std::sig_atomic_t asked = 0;
}

void listen_for_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, [](int which) {
      asked = 1;
      std::signal(which, SIG_DFL);
    });
    // nohup ignores SIGHUP, and that is to stay. SIGINT is ignored in whatever a script starts with `&`,
    // where nobody asked for it: who sends it means it.
    if (signal == SIGHUP && before == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

void outlive_readers() { std::signal(SIGPIPE, SIG_IGN); }

bool interrupted() { return asked != 0; }

}  // namespace plumb::cli
