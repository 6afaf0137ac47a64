// The checks of what a position sees: nothing later than itself, and the same one at a time as all at once.
#include "plumb/study/sight.h"
#include "tests/conformance/rig.h"

namespace plumb::conformance {

std::string check_causality(const Subject& s) {
  Rig<double> rig(s, {.size = {1, 5}});
  const Sight seen = sight_of(rig.spec, *s.components, rig.store, rig.t.x);
  if (!seen.own) return "the last token does not change its own logits";
  if (seen.said == seen.earlier) return "";
  return seen.said ? "an op says that it sees the future, but another last token changes nothing before it"
                   : "another last token changes logits before it, and no op says so";
}

std::string check_decoding(const Subject& s) {
  Rig<double> rig(s, {.size = {1, 5}, .mode = Mode::eval});
  const CacheCheck c = check_cache(rig.spec, *s.components, rig.store, rig.t.x);
  if (!c.refused.empty()) return c.may_refuse ? "" : "no op sees the future, but decoding is refused: " + c.refused;
  if (c.worst <= 1e-10) return "";
  return fmt::format("logits of position {} are {:.1e} off those of the whole sequence", c.at, c.worst);
}

}  // namespace plumb::conformance
