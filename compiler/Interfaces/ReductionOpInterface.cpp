// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/ReductionOpInterface.h"

#include "compiler/Interfaces/ReductionOpInterface.cpp.inc"
