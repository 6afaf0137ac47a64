#include "plumb/base/precision.h"

#include "plumb/base/error.h"

namespace plumb {

Precision precision_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(precision_names); ++i)
    if (precision_names[i] == name) return static_cast<Precision>(i);
  fail("[precision] '{}' is no number format", name);
}

}  // namespace plumb
