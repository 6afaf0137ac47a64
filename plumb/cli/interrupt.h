// Ctrl-C: the first asks the run to stop cleanly, the second ends the process as usual.
#pragma once

namespace plumb::cli {

/// Starts listening for SIGINT, SIGTERM and SIGHUP.
void listen_for_interrupts();
bool interrupted();

}  // namespace plumb::cli
