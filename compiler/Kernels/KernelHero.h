// The properties of each kind of kernel: the op that makes a kernel be of the
// kind (the hero), the ops that may join the hero, and how the work is divided.
//
// Each kind has a file in Heroes/ and a line in Dialect/MPC/KernelKinds.def.
// Codegen writes the loops of a kind: emit<Kind> in Codegen/Kernels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_KERNELHERO_H
#define MPC_COMPILER_KERNELS_KERNELHERO_H

#include "compiler/Kernels/KernelPartition.h"

namespace mpc {

/// The ops that may share a kernel with its hero.
enum class Company {
  /// One op alone.
  None,
  /// One hero and elementwise ops.
  Elementwise,
  /// Several heroes and elementwise ops.
  Heroes,
};

/// The ops around its hero that a kernel absorbs. Kernels grow in the order of
/// this enum: a reduction cannot absorb ops that a tail has taken.
enum class Growth {
  /// Nothing.
  None,
  /// A tail: the elementwise ops that follow, and the producers of their other
  /// operands.
  Tail,
  /// Elementwise ops around reductions, and further reductions of the same
  /// elements.
  Reductions,
  /// Elementwise ops that compute updates.
  Updates,
  /// Elementwise ops of the same shape. Each op would also be a kernel by
  /// itself, and any other kernel can absorb it.
  Elementwise,
};

/// The properties of one kind of kernel. Each kind has a single instance.
class KernelHero {
public:
  virtual ~KernelHero() = default;

  /// Returns the properties of kernels of `kind`.
  static const KernelHero &get(KernelKind kind);

  /// Returns the kind of kernel that `op` alone makes; nullopt for views,
  /// constants and composites, which make no kernel.
  static std::optional<KernelKind> findKind(mlir::Operation *op);

  /// The role of the hero.
  virtual RegionRole getRole() const = 0;

  /// True if `op`, which has getRole(), makes a kernel of this kind.
  /// Reductions, for example, make two kinds: of rows and of columns.
  virtual bool isHero(mlir::Operation *op) const { return true; }

  /// The kind of op that isHero accepts, for messages: "a reduction over
  /// leading axes".
  virtual llvm::StringRef getWanted() const { return "another op"; }

  /// The ops that may share a kernel with the hero.
  virtual Company getCompany() const = 0;

  /// The ops around the hero that the kernel absorbs.
  virtual Growth getGrowth() const { return Growth::None; }

  /// True if kernels of this kind hold elementwise ops alone, over the shape of
  /// their results.
  bool isElementwise() const { return getGrowth() == Growth::Elementwise; }

  /// True if the loops pass over the elements again for ops that need the
  /// results of the reductions. Row kernels do, column kernels do not.
  virtual bool passesAgain() const { return false; }

  /// True if several regions of this kind can be segments of one kernel.
  virtual bool hasSegments() const { return false; }

  /// True if a library calls kernels of this kind for tiles of its result. Such
  /// kernels have neither launch nor partition.
  virtual bool isCalledPerTile() const { return false; }

  /// True if the hero reads all operands from memory, even constants.
  virtual bool readsMemory() const { return false; }

  /// True if the loops load each element once, wherever the row begins.
  /// Examples: parts of a tensor's rows, padded rows, and a gradient that is
  /// divided by the loss scale on the way.
  virtual bool loadsByElement() const { return false; }

  /// True if the loops also load and store whole rows in any order, as a
  /// transpose that keeps rows whole requires.
  virtual bool loadsInAnyOrder() const { return false; }

  /// True if the loops can store a result in the order of its transpose
  /// (storesArranged), or the parts of a concat side by side (storesJoined).
  virtual bool storesArranged() const { return false; }
  virtual bool storesJoined() const { return false; }

  /// True if the loops can store a result in a box of a larger tensor. All
  /// loops that store by strides can.
  bool storesPlaced() const { return loadsInAnyOrder() || storesArranged(); }

  /// True if `kernel` reads every operand, except those of a product, at the
  /// element that it writes, and in the thread that writes it. The kernel may
  /// then write over such an operand. Never true for values stored or read in
  /// another order, since their elements lie elsewhere.
  virtual bool writesWhereItReads(mlir::func::FuncOp kernel,
                                  const TargetInfo &target) const {
    return false;
  }

  /// Checks the facts about the hero that the stages after Fusion rely on.
  virtual llvm::LogicalResult verify(mlir::Operation *hero) const {
    return mlir::success();
  }

  /// Divides the work of `kernel` on a CPU (first) and on a GPU.
  virtual KernelPartition partition(mlir::func::FuncOp kernel) const = 0;
  virtual KernelPartition partition(mlir::func::FuncOp kernel,
                                    const TargetInfo &gpu) const = 0;
};

/// True if a result of the argument's kernel may use the memory of `argument`.
/// The kernel must write where it reads, and have a result of the argument's
/// type. An op other than the product must read the argument: the update after
/// a weight's gradient writes over the weight.
bool mayBeWrittenOver(mlir::BlockArgument argument, const TargetInfo &target);

/// True if `op` may be part of a kernel of `kind`.
bool mayHold(KernelKind kind, mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELHERO_H
