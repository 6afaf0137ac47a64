#include "plumb/cli/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace plumb::cli {
namespace {
volatile std::sig_atomic_t asked = 0;
}

void listen_for_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    std::signal(signal, [](int which) {
      asked = 1;
      std::signal(which, SIG_DFL);
    });
}

bool interrupted() { return asked != 0; }

}  // namespace plumb::cli
