// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/ScatterOpInterface.h"

#include "compiler/Interfaces/ScatterOpInterface.cpp.inc"
