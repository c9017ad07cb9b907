// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/ContractionOpInterface.h"

#include "compiler/Interfaces/ContractionOpInterface.cpp.inc"
