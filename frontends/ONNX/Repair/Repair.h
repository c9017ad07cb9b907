// The second stage of the frontend: exporters lose parts of a program, and a
// repair brings one kind of loss back.
//
//   Read (parse, check) -> Repair -> Import -> Recognise
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Applies all repairs to the graph of `model`, in one fixed order. Adds to the
/// model's warnings and notes what each did. Fails if the file contradicts
/// itself, such as by two initializers of one name and different values.
llvm::Error repair(Model &model);

/// Reads the file at `path` and repairs its graph.
llvm::Expected<std::shared_ptr<Model>> readRepaired(llvm::StringRef path,
                                                    mlir::MLIRContext *context);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H
