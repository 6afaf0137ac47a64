# Uses ccache when it is installed and nobody chose another launcher.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(PLUMB_CCACHE ccache)
  mark_as_advanced(PLUMB_CCACHE)
  if(PLUMB_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${PLUMB_CCACHE}")
  endif()
endif()
