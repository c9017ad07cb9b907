# Defines mpc_llvm. Programs with the property MPC_CONTAINS_LLVM get LLVM and MLIR
# as archives, so that they run on machines that have neither. Only the targets
# X86 and NVPTX are linked. Other programs, the tests, get the shared libraries:
# each copy has 100 MB.
set(contains $<BOOL:$<TARGET_PROPERTY:MPC_CONTAINS_LLVM>>)
set(own_targets X86 NVPTX)

# lld initializes all targets of LLVM. Empty functions replace the initializers
# of targets that mpc does not use; without them, lld would bring all code
# generators along.
set(MPC_OTHER_TARGETS)
foreach(target IN LISTS LLVM_TARGETS_TO_BUILD)
  if(NOT target IN_LIST own_targets)
    string(APPEND MPC_OTHER_TARGETS "OTHER_TARGET(${target})\n")
  endif()
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/StaticLLVM.cpp.in
               ${CMAKE_BINARY_DIR}/StaticLLVM.cpp @ONLY)
add_library(mpc_other_targets OBJECT ${CMAKE_BINARY_DIR}/StaticLLVM.cpp)
target_link_libraries(mpc_other_targets PRIVATE mpc_warnings)

# Paths instead of imported targets: the targets of MLIR and lld name the shared
# LLVM. lld takes only the members that it needs, in any order of archives.
file(GLOB archives ${LLVM_LIBRARY_DIRS}/libMLIR*.a
     ${LLVM_LIBRARY_DIRS}/libLLVM*.a)
target_link_libraries(mpc_llvm INTERFACE
  "$<IF:${contains},$<TARGET_OBJECTS:mpc_other_targets>;${archives},MLIR;LLVM>")
# GCC too finds ld.lld by -B. Programs show no symbols: a library that they load
# may bring an LLVM of its own.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/no-exports.map
     CONTENT "{ local: *; };\n")
foreach(flag -B${LLVM_TOOLS_BINARY_DIR} -fuse-ld=lld
        LINKER:--as-needed LINKER:--gc-sections LINKER:-z,pack-relative-relocs
        LINKER:--version-script=${CMAKE_BINARY_DIR}/no-exports.map)
  target_link_options(mpc_llvm INTERFACE "$<${contains}:${flag}>")
endforeach()
