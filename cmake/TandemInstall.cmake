# Installs the libraries, their public headers, the programs, and what find_package(Tandem) reads.
#
# Kernels' own headers (folders named cpu and cuda) stay behind: they may show Eigen's types, whose layout follows -march, and a
# user would need oneDNN's headers. So do those of the folder mpi. Eigen and nlohmann-json are compiled in; what a user must
# still link is in tandem-config.cmake.in.
include(CMakePackageConfigHelpers)

get_property(folders GLOBAL PROPERTY TANDEM_FOLDERS)
list(TRANSFORM folders PREPEND tandem_ OUTPUT_VARIABLE libraries)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tandem)

install(TARGETS ${libraries} EXPORT TandemTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT TandemTargets NAMESPACE Tandem:: DESTINATION ${package_dir})
foreach(folder IN LISTS folders)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder}
    FILES_MATCHING PATTERN "*.h" PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE PATTERN "mpi" EXCLUDE)
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandem-config.cmake.in ${PROJECT_BINARY_DIR}/TandemConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TandemConfig.cmake ${PROJECT_BINARY_DIR}/TandemConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindUtf8proc.cmake DESTINATION ${package_dir})

if(TANDEM_BUILD_TOOLS)
  # A folder's property knows its own targets alone, and each program has a folder.
  get_property(tool_folders DIRECTORY ${PROJECT_SOURCE_DIR}/tools PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS tool_folders)
    get_property(tools DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(tool IN LISTS tools)
      get_target_property(type ${tool} TYPE)
      if(type STREQUAL "EXECUTABLE")
        install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
      endif()
    endforeach()
  endforeach()
endif()
