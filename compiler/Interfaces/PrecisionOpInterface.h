// What the Precision stage asks an op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H

#include "compiler/Interfaces/RegionOpInterface.h"

#include "compiler/Interfaces/PrecisionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
