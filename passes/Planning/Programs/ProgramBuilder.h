// Builds a program on buffers from a function on tensors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PROGRAMS_PROGRAMBUILDER_H
#define MPC_PASSES_PLANNING_PROGRAMS_PROGRAMBUILDER_H

#include "passes/Planning/Arena/Liveness.h"
#include "passes/Planning/Contractions/Contractions.h"
#include "passes/Planning/Contractions/RowCopies.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace mpc {

/// How an op reads its operands. Decides if a result of the op may overwrite an
/// operand.
struct Reads {
  /// True if the op reads an element of an operand only to compute the element
  /// at the same index of a result. Holds for operands of a result's type,
  /// except for those in `contracted`.
  bool elementwise = false;
  /// Operands that the op also reads at other indices: factors of a
  /// contraction, and lookup tables.
  llvm::SmallVector<mlir::Value> contracted;
  /// True for a kernel of segments. A segment's result must not overwrite an
  /// operand, since another segment may read the operand later.
  bool segmented = false;
  /// The operand that the op updates in place, such as the data of a scatter;
  /// null if there is none. The result is equal to the operand, except for some
  /// elements.
  mlir::Value overwritten = {};
  /// The type of each operand, by the viewed value (Liveness::root). Null if
  /// the op reads views of different types of one value.
  llvm::DenseMap<mlir::Value, mlir::Type> typeOf =
      llvm::DenseMap<mlir::Value, mlir::Type>();
};

/// Returns the type of the buffer for a tensor.
mlir::MemRefType getBufferType(mlir::Type tensor);

/// Builds the program of one function. Bodies of loops and branches are
/// functions too; their steps are nested in a step.
class ProgramBuilder {
public:
  ProgramBuilder(mlir::func::FuncOp function, const mlir::SymbolTable &symbols,
                 const TargetInfo &target);
  mlir::LogicalResult run();

private:
  void addArguments();
  void findUpdates();
  mlir::LogicalResult addOps();
  void addUpdates();
  void addOutputs();

  // Loops and conditions are in ProgramBodies.cpp.
  mlir::LogicalResult addScan(ScanCallOp scan);
  mlir::LogicalResult addBody(ScanCallOp scan,
                              llvm::ArrayRef<mlir::Value> operands,
                              llvm::ArrayRef<mlir::Value> results);
  mlir::LogicalResult addIf(IfCallOp op);
  mlir::LogicalResult addBranch(llvm::ArrayRef<mlir::Value> operands,
                                llvm::ArrayRef<mlir::Value> results);
  void placeYielded(mlir::Value value, mlir::Value place);
  void placeStacked(ScanCallOp scan, llvm::ArrayRef<mlir::Value> results);

  // All other steps are in ProgramSteps.cpp.
  mlir::LogicalResult addOp(mlir::Operation *op);
  mlir::LogicalResult addCall(mlir::func::CallOp call);
  void addLaunch(mlir::func::CallOp call, mlir::func::FuncOp kernel);
  void addCopies(mlir::func::CallOp call, llvm::ArrayRef<RowCopy> copies);
  mlir::LogicalResult addContraction(mlir::Operation *op,
                                     mlir::func::CallOp epilogue);
  mlir::LogicalResult addProduct(plan::ProductOp op);
  mlir::LogicalResult
  addUnfused(plan::ProductOp op,
             llvm::SmallVectorImpl<plan::LaunchOp> &launches);
  mlir::Value newRest(mlir::Value buffer, int64_t first);
  mlir::Value newSection(mlir::Value source, plan::AccessOp access);

  // Attention of a library is in ProgramAttention.cpp.
  mlir::Value placeArranged(mlir::Value result);
  void addAttention(LibraryAttentionOp op);
  void addAttention(LibraryAttentionGradOp op);

  // Joined tensors are in ProgramJoins.cpp.
  void findJoins();
  void findAssembled();
  bool canPlace(mlir::Value value) const;
  void addJoin(mlir::func::CallOp call, mlir::Value joined);

  // Reductions over ranks are in ProgramBuckets.cpp.
  mlir::Value findPlaceable(mlir::Value input) const;
  void findBuckets();
  void addReduction(AllReduceOp reduction);
  void addShares(plan::ShareOp first);
  void markSteps(mlir::Operation *before, mlir::Operation *op);

  bool mayOverwrite(mlir::Operation *op, mlir::Value old,
                    const Reads &reads) const;
  mlir::Value chooseBuffer(mlir::Operation *op, mlir::Value result,
                           const Reads &reads,
                           llvm::SmallPtrSetImpl<mlir::Operation *> &taken);
  llvm::SmallVector<mlir::Value> placeResults(mlir::Operation *op, Reads reads);

  mlir::Value newArena(mlir::Type type, mlir::Location location);
  bool isAligned(mlir::Value part) const;
  mlir::Value newPart(mlir::Value whole, mlir::Type part, bool reversed,
                      mlir::Location location);
  mlir::Value stateBuffer(mlir::FlatSymbolRefAttr state, mlir::Type type);
  void noteUpdate(mlir::OpOperand &result, mlir::Attribute variable);
  bool isOverwritten(mlir::Value source) const;
  mlir::Value save(mlir::Value source);
  llvm::SmallVector<mlir::Value> buffersOf(mlir::ValueRange values) const {
    return llvm::map_to_vector(values, [&](mlir::Value value) {
      mlir::Value buffer = buffers.lookup(value);
      assert(buffer && "values have memory before they are used");
      return buffer;
    });
  }

  mlir::func::FuncOp function;
  mlir::Block &block;
  const mlir::SymbolTable &symbols;
  const TargetInfo &target;
  EpilogueCalls epilogueOf;
  std::optional<Liveness> liveness;
  mlir::OpBuilder builder;
  ContractionEmitter contractions;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  /// The memory of values that must lie in a certain place, such as the
  /// operands of a join. Filled before the ops that compute the values are
  /// visited.
  llvm::DenseMap<mlir::Value, mlir::Value> places;
  /// Calls that only concatenate, and plan.assemble ops, with the memory of the
  /// whole result. The parts are placed in this memory.
  llvm::DenseMap<mlir::Operation *, mlir::Value> joins;
  /// The memory that each reduction over ranks reduces.
  llvm::DenseMap<mlir::Operation *, mlir::Value> buckets;
  /// Maps the name of a state variable to the memory of the variable. In the
  /// body of a loop, maps the number of a carried value to the value's memory.
  /// `oldValues` maps the same keys to arguments with old values.
  llvm::MapVector<mlir::Attribute, mlir::Value> states;
  llvm::DenseMap<mlir::Attribute, mlir::Value> oldValues;
  /// Maps each new value to the state variable, or carried value, that it
  /// updates.
  llvm::DenseMap<mlir::Value, mlir::Attribute> replaces;
  /// The new value of each state variable or carried value: (value, variable).
  llvm::SmallVector<std::pair<mlir::Value, mlir::Attribute>> updates;
  /// Copies at the end of the program (source, destination), and the memory
  /// that the copies overwrite.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> copies;
  llvm::SmallPtrSet<mlir::Operation *, 8> overwritten;
  /// The values that a body yields, and the memory that receives each: a result
  /// of the loop or branch, or one index of a stacked result.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> yielded;
};

} // namespace mpc

#endif // MPC_PASSES_PLANNING_PROGRAMS_PROGRAMBUILDER_H
