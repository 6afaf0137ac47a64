# The flags that plumb's own code is compiled with (never passed on to a project that uses plumb).
#   -ffp-contract=off   g++ joins a*b+c into one rounding by default; the same bits on every build need it off.
#                       For the same reason there is no -ffast-math and no -march=native here: wide instructions come
#                       from Highway and oneDNN, which choose them at run time.
#   HWY_DISABLED_TARGETS  Highway compiles every SIMD file once per target; plumb keeps SSE4, AVX2 and AVX3 (AVX-512)
#                       beside the scalar fallback, which Highway itself needs as its baseline.

add_library(plumb_flags INTERFACE)
target_compile_options(plumb_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wconversion
  "$<$<BOOL:${PLUMB_WERROR}>:-Werror>")
# Under a sanitizer one target beside the fallback is enough, and takes a fifth of the time.
if(PLUMB_SANITIZE)
  set(plumb_no_targets "HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL")
else()
  set(plumb_no_targets "HWY_SSSE3|HWY_AVX3_DL")
endif()
target_compile_definitions(plumb_flags INTERFACE "HWY_DISABLED_TARGETS=(${plumb_no_targets})")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(PLUMB_SANITIZE)
  target_compile_options(plumb_flags INTERFACE "-fsanitize=${PLUMB_SANITIZE}" -fno-omit-frame-pointer)
  target_link_options(plumb_flags INTERFACE "-fsanitize=${PLUMB_SANITIZE}")
  if(PLUMB_SANITIZE MATCHES undefined)
    target_compile_options(plumb_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
