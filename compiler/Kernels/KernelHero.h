// A kind of kernel: the op that makes a kernel be of the kind, what may stand
// beside it, and how the kernel's work is divided.
//
// One file of Heroes/ per kind, one line in Dialect/MPC/KernelKinds.def. How
// the loops of a kind are written is Codegen's: emit<Kind> in Codegen/Kernels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_KERNELHERO_H
#define MPC_COMPILER_KERNELS_KERNELHERO_H

#include "compiler/Kernels/KernelPartition.h"

namespace mpc {

/// What may share a kernel with its hero.
enum class Company {
  /// One op alone.
  None,
  /// One hero and elementwise ops.
  Elementwise,
  /// Several heroes and elementwise ops.
  Heroes,
};

/// What a kernel takes in of the ops around its hero. Kernels grow in this
/// order: what a tail has taken no reduction can.
enum class Growth {
  /// Nothing.
  None,
  /// Elementwise ops that follow, and what these read: a tail.
  Tail,
  /// Elementwise ops around reductions, and further ones of the same elements.
  Reductions,
  /// Elementwise ops that compute updates.
  Updates,
  /// Elementwise ops of the same shape: each is such a kernel by itself, which
  /// any other can take in.
  Elementwise,
};

class KernelHero {
public:
  virtual ~KernelHero() = default;

  /// What is known of kernels of `kind`.
  static const KernelHero &get(KernelKind kind);

  /// The kind of the kernel that `op` makes up on its own; nothing where it
  /// makes none: a view, a constant, a composite.
  static std::optional<KernelKind> findKind(mlir::Operation *op);

  /// The role of the hero.
  virtual RegionRole getRole() const = 0;

  /// True if `op`, which has getRole(), makes a kernel of this kind.
  /// Reductions, for example, make two kinds: of rows and of columns.
  virtual bool isHero(mlir::Operation *op) const { return true; }

  /// What isHero wants, for messages: "a reduction over leading axes".
  virtual llvm::StringRef getWanted() const { return "another op"; }

  virtual Company getCompany() const = 0;

  virtual Growth getGrowth() const { return Growth::None; }

  /// Whether kernels of this kind are elementwise ops alone, over the shape of
  /// their results.
  bool isElementwise() const { return getGrowth() == Growth::Elementwise; }

  /// Whether loops pass over the elements again for ops that need what the
  /// reductions gave, as those over rows do and those over columns do not.
  virtual bool passesAgain() const { return false; }

  /// Whether several regions of this kind can be segments of one kernel.
  virtual bool hasSegments() const { return false; }

  /// Whether a library calls kernels of this kind for tiles of its result, so
  /// that they have no launch and no partition.
  virtual bool isCalledPerTile() const { return false; }

  /// Whether the hero reads all its operands from memory, constants too.
  virtual bool readsMemory() const { return false; }

  /// Whether loops of this kind load each element once, wherever its row
  /// begins: parts of a tensor's rows, rows that are padded, a gradient that is
  /// divided by the loss scale on the way.
  virtual bool loadsByElement() const { return false; }

  /// Whether they also load and store rows in any order, as a transpose of
  /// whole rows has them.
  virtual bool loadsInAnyOrder() const { return false; }

  /// Whether they store a result as a transpose of it would lie, and parts of a
  /// join side by side.
  virtual bool storesArranged() const { return false; }
  virtual bool storesJoined() const { return false; }

  /// Whether they store a result in a box of a larger tensor: all whose loops
  /// store by strides.
  bool storesPlaced() const { return loadsInAnyOrder() || storesArranged(); }

  /// Whether `kernel` reads every operand but a product's at the element that
  /// it writes, in the thread that writes it: it may then write over such an
  /// operand. What is stored or read in another order is not where operands of
  /// its type were.
  virtual bool writesWhereItReads(mlir::func::FuncOp kernel,
                                  const TargetInfo &target) const {
    return false;
  }

  /// Checks what the stages after Fusion take for granted about the hero.
  virtual llvm::LogicalResult verify(mlir::Operation *hero) const {
    return mlir::success();
  }

  /// How the work of a kernel of this kind is divided on a CPU and on a GPU.
  virtual KernelPartition partition(mlir::func::FuncOp kernel) const = 0;
  virtual KernelPartition partition(mlir::func::FuncOp kernel,
                                    const TargetInfo &gpu) const = 0;
};

/// Whether a result of the argument's kernel may lie in its memory: the kernel
/// writes where it reads, and an op beside a product reads the argument, whose
/// type a result has. An update behind a product writes over the weight.
bool mayBeWrittenOver(mlir::BlockArgument argument, const TargetInfo &target);

/// Whether `op` can stand in a kernel of `kind`.
bool mayHold(KernelKind kind, mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELHERO_H
