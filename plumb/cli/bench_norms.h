// The benchmark of the norms; bench.cpp holds the command.
#pragma once
#include "plumb/base/threads.h"

namespace plumb::cli {

/// Times every norm of the table forward and backward at three sizes beside copying; prints a table, or one
/// JSON object.
int bench_norms(int rounds, bool json, bool quiet, ThreadPool& pool);

}  // namespace plumb::cli
