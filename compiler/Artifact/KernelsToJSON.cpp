// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/KernelsToJSON.h"

#include "compiler/Artifact/PlanToJSON.h"
#include "compiler/Artifact/RecordToJSON.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelHero.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;
namespace json = llvm::json;

LogicalResult mpc::addType(json::Object &object, Operation *op,
                           ShapedType type) {
  std::optional<DType> element = toDType(type.getElementType());
  if (!element)
    return op->emitOpError("artifacts have no element type ")
           << type.getElementType();
  object["type"] = StringRef(stringify(*element));
  object["shape"] = json::Array(type.getShape());
  return success();
}

// Returns element type and shape of each tensor type, in the JSON form of a
// plan's buffers.
static FailureOr<json::Array> tensorsOf(func::FuncOp kernel, TypeRange types) {
  json::Array tensors;
  for (Type type : types) {
    json::Object tensor;
    if (failed(addType(tensor, kernel, cast<ShapedType>(type))))
      return failure();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Describes what the code of `kernel` expects of a step: types and shapes of
// the buffers, and the division of the work. For an epilogue, describes rows
// and columns of the tiled result instead of the division.
static FailureOr<json::Object> kernelToJSON(func::FuncOp kernel,
                                            const TargetInfo &target) {
  const bool isPerTile =
      KernelHero::get(*getKernelKind(kernel)).isCalledPerTile();
  TypeRange arguments = kernel.getArgumentTypes();
  json::Object object;
  if (isPerTile) {
    auto tiled = cast<ShapedType>(arguments.front());
    const int64_t columns = tiled.getShape().back();
    object["rows"] = tiled.getNumElements() / std::max<int64_t>(columns, 1);
    object["columns"] = columns;
    arguments = arguments.drop_front();
  } else {
    const KernelPartition partition = getKernelPartition(kernel, target);
    // For CPU kernels the plan has 0 threads, although the partition has one.
    addFields(object,
              runtime::KernelWork{partition.extent, partition.grain,
                                  partition.threads > 1 ? partition.threads : 0,
                                  partition.shared, partition.scratch},
              noSteps);
  }
  FailureOr<json::Array> reads = tensorsOf(kernel, arguments);
  FailureOr<json::Array> writes = tensorsOf(kernel, kernel.getResultTypes());
  if (failed(reads) || failed(writes))
    return failure();
  object["reads"] = std::move(*reads);
  object["writes"] = std::move(*writes);
  return object;
}

FailureOr<json::Object> mpc::kernelsToJSON(ModuleOp module) {
  llvm::StringSet<> called;
  module.walk([&](Operation *op) {
    if (auto launch = dyn_cast<plan::LaunchOp>(op))
      called.insert(launch.getKernel());
    if (auto product = dyn_cast<plan::MatMulOp>(op))
      called.insert(product.getEpilogue().value_or(""));
    if (auto convolution = dyn_cast<plan::ConvOp>(op))
      called.insert(convolution.getEpilogue().value_or(""));
  });
  const TargetInfo target = getTarget(module);
  json::Object kernels;
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!getKernelKind(kernel) || !called.contains(kernel.getName()))
      continue;
    FailureOr<json::Object> object = kernelToJSON(kernel, target);
    if (failed(object))
      return failure();
    kernels[kernel.getName()] = std::move(*object);
  }
  return kernels;
}
