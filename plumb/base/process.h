// Running another program and waiting for it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace plumb {

struct ProcessResult {
  int exit_code = 0;       // 128 + signal when one ended it
  bool not_found = false;  // the program is not on PATH
  std::string last_error;  // last non-empty line of its standard error
};

/// Runs `argv` (found on PATH, no shell) in `directory` with nothing on standard input and its output
/// discarded. fail() when the system cannot start any process.
ProcessResult run_process(const std::vector<std::string>& argv, const std::filesystem::path& directory);

}  // namespace plumb
