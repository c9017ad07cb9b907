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

/// The reads of an op, as needed to decide if the op may overwrite an operand.
struct Reads {
  /// True if the op reads every operand of a result's type at the index it
  /// writes.
  bool elementwise = false;
  /// Operands that the op reads at other indices in spite of `elementwise`:
  /// factors of a contraction, and tables.
  llvm::SmallVector<mlir::Value> contracted;
  /// True if each segment reads operands of its own. No result of another
  /// segment may overwrite them.
  bool segmented = false;
  /// The operand that equals the result except for some elements; null if there
  /// is none.
  mlir::Value overwritten = {};
  /// The memory of every operand, with the operand's type. The type is null if
  /// operands of several types are views of the memory.
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
                 const TargetInfo &target, bool allowTF32);
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
  mlir::Value newTail(mlir::Value buffer, int64_t first);
  mlir::Value newSection(mlir::Value source, plan::AccessOp access);

  // Joined tensors are in ProgramJoins.cpp.
  void findJoins();
  void findAssembled();
  bool canPlace(mlir::Value value) const;
  void addJoin(mlir::func::CallOp call, mlir::Value joined);

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
  bool allowTF32;
  EpilogueCalls epilogueOf;
  std::optional<Liveness> liveness;
  mlir::OpBuilder builder;
  ContractionEmitter contractions;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  /// Memory of values whose place is fixed before their op is visited.
  llvm::DenseMap<mlir::Value, mlir::Value> places;
  /// Calls that only join tensors, and plan.assemble ops, with the memory of
  /// their results. The parts are placed there.
  llvm::DenseMap<mlir::Operation *, mlir::Value> joins;
  /// Memory of state variables, by name, and of carried values, by number; and
  /// the argument that holds the old value, if any.
  llvm::MapVector<mlir::Attribute, mlir::Value> states;
  llvm::DenseMap<mlir::Attribute, mlir::Value> oldValues;
  /// The variable that a value updates.
  llvm::DenseMap<mlir::Value, mlir::Attribute> replaces;
  /// The new values of all variables, as operands of the terminator.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Attribute>> updates;
  /// Copies at the end of the program (source, destination), and the memory
  /// that the copies overwrite.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> copies;
  llvm::SmallPtrSet<mlir::Operation *, 8> overwritten;
  /// Values yielded by the terminator, and the receiving memory: results or
  /// parts of results.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> yielded;
};

} // namespace mpc

#endif // MPC_PASSES_PLANNING_PROGRAMS_PROGRAMBUILDER_H
