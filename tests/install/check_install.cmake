# Installs the build tree into an empty prefix, then configures, builds and runs the outside project of this folder against it.
# Variables: build (the build tree), generator, compiler, snippets (README's), build_type, flags (the sanitizer's, which a user of such libraries needs).
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(work ${build}/install_test)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "exit ${code} of: ${command}\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${build} --prefix ${prefix})

foreach(program train launch predict bench tokenize)
  if(NOT EXISTS ${prefix}/bin/${program})
    message(FATAL_ERROR "the program ${program} was not installed into ${prefix}/bin")
  endif()
endforeach()

file(GLOB_RECURSE headers ${prefix}/include/*)
if(NOT headers)
  message(FATAL_ERROR "no header was installed under ${prefix}/include")
endif()
foreach(header IN LISTS headers)
  if(header MATCHES "/(cpu|cuda)/")
    message(FATAL_ERROR "a kernel's own header was installed: ${header}")
  endif()
  file(STRINGS ${header} lines REGEX "Eigen/|Eigen::|dnnl")
  if(lines)
    message(FATAL_ERROR "an installed header shows Eigen or oneDNN: ${header}: ${lines}")
  endif()
endforeach()

# The package must not ask for what only the build needs, nor lead back to the tree that it was built in.
file(GLOB_RECURSE package_files ${prefix}/*.cmake)
foreach(file IN LISTS package_files)
  file(STRINGS ${file} lines REGEX "Eigen3::|nlohmann|tandem_flags")
  if(lines)
    message(FATAL_ERROR "a user would need what only the build needs: ${file}: ${lines}")
  endif()
  file(READ ${file} text)
  string(FIND "${text}" "${source}/" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "an installed file names the tree that it was built in: ${file}")
  endif()
endforeach()

string(REPLACE ";" " " flags "${flags}")
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/outside -G ${generator} -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=${build_type} "-D CMAKE_CXX_FLAGS=-Wall -Wextra -Werror ${flags}"
  -D TANDEM_INCLUDE_DIR=${prefix}/include -D SNIPPETS=${snippets})
run(${CMAKE_COMMAND} --build ${work}/outside)
run(${work}/outside/mine)

# The programs find each other where they are installed.
run(${prefix}/bin/launch -n 1 -- ${prefix}/bin/train --help)

# A component that does not exist is named, beside those that do.
file(MAKE_DIRECTORY ${work}/wrong)
file(WRITE ${work}/wrong/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(wrong LANGUAGES C CXX)\nfind_package(Tandem REQUIRED COMPONENTS core vision)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${work}/wrong -B ${work}/wrong/build -G ${generator} -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_CXX_COMPILER=${compiler} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(code EQUAL 0 OR NOT output MATCHES "there is no component vision; the components are [a-z, ]*core")
  message(FATAL_ERROR "an unknown component is not named: ${output}")
endif()
