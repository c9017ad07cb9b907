// Gathers the facts about the ops of a module that precede all decisions: the
// policy, the loss, ranges, flags, and types of the model.
//
// AssignPrecision decides by these facts. VerifyPrecision computes the facts
// again on the output of the stage and compares. All analyses look through the
// casts of the stage and through low copies. Constants that the stage has
// rounded or added carry what the model had instead (ConstantAttrs.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_FACTS_H
#define MPC_COMPILER_PRECISION_FACTS_H

#include "compiler/Dialect/AMP/Request.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Precision/Cancellations.h"
#include "compiler/Precision/ConstantRanges.h"
#include "compiler/Precision/GivenValues.h"
#include "compiler/Precision/ModelTypes.h"
#include "compiler/Precision/Policy/PrecisionPolicy.h"

namespace mpc {

class PrecisionFacts {
public:
  /// Analyses `module`. The policy and the request must live as long as the
  /// facts.
  PrecisionFacts(mlir::ModuleOp module, PrecisionPolicy &policy,
                 const amp::Request &request);

  PrecisionPolicy &getPolicy() const { return policy; }
  const amp::Request &getRequest() const { return request; }
  const ModelTypes &getModelTypes() const { return types; }
  const GivenValues &getGivenValues() const { return givenValues; }

  /// Returns the policy's entry for `op`; nullopt if no table has the op.
  std::optional<PolicyEntry> lookupPolicy(PrecisionOpInterface op) const;

  /// Returns the number that a constant moves out of the range of the low type
  /// in `op`, such as 1e6 in f16; nullopt if there is none. The constant may be
  /// an operand, a bound of a clip, or determine the range of an operand or
  /// result.
  std::optional<RangeFinding> findOutOfRange(PrecisionOpInterface op) const;

  /// Returns the number for which `op` has the reason ConstantRange: out of
  /// range, or close to other values.
  std::optional<RangeFinding> findRange(PrecisionOpInterface op) const;

  /// True if rounding the results of `op` would destroy digits that the users
  /// need (Cancellations.h). A contraction may still multiply low operands.
  bool cancels(mlir::Operation *op) const { return cancellations.contains(op); }

  /// True if `op` belongs to a loss or to the gradient of a loss.
  bool isInLoss(mlir::Operation *op) const { return loss.contains(op); }

  /// True if `op` computes new state that sums small changes: parameters,
  /// moments, averages, accumulators, running statistics.
  bool writesState(mlir::Operation *op) const { return state.contains(op); }

  /// True if a decision can change a type of `op`: the type of contracted
  /// operands, or of an fp32 result that policy does not keep in fp32.
  bool isOpen(PrecisionOpInterface op, PrecisionClass precisionClass) const;

  /// Returns the strongest reason to keep `op` in the types of the model,
  /// apart from flags and the deny list; nullopt if there is none.
  std::optional<amp::Reason>
  findConstraint(PrecisionOpInterface op, PrecisionClass precisionClass) const;

  /// The facts about one op, as one answer.
  struct Judgement {
    PrecisionClass precisionClass = PrecisionClass::Deny;
    /// The reason for which the op must neither be low nor read rounded values:
    /// a constraint, a flag or the deny list. nullopt if there is none.
    std::optional<amp::Reason> keep;
    /// True if --force-low makes the op low.
    bool isForcedLow = false;
    /// True if the result must not be rounded, because `op` combines a computed
    /// value with a large float32 value (GivenValues.h).
    bool meetsWide = false;
    /// The row, user rule or flag that decides.
    std::string rule;
  };
  Judgement judge(PrecisionOpInterface op) const;

private:
  PrecisionPolicy &policy;
  const amp::Request &request;
  ModelTypes types;
  ConstantRanges ranges;
  Cancellations cancellations;
  GivenValues givenValues;
  llvm::DenseSet<mlir::Operation *> loss, multiplesOfSeed, state;
  std::vector<NamePattern> keepFP32, forceLow;
};

/// Ends the names of ops that the stage adds to keep old state, such as
/// `running_mean#guard`. Like all ops of the update, guards are never low.
inline constexpr llvm::StringLiteral kGuardSuffix = "#guard";

/// True if the Precision stage has added `op` to keep old state.
bool isGuard(mlir::Operation *op);

/// Returns the key of the policy row that decides `op`, usually the op's own
/// key.
llvm::StringRef getPolicyRow(PrecisionOpInterface op);

/// True if an op with the recorded reason is not low.
bool isKeeping(amp::Reason reason);

/// True if no flag and no list can lift the constraint `reason`: the op has its
/// type from the model, or belongs to the update or the loss.
bool isHard(amp::Reason reason);

/// True if `pattern` matches a name of `op`. An op without a name has the empty
/// name.
bool matchesNode(mlir::Operation *op, const NamePattern &pattern);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_FACTS_H
