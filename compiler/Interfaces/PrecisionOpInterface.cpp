// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/PrecisionOpInterface.h"

#include "compiler/Interfaces/PrecisionOpInterface.cpp.inc"
