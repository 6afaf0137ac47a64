// Parts that the architecture or its config asks for and that are missing, of another size, or too many.
#pragma once
#include <string>
#include <vector>

#include "plumb/interop/subject.h"

namespace plumb {

/// Full sentences. Nothing is missing in one shard of several.
std::vector<std::string> part_warnings(const Subject& s);

}  // namespace plumb
