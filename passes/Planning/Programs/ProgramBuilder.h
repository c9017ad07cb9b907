// One function on tensors becoming a program on buffers.
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

/// What an op reads, as far as writing over it is concerned.
struct Reads {
  /// Every operand of a result's type is read at the element that is written.
  bool elementwise = false;
  /// Operands that are read elsewhere all the same: those of a contraction, and
  /// tables.
  llvm::SmallVector<mlir::Value> contracted;
  /// Each segment reads operands of its own, and no other segment's result may
  /// be written over them.
  bool segmented = false;
  /// The operand that the result is, but for some elements; null where there is
  /// none.
  mlir::Value overwritten = {};
  /// The memory of every operand, with its type or, where operands of several
  /// types are views of it, none.
  llvm::DenseMap<mlir::Value, mlir::Type> typeOf =
      llvm::DenseMap<mlir::Value, mlir::Type>();
};

/// The type of the buffer that holds a tensor.
mlir::MemRefType getBufferType(mlir::Type tensor);

/// Builds the program of one function. Bodies of loops and branches are
/// functions too, whose steps lie within a step.
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

  // Loops and conditions: ProgramBodies.cpp.
  mlir::LogicalResult addScan(ScanCallOp scan);
  mlir::LogicalResult addBody(ScanCallOp scan,
                              llvm::ArrayRef<mlir::Value> operands,
                              llvm::ArrayRef<mlir::Value> results);
  mlir::LogicalResult addIf(IfCallOp op);
  mlir::LogicalResult addBranch(llvm::ArrayRef<mlir::Value> operands,
                                llvm::ArrayRef<mlir::Value> results);
  void placeYielded(mlir::Value value, mlir::Value place);
  void placeStacked(ScanCallOp scan, llvm::ArrayRef<mlir::Value> results);

  // All other steps: ProgramSteps.cpp.
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

  // Tensors that are joined: ProgramJoins.cpp.
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
  /// Memory of values whose place is known before the op that makes them.
  llvm::DenseMap<mlir::Value, mlir::Value> places;
  /// Calls that join tensors side by side, and ops that assemble them of boxes,
  /// with the memory of their results, in which what they are made of has its
  /// `places`.
  llvm::DenseMap<mlir::Operation *, mlir::Value> joins;
  /// Memory and old value (if it is read at all) of state variables, by their
  /// names, and of carried values, by their numbers.
  llvm::MapVector<mlir::Attribute, mlir::Value> states;
  llvm::DenseMap<mlir::Attribute, mlir::Value> oldValues;
  /// The variable a value is the new value of.
  llvm::DenseMap<mlir::Value, mlir::Attribute> replaces;
  /// The new values of all variables, as the terminator has them.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Attribute>> updates;
  /// Copies at the end of the program (source, destination), and the memory
  /// that they overwrite.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> copies;
  llvm::SmallPtrSet<mlir::Operation *, 8> overwritten;
  /// Memory of results, or parts of it, that the terminator's values go to.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> yielded;
};

} // namespace mpc

#endif // MPC_PASSES_PLANNING_PROGRAMS_PROGRAMBUILDER_H
