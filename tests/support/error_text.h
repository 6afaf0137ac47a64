// The sentence that a call throws, so that a test can compare it whole.
#pragma once
#include <string>

#include "plumb/base/error.h"

namespace plumb::test {

/// The text of the plumb::Error that `call` throws; "(no error)" when it throws none. Its exit code goes to
/// `exit_code`.
template <class Call>
std::string error_text(Call call, int* exit_code = nullptr) {
  try {
    call();
  } catch (const Error& e) {
    if (exit_code != nullptr) *exit_code = e.exit_code;
    return e.what();
  }
  return "(no error)";
}

}  // namespace plumb::test
