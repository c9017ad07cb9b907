// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/LayoutOpInterface.h"

#include "compiler/Interfaces/LayoutOpInterface.cpp.inc"
