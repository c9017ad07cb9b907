// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Contraction/ContractionEpilogue.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

ContractionEpilogue::ContractionEpilogue(KernelContext &context,
                                         const KernelBody &body,
                                         Operation *contraction)
    : body(body), fragments(context, body), targets(body.getOutputNodes()),
      contractionNode(body.getNode(contraction)) {}

Scope ContractionEpilogue::start() {
  Scope scope = fragments.createScope();
  fragments.evaluate(scope, targets);
  return scope;
}

Scope ContractionEpilogue::enterRow(const Scope &outer, Value row) {
  Scope scope = outer;
  fragments.enterGroup(scope, 0, row);
  fragments.evaluate(scope, targets);
  return scope;
}

void ContractionEpilogue::store(const Scope &row, Value column, Value sum) {
  Scope scope = row;
  if (auto vector = dyn_cast<VectorType>(sum.getType()))
    scope.width = vector.getNumElements();
  fragments.enterGroup(scope, 1, column);
  fragments.setValue(scope, contractionNode, sum);
  fragments.evaluate(scope, targets);
  for (const Output &output : body.getOutputs())
    fragments.store(scope, output);
}
