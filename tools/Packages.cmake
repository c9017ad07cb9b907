# Describes the Debian packages that CPack makes of the installation's
# components. tools/package builds them.
#
# Debian's mpc is a client of a music player, and its libmpc is GNU MPC.
set(CPACK_PACKAGE_NAME mpc-onnx)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(MPC_MAINTAINER "The maintainers of mpc <maintainers@mpc.invalid>"
    CACHE STRING "Name and address in packages")
set(CPACK_PACKAGE_CONTACT ${MPC_MAINTAINER})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL mpc runtime development)
if(TARGET mpc_gloo)
  list(APPEND CPACK_COMPONENTS_ALL gloo)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_THREADS 0)
# Debian looks for licences in files of this name.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  foreach(component "mpc mpc-onnx" "runtime libmpc-runtime0"
                    "development libmpc-runtime-dev" "gloo libmpc-gloo0")
    string(REPLACE " " ";" component ${component})
    list(GET component 1 package)
    list(GET component 0 component)
    install(FILES NOTICE RENAME copyright COMPONENT ${component}
      DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package})
  endforeach()
endif()
set(same_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
# Libraries of one package that another package, or its own, links to.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})

set(CPACK_DEBIAN_MPC_PACKAGE_NAME mpc-onnx)
set(CPACK_DEBIAN_MPC_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPC_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPC_PACKAGE_DEPENDS "libmpc-runtime0 ${same_version}")
set(CPACK_DEBIAN_MPC_PACKAGE_SUGGESTS libmpc-gloo0)
set(CPACK_DEBIAN_MPC_PACKAGE_CONFLICTS mpc)
set(CPACK_COMPONENT_MPC_DESCRIPTION
"compile and train ONNX models in mixed precision
The program mpc differentiates an ONNX model, decides the type of every value,
compiles the training step to machine code, and trains. It contains LLVM and
MLIR and needs no compiler.")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libmpc-runtime0)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"run and train models that mpc compiled
The library opens artifacts of mpc, and trains and evaluates with them. It
contains oneDNN.")
# Packages of programs that are linked to the library depend on this package.
file(WRITE ${CMAKE_BINARY_DIR}/packages/shlibs
     "libmpc_runtime ${PROJECT_VERSION_MAJOR} libmpc-runtime0 (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
    ${CMAKE_BINARY_DIR}/packages/shlibs)

set(CPACK_DEBIAN_GLOO_PACKAGE_NAME libmpc-gloo0)
set(CPACK_DEBIAN_GLOO_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_GLOO_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_GLOO_PACKAGE_DEPENDS "libmpc-runtime0 ${same_version}")
set(CPACK_COMPONENT_GLOO_DESCRIPTION
"connect the ranks of mpc without MPI
mpc loads this library to train on several processes that torchrun, or another
launcher without MPI, has started.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmpc-runtime-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libmpc-runtime0 ${same_version}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"header of the library that runs models of mpc
The C header mpc/mpc.h and files for find_package(mpc) of CMake.")
include(CPack)
