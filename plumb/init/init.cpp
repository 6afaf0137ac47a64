// What init rules share.
#include "plumb/init/init.h"

#include <cmath>

namespace plumb {

ParamRule drawn(const DecoderSpec& s, double std) {
  if (s.init.distribution == "uniform") return {ParamRule::Kind::uniform, std::sqrt(3.0) * std};
  return {ParamRule::Kind::normal, std};
}

}  // namespace plumb
