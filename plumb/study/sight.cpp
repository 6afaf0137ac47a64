#include "plumb/study/sight.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"
#include "plumb/plan/graph.h"

namespace plumb {
namespace {

using Ids = std::span<const std::int32_t>;

struct Logits final : Hook<double> {
  std::vector<double> rows;
  bool wants(std::string_view point, Dir dir) const override { return point == "logits" && dir == Dir::forward; }
  void at(std::string_view, Dir, View<double> v, int) override {
    rows.clear();
    for (std::int64_t i = 0; i < v.rows; ++i) rows.insert(rows.end(), v.row(i), v.row(i) + v.cols);
  }
};

// A plan for one sequence, and its logits.
class Pass {
 public:
  Pass(const DecoderSpec& s, const Components& c, ParamStore<double>& store, const PlanOptions& o)
      : ignored_(static_cast<std::int32_t>(s.ignore_index)), plan_(make_plan<double>(s, c, store, o, pool_, hooks_)) {}
  const std::vector<double>& operator()(Ids x, std::int64_t position = 0) {
    plan_.loss(x, std::vector<std::int32_t>(x.size(), ignored_), {.position = position});
    return logits_.rows;
  }
  bool sees_future() const { return plan_.graph().sees_future(); }

 private:
  std::int32_t ignored_;
  ThreadPool pool_{1};
  Logits logits_;
  std::array<Hook<double>*, 1> hooks_{&logits_};
  Plan<double> plan_;
};

PlanOptions whole(Mode mode, Ids tokens) {
  return {.mode = mode, .batch = 1, .block = static_cast<std::int64_t>(tokens.size())};
}

std::string refusal_of_decoding(const DecoderSpec& s, const Components& c, std::int64_t length) {
  try {
    decoder_layout<double>(s, c, length);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

std::vector<double> logits_of(const DecoderSpec& s, const Components& c, ParamStore<double>& store, Ids tokens, Mode mode) {
  return Pass(s, c, store, whole(mode, tokens))(tokens);
}

Sight sight_of(const DecoderSpec& s, const Components& c, ParamStore<double>& store, Ids tokens) {
  Pass pass(s, c, store, whole(Mode::train, tokens));
  const std::vector<double> before = pass(tokens);
  std::vector<std::int32_t> other(tokens.begin(), tokens.end());
  other.back() = static_cast<std::int32_t>((other.back() + 1) % s.vocab_size);
  const std::vector<double>& after = pass(other);
  const auto last = static_cast<std::ptrdiff_t>(before.size() - static_cast<std::size_t>(s.vocab_size));
  return {.own = !std::equal(before.begin() + last, before.end(), after.begin() + last),
          .earlier = !std::equal(before.begin(), before.begin() + last, after.begin()),
          .said = pass.sees_future()};
}

CacheCheck check_cache(const DecoderSpec& s, const Components& c, ParamStore<double>& store, Ids tokens) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  CacheCheck result;
  result.may_refuse = Pass(s, c, store, whole(Mode::eval, tokens)).sees_future();
  result.refused = refusal_of_decoding(s, c, length);
  if (!result.refused.empty()) return result;
  ParamStore<double> decoding(decoder_layout<double>(s, c, length), 0);
  std::ranges::copy(store.values(), decoding.values().begin());
  for (const StateInfo& from : store.layout().states)
    for (const StateInfo& to : decoding.layout().states)
      if (from.spec.saved && to.spec.name == from.spec.name)
        std::copy_n(store.view(from).data, store.view(from).size(), decoding.view(to).data);
  Pass one(s, c, decoding, {.mode = Mode::eval, .batch = 1, .block = 1, .context = length});
  for (std::int64_t n = 1; n <= length; ++n) {
    // A sequence of n by itself: what dynamic NTK does depends on the length.
    const Ids begin = tokens.first(static_cast<std::size_t>(n));
    const std::vector<double> all = logits_of(s, c, store, begin);
    const std::vector<double>& row = one(begin.last(1), n - 1);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double want = all[all.size() - row.size() + i], off = std::abs(row[i] - want) / std::max(1.0, std::abs(want));
      if (!(off <= result.worst)) result.worst = off, result.at = n - 1;
    }
  }
  return result;
}

}  // namespace plumb
