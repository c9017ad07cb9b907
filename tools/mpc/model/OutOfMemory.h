// How mpc ends where memory or threads are short.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H
#define MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H

namespace mpc::tools {

/// Makes a process that cannot have memory or threads end with a message and
/// exit code 5, wherever that turns out.
void installMemoryHandlers();

/// While one of these lives, an allocation that fails ends the process, on any
/// thread. LLVM and MLIR do not check what malloc gives them, and are compiled
/// without exceptions: std::bad_alloc does not get through their functions.
class CompilerMemory {
public:
  CompilerMemory();
  ~CompilerMemory();
  CompilerMemory(const CompilerMemory &) = delete;
  CompilerMemory &operator=(const CompilerMemory &) = delete;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H
