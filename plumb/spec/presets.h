// Configs to start from: only the differences from the defaults.
#pragma once
#include <span>
#include <string_view>

#include "plumb/config/config.h"

namespace plumb {

struct Preset {
  std::string_view name, about;
  std::string_view toml;
};

std::span<const Preset> presets();

/// The preset's config. bad_input for an unknown name, with the nearest known.
Config preset_config(std::string_view name);

}  // namespace plumb
