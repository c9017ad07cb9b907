// Verifies that the ops of a node agree.
//
// A node of the model may have an op in the training step, in evaluation and in
// prediction. All get one decision, or evaluation would not run the forward
// pass that was trained.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_NODEAGREEMENT_H
#define MPC_PASSES_PRECISION_NODEAGREEMENT_H

#include "compiler/Precision/Facts.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/MapVector.h"

namespace mpc::amp {

class NodeAgreement {
public:
  /// Adds `op`, which has a record, and what the facts say of the op.
  void add(PrecisionOpInterface op, const PrecisionFacts::Judgement &judgement);

  /// Reports every node
  /// - whose ops have different types or reasons, apart from movements, which
  ///   casts may have passed;
  /// - whose ops read different parameters or other state;
  /// - whose recorded reason to stay fp32 holds for none of the ops;
  /// - whose result, a sum in fp32, is rounded although no low op reads it.
  void verify(mlir::ModuleOp module,
              llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)>
                  report) const;

private:
  struct Member {
    PrecisionOpInterface op;
    std::optional<Reason> keep;
    bool isForcedLow;
  };
  /// Maps each kind and id to the ops of the node, in all functions.
  llvm::MapVector<std::pair<llvm::StringRef, llvm::StringRef>,
                  llvm::SmallVector<Member, 2>>
      nodes;
};

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_NODEAGREEMENT_H
