# One executable of all tests under tests/ (tests/consumer is a project of its own). `ctest` runs it in shards; a suite
# whose name begins with Slow is left out there and runs with `ctest -C Slow` or `./test --all`.

file(GLOB_RECURSE plumb_test_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*.cpp")
list(FILTER plumb_test_sources EXCLUDE REGEX "/tests/consumer/")
if(NOT plumb_test_sources)
  return()
endif()
list(SORT plumb_test_sources)

find_package(GTest REQUIRED)
enable_testing()
add_executable(plumb_tests ${plumb_test_sources})
# The tests' own code need not be fast, and a failure names its line without debug information; what they test is compiled as ever.
# It compiles a third faster so.
target_compile_options(plumb_tests PRIVATE -O1)
if(NOT PLUMB_SANITIZE)  # whose reports name lines
  target_compile_options(plumb_tests PRIVATE -g0)
endif()
target_link_libraries(plumb_tests PRIVATE
  plumb plumb_flags plumb_deps::dnnl plumb_deps::gomp plumb_deps::hwy plumb_deps::utf8proc fmt::fmt OpenSSL::Crypto
  Threads::Threads GTest::gtest_main)
plumb_precompile(plumb_tests <gtest/gtest.h>)
target_compile_definitions(plumb_tests PRIVATE
  PLUMB_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  PLUMB_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
if(TARGET plumb_cli)
  target_compile_definitions(plumb_tests PRIVATE PLUMB_CLI="$<TARGET_FILE:plumb_cli>")
  add_dependencies(plumb_tests plumb_cli)
endif()

set(plumb_test_shards 4)
math(EXPR last "${plumb_test_shards} - 1")
foreach(shard RANGE ${last})
  add_test(NAME plumb_tests_${shard} COMMAND plumb_tests --gtest_filter=-Slow*)
  add_test(NAME plumb_slow_tests_${shard} COMMAND plumb_tests --gtest_filter=Slow* CONFIGURATIONS Slow)
  foreach(test plumb_tests_${shard} plumb_slow_tests_${shard})
    set_tests_properties(${test} PROPERTIES
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${plumb_test_shards};GTEST_SHARD_INDEX=${shard}" TIMEOUT 1800)
  endforeach()
endforeach()
