// Ctrl-C: the first asks the run to stop cleanly, the second ends the process as usual.
#pragma once

namespace plumb::cli {

/// Starts listening for SIGINT, SIGTERM and SIGHUP; the last stays ignored where it was so when the process began
/// (nohup).
void listen_for_interrupts();
/// Goes on when nobody reads what is printed any more, as a run must whose words were piped into `head`.
void outlive_readers();
bool interrupted();

}  // namespace plumb::cli
