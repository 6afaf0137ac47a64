// Ctrl-C: the first asks the run to stop cleanly, the second ends the process as usual.
#pragma once

namespace plumb::cli {

/// Starts listening for SIGINT and SIGTERM.
void listen_for_interrupts();
bool interrupted();

}  // namespace plumb::cli
