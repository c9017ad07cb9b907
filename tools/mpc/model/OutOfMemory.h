// Ends mpc with a message if memory runs out or a thread cannot be started.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H
#define MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H

namespace mpc::tools {

/// Installs handlers that end the process with a message and exit code 5
/// wherever memory or threads run out.
void installMemoryHandlers();

/// While a CompilerMemory exists, a failed malloc on any thread ends the
/// process with a message. LLVM and MLIR need this, since they do not check the
/// result of malloc, and are compiled without exceptions, so std::bad_alloc
/// cannot pass through their code.
class CompilerMemory {
public:
  CompilerMemory();
  ~CompilerMemory();
  CompilerMemory(const CompilerMemory &) = delete;
  CompilerMemory &operator=(const CompilerMemory &) = delete;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_OUTOFMEMORY_H
