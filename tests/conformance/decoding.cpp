// The checks of what a position sees: nothing later than itself, and the same one at a time as all at once.
#include <cmath>

#include "plumb/base/error.h"
#include "tests/conformance/rig.h"

namespace plumb::conformance {
namespace {

struct Logits final : Hook<double> {
  std::vector<double> rows;
  bool wants(std::string_view point, Dir dir) const override {
    return point == "logits" && dir == Dir::forward;
  }
  void at(std::string_view, Dir, View<double> v, int shard) override {
    if (shard != 0) return;
    rows.clear();
    for (std::int64_t i = 0; i < v.rows; ++i) rows.insert(rows.end(), v.row(i), v.row(i) + v.cols);
  }
};

/// The same model, decoding: parameters copied, saved state by name.
struct Decoding {
  ParamStore<double> store;
  Logits logits;
  std::array<Hook<double>*, 1> hooks{&logits};
  Plan<double> plan;

  Decoding(const Rig<double>& trained, const Components& c, std::int64_t context)
      : store(decoder_layout<double>(trained.spec, c, context), 0),
        plan(make_plan<double>(trained.spec, c, store,
                               {.mode = Mode::eval, .batch = 1, .block = 1, .context = context}, pool(1),
                               hooks)) {
    std::ranges::copy(trained.store.values(), store.values().begin());
    for (const StateInfo& s : trained.store.layout().states)
      for (const StateInfo& t : store.layout().states)
        if (s.spec.saved && t.spec.name == s.spec.name)
          std::copy_n(trained.store.view(s).data, trained.store.view(s).size(), store.view(t).data);
  }
};

}  // namespace

std::string check_causality(const Subject& s) {
  Logits logits;
  Rig<double> rig(s, {.size = {1, 5}, .hooks = {&logits}});
  rig.loss();
  const std::vector<double> before = logits.rows;
  std::int32_t& last = rig.t.x.back();
  last = static_cast<std::int32_t>((last + 1) % rig.spec.vocab_size);
  rig.loss();
  const auto n = static_cast<std::ptrdiff_t>(before.size() / 5 * 4);
  const bool same = std::equal(before.begin(), before.begin() + n, logits.rows.begin());
  if (std::equal(before.begin() + n, before.end(), logits.rows.begin() + n))
    return "the last token does not change its own logits";
  if (rig.plan.graph().sees_future())
    return same ? "an op says that it sees the future, but another last token changes nothing before it" : "";
  return same ? "" : "another last token changes logits before it, and no op says so";
}

std::string check_decoding(const Subject& s) {
  constexpr std::int64_t length = 5;
  Logits full;
  Rig<double> all(s, {.size = {1, length}, .mode = Mode::eval, .hooks = {&full}});
  const auto refused = [&]() -> std::string {
    try {
      decoder_layout<double>(all.spec, *s.components, length);
      return {};
    } catch (const Error& e) {
      return e.what();
    }
  }();
  if (!refused.empty())
    return all.plan.graph().sees_future() ? "" : "no op sees the future, but decoding is refused: " + refused;
  Decoding one(all, *s.components, length);
  double worst = 0;
  for (std::int64_t n = 1; n <= length; ++n) {
    // A sequence of n by itself: what dynamic NTK does depends on the length.
    Rig<double> whole(s, {.size = {1, n}, .mode = Mode::eval, .hooks = {&full}});
    std::ranges::copy(all.store.values(), whole.store.values().begin());
    std::ranges::copy(all.t.x.begin(), all.t.x.begin() + n, whole.t.x.begin());
    whole.loss();
    const auto token = all.t.x[static_cast<std::size_t>(n - 1)];
    const auto ignored = static_cast<std::int32_t>(all.spec.ignore_index);
    one.plan.loss({&token, 1}, {&ignored, 1}, {.position = n - 1});
    const std::size_t v = one.logits.rows.size(), at = full.rows.size() - v;
    for (std::size_t i = 0; i < v; ++i) {
      const double a = one.logits.rows[i], b = full.rows[at + i],
                   off = std::abs(a - b) / std::max(1.0, std::abs(b));
      if (!(off <= worst)) worst = off;
    }
    if (!(worst <= 1e-10))
      return fmt::format("logits of position {} are {:.1e} off those of the whole sequence", n - 1, worst);
  }
  return {};
}

}  // namespace plumb::conformance
