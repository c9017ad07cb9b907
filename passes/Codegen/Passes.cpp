// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Passes.h"
