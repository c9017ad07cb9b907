// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/OptimizerOpInterface.h"

#include "compiler/Interfaces/OptimizerOpInterface.cpp.inc"
