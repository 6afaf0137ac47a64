// What differs between two configs, in pieces that can be changed by themselves.
#pragma once
#include <string>
#include <vector>

#include "plumb/config/config.h"
#include "plumb/model/components.h"

namespace plumb {

/// Settings that are changed together: one, or several of which no part is a config by itself.
struct Suspect {
  std::vector<std::string> keys;
  std::vector<std::string> implied;  // settings that differ because of these, and follow them
  std::string refused;               // why several are one: what a config with a part of them is told
};

struct LeftAside {
  std::string key, because;
};

struct Differing {
  Config good, bad;  // not resolved: what is implied is left to follow
  std::vector<Suspect> suspects;
  std::vector<LeftAside> left_aside;
};

/// Compares the resolved configs. What cannot change the loss of runs of `steps` steps is left aside, and so are the
/// settings of [data], as losses of different texts cannot be held against each other: all runs read what `good` reads.
/// bad_input when nothing else differs, or for a config that is refused.
Differing differing_settings(const Config& good, const Config& bad, std::int64_t steps, const Components&);

/// `good` with the settings of these suspects as `bad` has them.
Config with_bad(const Differing&, const std::vector<std::size_t>& suspects);

/// Why there is no such model; empty: there is.
std::string refusal(const Config&, const Components&);

/// A setting's value as TOML; "unset" where it follows from others.
std::string value_text(const Config&, const std::string& key);

}  // namespace plumb
