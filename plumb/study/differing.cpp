#include "plumb/study/differing.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/model/decoder.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/short_run.h"
#include "plumb/train/trainer.h"

namespace plumb {
namespace {

using Places = std::vector<std::size_t>;

FieldValue value_of(const Config& c, const std::string& key) { return config_field(key, "differing").get(c); }

void take(Config& to, const Config& from, const std::string& key) {
  config_field(key, "differing").set(to, value_of(from, key));
  to.places.erase(key);
  if (from.given(key)) to.places[key] = from.where(key);
}

// A setting that is the same in both stays so, whatever implied it in one of them.
void hold(Differing& d, const Config& resolved, const Field<Config>& f) {
  const FieldValue value = f.get(resolved);
  const std::string key = f.path();
  const bool followed = f.get(d.good) != value || f.get(d.bad) != value;
  const std::string place = d.good.given(key) ? d.good.where(key) : d.bad.where(key);
  if (followed || d.good.given(key) || d.bad.given(key)) d.good.places[key] = d.bad.places[key] = place;
  f.set(d.good, value);
  f.set(d.bad, value);
}

std::string why_aside(const Field<Config>& f) {
  if (changes_no_bit(f.path())) return "changes no bit of a run";
  if (f.section == "probe" || f.path() == "train.eval_every")
    return "says when a run is measured, and not how it trains";
  if (f.path() == "train.seed") return "every config is run from the same seeds";
  if (f.section == "data")
    return "losses of different texts cannot be held against each other; every run reads what the good one "
           "reads";
  return {};
}

// Settings that are as they are in both because of others: left out, they have the same values again.
std::vector<std::string> take_implied_out(Differing& d, std::vector<std::string>& keys) {
  const Config good = resolve_config(d.good), bad = resolve_config(d.bad), defaults;
  std::vector<std::string> implied;
  for (const std::string& key : keys) {
    Config g = d.good, b = d.bad;
    take(g, defaults, key);
    take(b, defaults, key);
    try {
      if (value_of(resolve_config(g), key) != value_of(good, key) ||
          value_of(resolve_config(b), key) != value_of(bad, key))
        continue;
    } catch (const Error&) {
      continue;  // what follows from the others is no config
    }
    d.good = g, d.bad = b;
    implied.push_back(key);
  }
  std::erase_if(keys, [&](const std::string& k) { return std::ranges::find(implied, k) != implied.end(); });
  return implied;
}

// The suspect that brings `key` with it: `good` with it, or `bad` without it, has another value there.
std::size_t bearer_of(const Differing& d, const std::string& key) {
  for (std::size_t i = 0; i < d.suspects.size(); ++i) {
    Config g = d.good, b = d.bad;
    for (const std::string& k : d.suspects[i].keys) take(g, d.bad, k), take(b, d.good, k);
    for (const auto& [mixed, whole] : {std::pair{&g, &d.good}, {&b, &d.bad}}) {
      try {
        if (value_of(resolve_config(*mixed), key) != value_of(resolve_config(*whole), key)) return i;
      } catch (const Error&) {
        continue;
      }
    }
  }
  return 0;
}

// The same with all others mended: `bad` with only these as `good` has them.
Places others(const Differing& d, const Places& these) {
  Places all(d.suspects.size()), rest;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::ranges::set_difference(all, these, std::back_inserter(rest));
  return rest;
}

std::string refused_in_part(const Differing& d, const Places& these, const Components& c) {
  std::string why = refusal(with_bad(d, these), c);
  return why.empty() ? refusal(with_bad(d, others(d, these)), c) : why;
}

void join(Differing& d, const Places& these, const std::string& why) {
  Suspect whole{{}, {}, why};
  for (const std::size_t i : these)
    whole.keys.insert(whole.keys.end(), d.suspects[i].keys.begin(), d.suspects[i].keys.end());
  for (auto i = these.rbegin(); i != these.rend(); ++i)
    d.suspects.erase(d.suspects.begin() + static_cast<std::ptrdiff_t>(*i));
  d.suspects.insert(d.suspects.begin() + static_cast<std::ptrdiff_t>(these.front()), std::move(whole));
}

// Joins the first suspect that is refused by itself with as few others as make it a config; false: none is refused.
bool join_one(Differing& d, const Components& c) {
  const std::size_t n = d.suspects.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::string why = refused_in_part(d, {i}, c);
    if (why.empty()) continue;
    for (std::size_t j = 0; j < n; ++j)
      if (const Places two{std::min(i, j), std::max(i, j)}; j != i && refused_in_part(d, two, c).empty())
        return join(d, two, why), true;
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = j + 1; k < n; ++k) {
        Places three{i, j, k};
        std::ranges::sort(three);
        if (j != i && k != i && refused_in_part(d, three, c).empty()) return join(d, three, why), true;
      }
    return join(d, others(d, {}), why), true;  // all of them: `bad` itself
  }
  return false;
}

bool same_runs(const Config& a, const Config& b, std::int64_t steps, const Components& c) {
  return refusal(a, c).empty() && refusal(b, c).empty() &&
         dump_toml(resolve_config(shortened_to(a, steps)), false) ==
             dump_toml(resolve_config(shortened_to(b, steps)), false);
}

// Settings that runs so short do not notice: a schedule's length without a warm-up.
void put_idle_aside(Differing& d, std::int64_t steps, const Components& c) {
  for (std::size_t i = d.suspects.size(); i-- > 0;)
    if (same_runs(with_bad(d, {i}), d.good, steps, c) &&
        same_runs(with_bad(d, others(d, {i})), d.bad, steps, c)) {
      for (const std::string& key : d.suspects[i].keys) {
        d.left_aside.push_back({key, fmt::format("changes nothing in runs of {} steps", steps)});
        take(d.bad, d.good, key);
      }
      d.suspects.erase(d.suspects.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

}  // namespace

std::string refusal(const Config& c, const Components& components) {
  try {
    check_spec(spec_of(c, c.data.vocab_size, components), components);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

Config with_bad(const Differing& d, const std::vector<std::size_t>& suspects) {
  Config c = d.good;
  for (const std::size_t i : suspects)
    for (const std::string& key : d.suspects[i].keys) take(c, d.bad, key);
  return c;
}

std::string value_text(const Config& c, const std::string& key) {
  const std::string text = field_text(value_of(c, key));
  return text.empty() ? "unset" : text;
}

Differing differing_settings(const Config& good, const Config& bad, std::int64_t steps,
                             const Components& components) {
  for (const Config* c : {&good, &bad}) check_spec(spec_of(*c, c->data.vocab_size, components), components);
  Differing d{good, bad, {}, {}};
  const Config g = resolve_config(good), b = resolve_config(bad);
  std::vector<std::string> keys;
  for (const Field<Config>& f : config_fields()) {
    if (f.get(g) == f.get(b)) {
      hold(d, g, f);
      continue;
    }
    if (const std::string why = why_aside(f); !why.empty()) {
      d.left_aside.push_back({f.path(), why});
      take(d.bad, d.good, f.path());
    } else {
      keys.push_back(f.path());
    }
  }
  const std::vector<std::string> implied = take_implied_out(d, keys);
  for (const std::string& key : keys) d.suspects.push_back({{key}, {}, {}});
  if (const std::string why = refusal(d.bad, components); !why.empty())
    bad_input("the bad config cannot read what the good one reads: {}; give both the same [data]", why);
  put_idle_aside(d, steps, components);
  if (d.suspects.empty()) {
    std::vector<std::string> aside;
    for (const LeftAside& a : d.left_aside) aside.push_back(a.key);
    bad_input("{}; name two configs that differ in how they train",
              aside.empty()
                  ? "the two configs are the same"
                  : "the two configs differ in nothing that can change the loss, but in " + join(aside));
  }
  while (join_one(d, components)) {
  }
  for (const std::string& key : implied) d.suspects[bearer_of(d, key)].implied.push_back(key);
  return d;
}

}  // namespace plumb
