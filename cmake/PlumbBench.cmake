# plumb_bench: our timings. Built only where bench/ holds sources and Google Benchmark is installed.
file(GLOB plumb_bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
if(NOT plumb_bench_sources)
  return()
endif()
find_package(benchmark QUIET)
if(NOT benchmark_FOUND)
  message(STATUS "plumb_bench is left out: Google Benchmark (libbenchmark-dev) is not installed")
  return()
endif()
list(SORT plumb_bench_sources)
add_executable(plumb_bench ${plumb_bench_sources})
target_link_libraries(plumb_bench PRIVATE
  plumb plumb_flags plumb_deps::dnnl plumb_deps::gomp plumb_deps::hwy fmt::fmt Threads::Threads
  benchmark::benchmark benchmark::benchmark_main)
