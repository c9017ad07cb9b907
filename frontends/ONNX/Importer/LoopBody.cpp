// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/LoopBody.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

LogicalResult LoopBody::importNodes() {
  importer.importNodes(findNodes(graph));
  // The nodes of the body have already reported their errors.
  return failure(importer.getModule().hasFailed());
}

// The i64 constant [0, 1, ..., `length` - 1].
Value LoopBody::createNumbers(int64_t length) {
  auto type = RankedTensorType::get({length}, getI64());
  Attribute numbers = DenseIntElementsAttr::get(
      type, llvm::to_vector(llvm::seq<int64_t>(0, length)));
  return node.emit<ConstantOp>({}, {node.attribute("value", numbers)}, type);
}

ScanOp LoopBody::finish(int64_t length, ArrayRef<Value> yielded,
                        ArrayRef<bool> reversedOutputs) {
  for (auto [index, init] : llvm::enumerate(carried))
    if (yielded[index].getType() != init.getType()) {
      std::string text;
      llvm::raw_string_ostream(text)
          << "a loop keeps the type and shape of what it carries: value "
          << index << " is " << init.getType() << " at first and "
          << yielded[index].getType() << " after an iteration";
      (void)node.unsupported(text);
      return {};
    }
  // addNumber leaves null for the iteration number. Replace null by the
  // constant [0, 1, ..., `length` - 1], which the loop scans.
  for (Value &whole : scanned)
    if (!whole && !(whole = createNumbers(length)))
      return {};
  ArrayRef<Value> outer = importer.getOuterValues();
  return node.createScan(length, carried, scanned,
                         outer.drop_front(carried.size() + scanned.size()),
                         holder->getBody(), yielded, reversedInputs,
                         reversedOutputs);
}
