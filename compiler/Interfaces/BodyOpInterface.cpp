// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/BodyOpInterface.h"

#include "compiler/Interfaces/BodyOpInterface.cpp.inc"
