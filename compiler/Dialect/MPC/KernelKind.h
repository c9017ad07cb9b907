// The kinds of kernels, as an enumeration and as words in the IR.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_KERNELKIND_H
#define MPC_COMPILER_DIALECT_MPC_KERNELKIND_H

#include "runtime/Names.h"

namespace mpc {

enum class KernelKind {
#define MPC_KERNEL_KIND(KIND, WORD) KIND,
#include "compiler/Dialect/MPC/KernelKinds.def"
};

template <>
struct Words<KernelKind> {
  static constexpr std::string_view kind = "kind of kernel";
  static constexpr std::string_view list[] = {
#define MPC_KERNEL_KIND(KIND, WORD) WORD,
#include "compiler/Dialect/MPC/KernelKinds.def"
  };
};

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_KERNELKIND_H
