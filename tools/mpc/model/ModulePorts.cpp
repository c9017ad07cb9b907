// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/ModulePorts.h"

#include "compiler/Artifact/PlanToJSON.h"
#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

using namespace mpc;
using namespace mpc::tools;
using runtime::train::FunctionPorts;
using runtime::train::Port;
using runtime::train::TraineeInfo;

// Convert the name to valid UTF-8, as artifacts do: names in models may have
// any bytes.
static Port makePort(llvm::StringRef name, Role role, mlir::Type type) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  const llvm::ArrayRef<int64_t> shape = tensor.getShape();
  return {llvm::json::fixUTF8(name),
          role,
          toDType(tensor.getElementType()).value_or(DType::F32),
          {shape.begin(), shape.end()}};
}

static FunctionPorts portsOf(mlir::func::FuncOp function) {
  FunctionPorts ports;
  // Skip arguments without the name of an input: they hold state.
  for (mlir::BlockArgument argument : function.getArguments()) {
    const PortAttrs attributes = getArgumentPort(argument);
    if (!attributes.getInput())
      continue;
    Port port =
        makePort(attributes.getInput(),
                 attributes.getRole().value_or(Role::Data), argument.getType());
    if (auto boxes = attributes.get<mlir::ArrayAttr>(kIndicesAttr))
      port.indices = getBoxes(boxes);
    port.batchAxis = attributes.getBatchAxis();
    ports.inputs.push_back(std::move(port));
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
    if (const PortAttrs attributes = getResultPort(function, index);
        attributes.getOutput())
      ports.outputs.push_back(
          makePort(attributes.getOutput(),
                   attributes.getRole().value_or(Role::Output), type));
  return ports;
}

TraineeInfo mpc::tools::describeModule(mlir::ModuleOp module) {
  TraineeInfo info;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    info.functions[function.getName().str()] = portsOf(function);
  for (auto variable : module.getOps<VariableOp>())
    info.state.push_back(makePort(variable.getSymName(), variable.getRole(),
                                  variable.getTensorType()));
  return info;
}
