// com.microsoft gradient ops.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer.h"
using namespace mpc::onnx_frontend;
llvm::ArrayRef<OpEntry> mpc::onnx_frontend::getGradientOps() { return {}; }
llvm::ArrayRef<OpEntry> mpc::onnx_frontend::getOptimizerOps() { return {}; }
