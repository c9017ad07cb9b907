// The ops of a module as one precision problem.
//
// Forward, backward and update are decided together, and an op that stands in
// several functions (the forward pass of @step and of @eval) is one node, so
// that all functions of a module agree.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_PRECISIONGRAPH_H
#define MPC_COMPILER_PRECISION_PRECISIONGRAPH_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Precision/Placement.h"
#include "compiler/Precision/PrecisionPolicy.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/BuiltinOps.h"

namespace mpc {

/// One node: the same op in every function it stands in.
struct PrecisionGraphNode {
  std::string name;
  llvm::SmallVector<PrecisionOpInterface, 2> ops;
  /// The op's row of the policy; a row that denies where no table has the op.
  PolicyEntry entry;
  amp::Evidence evidence = amp::Evidence::Assumed;
  /// Whether a decision can change a type of the op: what it multiplies, or the
  /// type of a result that policy does not keep in fp32.
  bool isOpen = false;
};

/// The row of the policy that an op is decided by.
llvm::StringRef getPolicyRow(PrecisionOpInterface op);

class PrecisionGraph {
public:
  /// Flags that settle nodes by name; both are searched expressions.
  struct Overrides {
    llvm::ArrayRef<std::string> keepFP32, forceLow;
  };

  /// Builds the problem. Reports rules and expressions that match nothing, and
  /// ops that no table knows, and fails on the former.
  static mlir::FailureOr<PrecisionGraph> build(mlir::ModuleOp module,
                                               PrecisionPolicy &policy,
                                               const Overrides &overrides,
                                               const TargetInfo &target);

  llvm::ArrayRef<PrecisionGraphNode> getNodes() const { return nodes; }
  /// The node an op of the module is part of, if it is of any.
  std::optional<unsigned> lookup(mlir::Operation *op) const {
    auto found = indexOf.find(op);
    return found == indexOf.end() ? std::nullopt : std::optional(found->second);
  }
  const PlacementProblem &getProblem() const { return problem; }

private:
  void collect(mlir::ModuleOp module);
  void consult(PrecisionPolicy &policy);
  void pin(const PrecisionPolicy &policy, mlir::ModuleOp module);
  mlir::LogicalResult apply(llvm::ArrayRef<std::string> expressions,
                            llvm::StringRef flag, PlacementNode::Pin pin,
                            amp::Reason reason, mlir::ModuleOp module);
  std::string listOpenNodes(llvm::StringRef expression) const;
  std::string listOps(llvm::StringRef op) const;
  void connect();
  void estimate(const TargetInfo &target, mlir::FloatType low);

  std::vector<PrecisionGraphNode> nodes;
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  PlacementProblem problem;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PRECISIONGRAPH_H
