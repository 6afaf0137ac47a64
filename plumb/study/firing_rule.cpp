#include "plumb/study/firing_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/char_class.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

using Kind = FiringRule::Kind;

// What a rule calls the characters of a class.
constexpr std::string_view plural[] = {
    "upper-case letters", "lower-case letters", "letters without case", "digits", "spaces",
    "punctuation",        "line ends",          "other characters"};
static_assert(std::size(plural) == char_class_names.size());
constexpr auto n_class = static_cast<std::int64_t>(std::size(plural));

}  // namespace

FiringRules::FiringRules(std::vector<TokenPlace> places, const CharTokenizer& t, std::int64_t block)
    : places_(std::move(places)), vocab_(t.vocab_size()), block_(block) {
  build(t);
  for (const TokenPlace& p : places_) {
    ++n_[p.held_out];
    each_rule(p, [&](std::int64_t rule) { ++rules_[static_cast<std::size_t>(rule)].holds[p.held_out]; });
  }
}

void FiringRules::build(const CharTokenizer& t) {
  std::vector<std::string> names;
  for (std::int32_t id = 0; id < vocab_; ++id) {
    const std::u32string c = utf8_decode(t.decode({&id, 1}), "a token");
    class_.push_back(static_cast<std::int32_t>(class_of(c.front())));
    vowel_.push_back(is_vowel(c.front()));
    opening_.push_back(is_opening(c.front()));
    names.push_back(c == U"\n" ? "line ends" : fmt::format("'{}'", visible(c)));
  }
  const auto add = [&](Kind kind, std::string words) { rules_.push_back({kind, std::move(words)}); };
  for (const std::string& n : names) add(Kind::on_token, "on " + n);
  for (const std::string& n : names) add(Kind::after_token, "after " + n);
  for (const std::string_view n : plural) add(Kind::on_class, fmt::format("on {}", n));
  for (const std::string_view n : plural) add(Kind::after_class, fmt::format("after {}", n));
  add(Kind::on_class, "on vowels");
  add(Kind::on_class, "on opening brackets");
  add(Kind::position, "at the first position");
  for (const char* part : {"in the first quarter of the sequence", "early in the sequence",
                           "late in the sequence", "in the last quarter of the sequence"})
    add(Kind::position, part);
}

// f(rule) for each that holds at the place. Numbers are those of `build`.
template <class F>
void FiringRules::each_rule(const TokenPlace& p, const F& f) const {
  const std::int64_t classes = 2 * vocab_, extra = classes + 2 * n_class;
  const auto class_at = [&](std::int32_t token) { return class_[static_cast<std::size_t>(token)]; };
  f(p.token);
  f(classes + class_at(p.token));
  if (vowel_[static_cast<std::size_t>(p.token)]) f(extra);
  if (opening_[static_cast<std::size_t>(p.token)]) f(extra + 1);
  if (p.before >= 0) {
    f(vocab_ + p.before);
    f(classes + n_class + class_at(p.before));
  }
  if (p.position == 0) f(extra + 2);
  if (4 * p.position < block_) f(extra + 3);
  f(2 * p.position < block_ ? extra + 4 : extra + 5);
  if (4 * p.position >= 3 * block_) f(extra + 6);
}

std::optional<FiringRule> FiringRules::best(const std::vector<bool>& fires) const {
  std::vector<std::int64_t> hits[2];
  std::int64_t firings[2] = {0, 0};
  for (auto& h : hits) h.assign(rules_.size(), 0);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!fires[i]) continue;
    const bool part = places_[i].held_out;
    ++firings[part];
    each_rule(places_[i], [&](std::int64_t rule) { ++hits[part][static_cast<std::size_t>(rule)]; });
  }
  if (std::min(firings[0], firings[1]) < least_firings) return std::nullopt;
  const auto share = [](std::int64_t a, std::int64_t b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
  };
  const auto measured = [&](std::size_t i, bool part) {
    const Rule& r = rules_[i];
    return FiringRule{r.kind, r.words, share(hits[part][i], firings[part]),
                      share(hits[part][i], r.holds[part]), share(r.holds[part], n_[part])};
  };
  const auto enough = [](const FiringRule& r) { return r.lift() >= least_lift && r.recall >= least_recall; };
  std::optional<std::size_t> chosen;
  double most = 0;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (hits[0][i] == 0 || rules_[i].holds[0] == n_[0]) continue;
    const double f1 = share(2 * hits[0][i], firings[0] + rules_[i].holds[0]);
    // Of equals the first: a token, not the kind that has no other.
    if (f1 > most && enough(measured(i, false))) most = f1, chosen = i;
  }
  if (!chosen || rules_[*chosen].holds[1] == n_[1]) return std::nullopt;
  const FiringRule rule = measured(*chosen, true);
  if (!enough(rule)) return std::nullopt;
  return rule;
}

}  // namespace plumb
