# Writes the git revision of SOURCE into the C++ file OUTPUT. Leaves the file
# alone if it is up to date, so that a build without a new commit links nothing.
#
# An archive made by git has its revision in Revision.txt instead.
cmake_minimum_required(VERSION 3.25)
set(revision unknown)
file(STRINGS ${SOURCE}/tools/mpc/Revision.txt archived REGEX "^[0-9a-f]+$")
if(archived)
  string(SUBSTRING ${archived} 0 12 revision)
endif()
find_program(GIT git)
if(GIT)
  # No files are locked: somebody may commit while mpc builds.
  set(git ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 ${GIT} -C ${SOURCE})
  execute_process(COMMAND ${git} rev-parse --show-prefix
    RESULT_VARIABLE failure OUTPUT_VARIABLE prefix ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  # A prefix means that the repository is another project's.
  if(NOT failure AND prefix STREQUAL "")
    execute_process(
      COMMAND ${git} describe --always --dirty --abbrev=12 --exclude=*
      RESULT_VARIABLE failure OUTPUT_VARIABLE described ERROR_QUIET
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failure)
      set(revision ${described})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
"// The revision that mpc was built from.
#include \"tools/mpc/commands/Version.h\"

const char mpc::tools::kRevision[] = \"@revision@\";
")
