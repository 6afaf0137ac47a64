#include "plumb/tensor/shape.h"

namespace plumb {

std::string Shape::text() const {
  std::string s = "(";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i) s += ", ";
    const Dim& d = dims[i];
    if (d.name == 'B') {
      s += "B";
    } else {
      if (d.name != '1') s += std::string(1, d.name) + " ";
      s += std::to_string(d.n);
    }
  }
  return s + ")";
}

}  // namespace plumb
