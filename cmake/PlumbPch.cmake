# Precompiled headers of the standard library (and of GoogleTest for the tests): a first build takes a fifth less time. Not
# together with ccache, which would have to be told to trust them; there a second build gains more than a first one loses.
option(PLUMB_PCH "Precompile headers of the standard library, where no compiler launcher is used" ON)

set(plumb_pch_headers <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <limits> <map> <memory> <optional>
  <span> <string> <string_view> <variant> <vector> <fmt/format.h>)

# plumb_precompile(TARGET [HEADER…])
function(plumb_precompile target)
  if(PLUMB_PCH AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} PRIVATE ${plumb_pch_headers} ${ARGN})
  endif()
endfunction()
