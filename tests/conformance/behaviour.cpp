// The checks of behaviour: bits, NaN, shape errors.
#include <atomic>
#include <cstring>
#include <limits>

#include "plumb/base/error.h"
#include "tests/conformance/rig.h"

namespace plumb::conformance {
namespace {

// Looks at everything that exists and does nothing.
struct Watcher final : Hook<float> {
  std::atomic<int> looks[2] = {};
  bool wants(std::string_view point, Dir) const override { return !interior(point); }
  void at(std::string_view, Dir dir, View<float>, int) override { ++looks[static_cast<int>(dir)]; }
};

// Puts a NaN into the first element of one point, in the first shard.
struct Poison final : Hook<float> {
  std::string at_point;
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && !interior(point);
  }
  bool rewrites() const override { return true; }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    if (point == at_point && shard == 0) v.data[0] = std::numeric_limits<float>::quiet_NaN();
  }
};

struct Result {
  double loss = 0;
  std::vector<float> grads, states;
};

Result run(Rig<float>& rig) {
  Result r;
  r.loss = rig.loss_and_grad().loss;
  const auto g = rig.plan.grads();
  r.grads.assign(g.begin(), g.end());
  rig.plan.commit();
  r.states.assign(rig.store.states().begin(), rig.store.states().end());
  return r;
}

bool same(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// Where two runs part; empty: nowhere.
std::string parted(const Rig<float>& rig, const Result& a, const Result& b) {
  for (const ParamInfo& p : rig.params())
    for (auto i = static_cast<std::size_t>(p.offset); i < static_cast<std::size_t>(p.offset + p.size()); ++i)
      if (!same({&a.grads[i], 1}, {&b.grads[i], 1}))
        return fmt::format("the gradient of {} is {:.9g} and {:.9g}", p.spec.name, a.grads[i], b.grads[i]);
  if (std::memcmp(&a.loss, &b.loss, sizeof a.loss) != 0)
    return fmt::format("the loss is {:.17g} and {:.17g}", a.loss, b.loss);
  if (!same(a.grads, b.grads)) return "the padding between gradients differs";
  if (!same(a.states, b.states)) return "the saved state differs";
  return {};
}

// A feed-forward branch that writes one channel more than the stream has.
template <class R>
class Wide final : public Ffn<R> {
 public:
  explicit Wide(const DecoderSpec& s) : d_(s.d_model) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return b.linear(x, {name + ".out", {'C', d_ + 1}, Role::ffn_out, false, layer});
  }

 private:
  std::int64_t d_;
};

}  // namespace

std::string check_bits(const Subject& s) {
  constexpr Size size{7, 5};  // shards of 2, 2, 2 and 1
  Rig<float> plain(s, {.size = size});
  const Result want = run(plain);
  auto compare = [&](const std::string& how, const Result& got) {
    const std::string where = parted(plain, want, got);
    return where.empty() ? where : s.text() + ", " + how + ": " + where;
  };
  {
    // The forward results of a second call on the same numbers; state has moved on, training does not read
    // it.
    Result again = run(plain);
    again.states = want.states;
    if (std::string e = compare("called twice", again); !e.empty()) return e;
  }
  for (const int threads : {2, 4})
    for (const int recompute : {0, 1}) {
      Rig<float> rig(s, {.size = size, .threads = threads, .recompute = recompute});
      if (std::string e = compare(fmt::format("{} threads, recompute {}", threads, recompute), run(rig));
          !e.empty())
        return e;
    }
  for (const int recompute : {0, 1}) {
    Watcher hook;
    Rig<float> rig(s, {.size = size, .threads = 2, .recompute = recompute, .hooks = {&hook}});
    if (std::string e = compare(fmt::format("with a hook, recompute {}", recompute), run(rig)); !e.empty())
      return e;
    if (hook.looks[0] == 0 || hook.looks[1] == 0) return s.text() + ": the hook saw nothing";
  }
  return {};
}

std::string check_nan(const Subject& s) {
  Rig<float> rig(s, {});
  const double healthy = rig.loss_and_grad().loss;
  if (!std::isfinite(healthy)) return fmt::format("{}: the loss is {}", s.text(), healthy);
  if (const auto found = rig.plan.first_non_finite(rig.t.x, rig.t.y))
    return fmt::format("{}: all is finite, yet {} is said to be {}", s.text(), found->tensor, found->value);
  const std::vector<float> grads(rig.plan.grads().begin(), rig.plan.grads().end());
  for (const ParamInfo& p : rig.params()) {
    // The element with the largest gradient: one that the loss surely depends on (not every row of a table is
    // read).
    const std::int64_t at = largest(View<const float>{grads.data() + p.offset, 1, p.size(), p.size()});
    float& element = rig.store.view(p).data[at];
    const float kept = element;
    element = std::numeric_limits<float>::quiet_NaN();
    const double loss = rig.loss().loss;
    const auto found = rig.plan.first_non_finite(rig.t.x, rig.t.y);
    // An expert that nobody chose: the loss does not depend on it.
    element = kept + 1;
    const bool unused = grads[static_cast<std::size_t>(p.offset + at)] == 0 && rig.loss().loss == healthy;
    element = kept;
    if (std::isfinite(loss) && !unused)
      return fmt::format("{}: the loss is {} with a NaN in {}[{}]", s.text(), loss, p.spec.name, at);
    if (!found || found->tensor != "parameter " + p.spec.name || found->element != at)
      return fmt::format("{}: a NaN in {}[{}] is found in {}[{}]", s.text(), p.spec.name, at,
                         found ? found->tensor : "nothing", found ? found->element : 0);
  }

  Poison poison;
  Rig<float> poisoned(s, {.hooks = {&poison}});
  for (const ValueInfo& v : poisoned.plan.graph().values)
    for (const std::string& point : v.points) {
      if (interior(point)) continue;
      poison.at_point = point;
      if (const double loss = poisoned.loss().loss; std::isfinite(loss))
        return fmt::format("{}: the loss is {} with a NaN at {}", s.text(), loss, point);
    }
  return {};
}

std::string check_shape_errors(const Subject& s) {
  Components c = *s.components;
  c.ffn.push_back(ffn_entry<Wide>({.name = "wide", .formula = "", .paper = "", .pitfalls = ""}));
  DecoderSpec spec = s.spec;
  spec.ffn.kind = "wide";
  try {
    build_decoder<double>(spec, c, Mode::train, spec.block_size);
  } catch (const Error& e) {
    const std::string text = e.what();
    const bool named = text.starts_with("[") && text.find("] ") != std::string::npos;
    const bool both = text.find("7") != std::string::npos && text.find("C 6") != std::string::npos;
    return named && both ? "" : s.text() + ": the error does not name the op and both sizes: " + text;
  }
  return s.text() + ": a branch of 7 channels on a stream of 6 is accepted";
}

}  // namespace plumb::conformance
