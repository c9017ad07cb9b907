// Turns the ops of a module into one placement problem (Placement.h).
//
// Forward, backward and update are decided together. An op that occurs in
// several functions (the forward pass of @step and of @eval) is a single node,
// so all functions of a module agree.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_PRECISIONGRAPH_H
#define MPC_COMPILER_PRECISION_PRECISIONGRAPH_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Precision/Facts.h"
#include "compiler/Precision/Placement.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mpc {

/// An op and its counterparts in the other functions.
struct PrecisionGraphNode {
  std::string name;
  /// The name, or name~1, name~2, ... if a report shows several nodes with the
  /// name. A layer's ops of training and of evaluation may share an id.
  std::string id;
  llvm::SmallVector<PrecisionOpInterface, 2> ops;
  /// The op's row of the policy; a denying row if no table has the op.
  PolicyEntry entry;
  amp::Evidence evidence = amp::Evidence::Assumed;
  /// The sources and sizes of the float32 values that the op combines with low
  /// values; null if there are none.
  mlir::ArrayAttr metSources;
  /// The number for which the op has the reason ConstantRange, and its source;
  /// null if there is none.
  mlir::ArrayAttr rangeSources;
  /// True if a decision can change a type: the type of contracted operands, or
  /// of an fp32 result that policy does not keep in fp32.
  bool isOpen = false;
};

class PrecisionGraph {
public:
  /// Builds the problem from the facts of `module`. Fails with an error if a
  /// rule or expression matches nothing. Warns of ops without a policy.
  static mlir::FailureOr<PrecisionGraph> build(mlir::ModuleOp module,
                                               const PrecisionFacts &facts);

  llvm::ArrayRef<PrecisionGraphNode> getNodes() const { return nodes; }
  /// Returns the index of the node of `op`; nullopt if `op` is in no node.
  std::optional<unsigned> lookup(mlir::Operation *op) const {
    auto found = indexOf.find(op);
    return found == indexOf.end() ? std::nullopt : std::optional(found->second);
  }
  const PlacementProblem &getProblem() const { return problem; }

  /// Returns the nodes that a flag with the id of node `index` settles.
  llvm::SmallVector<unsigned> listNamed(unsigned index) const;
  /// Returns the problem that results if the user leaves out `flag`, one of the
  /// given flags, such as "--keep-fp32=^conv1$".
  PlacementProblem dropFlag(llvm::StringRef flag) const;

private:
  /// A flag of the user, and the nodes that the flag has settled.
  struct AppliedFlag {
    std::string flag;
    PlacementNode::Pin pin;
    amp::Reason reason;
    llvm::SmallVector<unsigned, 1> nodes;
  };

  void collect(mlir::ModuleOp module);
  void assignIds(mlir::ModuleOp module);
  void consult(const PrecisionFacts &facts);
  void pin(const PrecisionFacts &facts, mlir::ModuleOp module);
  mlir::LogicalResult apply(llvm::ArrayRef<std::string> values,
                            llvm::StringRef flag, PlacementNode::Pin pin,
                            amp::Reason reason, mlir::ModuleOp module);
  std::string listOpenNodes(llvm::StringRef expression) const;
  std::string listOps(llvm::StringRef op) const;
  void connect();

  std::vector<PrecisionGraphNode> nodes;
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  /// Maps each name to the nodes that have the name.
  llvm::StringMap<llvm::SmallVector<unsigned, 1>> named;
  PlacementProblem problem;
  /// The flags of the user, in the order of application.
  std::vector<AppliedFlag> flags;
  /// The nodes that flags have settled, as they were before.
  llvm::DenseMap<unsigned, PlacementNode> unflagged;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PRECISIONGRAPH_H
