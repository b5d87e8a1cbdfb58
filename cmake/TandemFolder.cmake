# Compile flags that every target of ours shares. psabi: how vectors are returned depends on -march, but ours stay within
# a source file.
add_library(tandem_flags INTERFACE)
target_compile_options(tandem_flags INTERFACE -Wall -Wextra -Wpedantic -Wno-psabi -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<BOOL:${TANDEM_WERROR}>:-Werror> $<$<BOOL:${TANDEM_NATIVE}>:-march=native>)
if(TANDEM_SANITIZE STREQUAL "address")
  set(TANDEM_SANITIZER_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(TANDEM_SANITIZE STREQUAL "thread")
  set(TANDEM_SANITIZER_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
elseif(TANDEM_SANITIZE)
  message(FATAL_ERROR "TANDEM_SANITIZE=${TANDEM_SANITIZE}: use address, thread, or leave it empty")
endif()
target_compile_options(tandem_flags INTERFACE ${TANDEM_SANITIZER_FLAGS})
target_link_options(tandem_flags INTERFACE ${TANDEM_SANITIZER_FLAGS})

# Sources include "tandem/core/tensor.h", in the build tree as after installation: links stand in for the installed folder.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include/tandem)

# tandem_folder(NAME LINKS OTHER...): the library of one top-level folder, with all its sources.
function(tandem_folder name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${name} ${CMAKE_BINARY_DIR}/include/tandem/${name} SYMBOLIC)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  add_library(tandem_${name} STATIC ${sources})
  add_library(Tandem::${name} ALIAS tandem_${name})
  set_target_properties(tandem_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY TANDEM_FOLDERS ${name})
  target_compile_features(tandem_${name} PUBLIC cxx_std_20)
  target_include_directories(tandem_${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(tandem_${name} PRIVATE $<BUILD_INTERFACE:tandem_flags>)
  foreach(link IN LISTS ARG_LINKS)
    target_link_libraries(tandem_${name} PUBLIC tandem_${link})
  endforeach()
endfunction()
