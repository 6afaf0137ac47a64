# `cmake --install`: the command, the library, its headers and the package for find_package(plumb).
include(CMakePackageConfigHelpers)
set(plumb_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/plumb")

target_sources(plumb PUBLIC
  FILE_SET headers TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${plumb_headers})

install(TARGETS plumb EXPORT plumbTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET headers DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_BINARY_DIR}/generated/plumb/version.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/plumb")
if(TARGET plumb_cli)
  install(TARGETS plumb_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(EXPORT plumbTargets NAMESPACE plumb:: DESTINATION "${plumb_package_dir}")

configure_package_config_file(cmake/plumbConfig.cmake.in plumbConfig.cmake INSTALL_DESTINATION "${plumb_package_dir}")
write_basic_package_version_file(plumbConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/plumbConfig.cmake" "${PROJECT_BINARY_DIR}/plumbConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/PlumbDependencies.cmake"
  DESTINATION "${plumb_package_dir}")
