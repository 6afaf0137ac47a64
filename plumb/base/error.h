// The one exception of plumb, and how its sentence is made.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace plumb {

/// What went wrong, in one sentence that says what, where and what to do. `exit_code` is the command's exit status for
/// it (CONTRACT: 1 failed, 2 bad usage or bad input, 4 non-finite).
struct Error : std::runtime_error {
  int exit_code;
  explicit Error(const std::string& sentence, int code = 1) : std::runtime_error(sentence), exit_code(code) {}
};

/// Bad usage or bad input: nothing was written. Exit status 2.
template <class... Args>
[[noreturn]] void bad_input(fmt::format_string<Args...> f, Args&&... args) {
  throw Error(fmt::format(f, std::forward<Args>(args)...), 2);
}

/// The work failed for a reason outside the input. Exit status 1.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> f, Args&&... args) {
  throw Error(fmt::format(f, std::forward<Args>(args)...), 1);
}

}  // namespace plumb
