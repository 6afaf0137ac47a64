// Running another program and waiting for it.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace plumb {

struct ProcessResult {
  int exit_code = 0;       // 128 + signal when one ended it
  bool not_found = false;  // the program is not on PATH
  std::string last_error;  // last non-empty line of its standard error
  std::string errors;      // the end of its standard error, at most 64 KiB
};

/// Called while another program runs, with how long it has been running.
using Tick = std::function<void(std::chrono::steady_clock::duration)>;

/// Runs `argv` (found on PATH, no shell) in `directory` with nothing on standard input and its output
/// discarded, calling `tick` once every `period` until it ends. What `tick` throws ends the program and is
/// thrown on. fail() when the system cannot start any process.
ProcessResult run_process(const std::vector<std::string>& argv, const std::filesystem::path& directory,
                          const Tick& tick = {},
                          std::chrono::steady_clock::duration period = std::chrono::seconds(1));

}  // namespace plumb
