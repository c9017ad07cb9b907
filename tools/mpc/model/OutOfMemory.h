// Ends mpc with a message if memory or threads are short.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H
#define MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H

namespace mpc::tools {

/// Installs handlers that end the process with a message and exit code 5
/// wherever memory or threads run out.
void installMemoryHandlers();

/// While a CompilerMemory exists, a failed allocation on any thread ends the
/// process. LLVM and MLIR do not check the result of malloc, and are compiled
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
