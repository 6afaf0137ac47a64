// An environment variable that a test sets.
#pragma once
#include <cstdlib>
#include <string>
#include <utility>

namespace plumb::test {

/// Put back when the test ends.
class Variable {
 public:
  explicit Variable(std::string name) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old, had_ = true;
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (had_)
      ::setenv(name_.c_str(), old_.c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }
  void set(const std::string& value) const { ::setenv(name_.c_str(), value.c_str(), 1); }
  void unset() const { ::unsetenv(name_.c_str()); }

 private:
  std::string name_, old_;
  bool had_ = false;
};

}  // namespace plumb::test
