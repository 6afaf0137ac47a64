# The component tables. A family is a folder plumb/F with a header plumb/F/F.h that declares `<F>Entry` and
# `std::vector<<F>Entry> <F>_table();`. Every other plumb/F/*.cpp is one component, and the file's stem is the name of the
# entry that it defines in namespace plumb::entries::F. This writes, per family,
#
#   <build>/generated/plumb/F/table.cpp
#
# with the entries in the order of their names. There is no list to keep in step: adding a file adds the component.

set(PLUMB_FAMILIES norm weight residual position attention ffn init optim fault probe doctor
    instrument)

# Sets `out` in the caller to the generated files.
function(plumb_component_tables out)
  set(generated "")
  foreach(family IN LISTS PLUMB_FAMILIES)
    file(GLOB header CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/plumb/${family}/${family}.h")
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/plumb/${family}/*.cpp")
    if(NOT header)
      continue()
    endif()

    set(stems "")
    foreach(source IN LISTS sources)
      cmake_path(GET source STEM LAST_ONLY stem)
      if(stem STREQUAL family)
        continue()
      endif()
      if(NOT stem MATCHES "^[a-z][a-z0-9_]*$")
        message(FATAL_ERROR "${source}: a component's file is named like its entry, a C++ name in lower case")
      endif()
      list(APPEND stems "${stem}")
    endforeach()
    list(SORT stems)

    string(SUBSTRING "${family}" 0 1 initial)
    string(SUBSTRING "${family}" 1 -1 rest)
    string(TOUPPER "${initial}" initial)
    set(type "${initial}${rest}Entry")

    set(declared "")
    set(listed "")
    foreach(stem IN LISTS stems)
      string(APPEND declared "extern const ${type} ${stem};\n")
      string(APPEND listed "      entries::${family}::${stem},\n")
    endforeach()
    if(stems)
      set(declared "namespace plumb::entries::${family} {\n${declared}}  // namespace plumb::entries::${family}\n\n")
      set(listed "\n${listed}  ")
    endif()

    set(file "${PROJECT_BINARY_DIR}/generated/plumb/${family}/table.cpp")
    file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT [[
// Written by cmake/PlumbTables.cmake from the files of plumb/@family@; not to be edited.
#include "plumb/@family@/@family@.h"

#include <vector>

@declared@namespace plumb {
std::vector<@type@> @family@_table() {
  return {@listed@};
}
}  // namespace plumb
]])
    list(APPEND generated "${file}")
  endforeach()
  set(${out} "${generated}" PARENT_SCOPE)
endfunction()
