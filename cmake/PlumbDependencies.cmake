# What plumb links. Read by plumb's own build and, installed beside plumbConfig.cmake, by projects that use plumb.
# Libraries whose Debian package gives no CMake package, or one that drags in more than plumb uses (oneDNN's asks for
# the OpenCL headers, Highway's for its own test library), are found by header and library name.

include_guard(GLOBAL)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)

function(plumb_find_library target header library package)
  if(TARGET plumb_deps::${target})
    return()
  endif()
  find_path(PLUMB_${target}_INCLUDE_DIR NAMES ${header})
  find_library(PLUMB_${target}_LIBRARY NAMES ${library})
  mark_as_advanced(PLUMB_${target}_INCLUDE_DIR PLUMB_${target}_LIBRARY)
  if(NOT PLUMB_${target}_INCLUDE_DIR OR NOT PLUMB_${target}_LIBRARY)
    message(FATAL_ERROR "plumb needs ${header} and lib${library}: install the package ${package}")
  endif()
  add_library(plumb_deps::${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(plumb_deps::${target} PROPERTIES
    IMPORTED_LOCATION "${PLUMB_${target}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${PLUMB_${target}_INCLUDE_DIR}")
endfunction()

plumb_find_library(dnnl oneapi/dnnl/dnnl.hpp dnnl libdnnl-dev)
plumb_find_library(hwy hwy/highway.h hwy libhwy-dev)
plumb_find_library(utf8proc utf8proc.h utf8proc libutf8proc-dev)
set_target_properties(plumb_deps::hwy PROPERTIES INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE)

# oneDNN's threads are OpenMP's. plumb only calls omp_set_num_threads, so it links the runtime and compiles without
# -fopenmp; the runtime lives in the compiler's own folder, which only the compiler driver knows.
if(NOT TARGET plumb_deps::gomp)
  add_library(plumb_deps::gomp INTERFACE IMPORTED GLOBAL)
  set_target_properties(plumb_deps::gomp PROPERTIES INTERFACE_LINK_LIBRARIES gomp)
endif()
