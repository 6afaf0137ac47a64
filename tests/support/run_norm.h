// Runs a norm of the table by itself, in double, on rows of numbers.
#pragma once
#include <string>
#include <vector>

namespace plumb::test {

/// y of the norm called `name` with its initial parameters, on one row.
std::vector<double> run_norm(const std::string& name, double eps, const std::vector<double>& row);

}  // namespace plumb::test
