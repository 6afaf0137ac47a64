// A folder for runs that nobody keeps; it is gone with its owner.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <string>

#include "plumb/base/error.h"

namespace plumb {

struct Scratch {
  std::filesystem::path path;
  Scratch() {
    const auto where = std::filesystem::temp_directory_path();
    std::string name = (where / "plumb-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      fail("no folder could be made in {}; set TMPDIR to one that can be written to", where.string());
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

}  // namespace plumb
