// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/RegionOpInterface.h"

#include "compiler/Interfaces/RegionOpInterface.cpp.inc"
