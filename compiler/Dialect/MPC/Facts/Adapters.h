// The low-rank adapters (LoRA) of a module: which variables they are, and which
// weights they change.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_ADAPTERS_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_ADAPTERS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mpc {

/// Attribute of the two variables of an adapter. On A, a dictionary with the
/// facts of the adapter (`Adapter`). On B, a unit attribute. On A of a value
/// that --weights gives, a unit attribute until `mpc-add-adapters` runs.
inline constexpr llvm::StringLiteral kAdapterAttr = "mpc.adapter";

/// The ends of the variables' names, as PEFT has them: `fc1.lora_A.weight`.
inline constexpr llvm::StringLiteral kAdapterASuffix = ".lora_A.weight";
inline constexpr llvm::StringLiteral kAdapterBSuffix = ".lora_B.weight";

/// An adapter adds `scale` * B A to a weight [out, in]. A is [rank, in], B is
/// [out, rank]. Both have trailing axes of extent 1 if the weight is the filter
/// of a convolution.
struct Adapter {
  std::string module; ///< the layer's name, such as fc1
  std::string weight; ///< the weight's variable; empty if it is no variable
  std::string a, b;   ///< the adapter's variables
  int64_t rank = 0;
  double alpha = 0, scale = 0;
  /// True if the weight's variable is [in, out].
  bool inputsFirst = false;
};

/// Records `adapter` on its variables.
void setAdapter(VariableOp a, VariableOp b, const Adapter &adapter);

/// True if the variable is part of an adapter.
bool isAdapter(VariableOp variable);

/// Returns the adapters of `module`, in the order of their variables.
llvm::SmallVector<Adapter> listAdapters(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_ADAPTERS_H
