// The heroes of all kernel kinds. Only KernelHero::get uses this header.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_HEROES_HEROES_H
#define MPC_COMPILER_KERNELS_HEROES_HEROES_H

#include "compiler/Kernels/KernelHero.h"

namespace mpc::heroes {

#define MPC_KERNEL_KIND(KIND, WORD) const KernelHero &get##KIND();
#include "compiler/Dialect/MPC/KernelKinds.def"

} // namespace mpc::heroes

#endif // MPC_COMPILER_KERNELS_HEROES_HEROES_H
