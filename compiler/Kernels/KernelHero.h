// The properties of each kind of kernel. The hero is the op that decides a
// kernel's kind and loops, such as the matmul of a contraction kernel. A kind
// defines which ops can be its hero, which ops may join the hero, and how the
// work is divided. Each kind has a file in Heroes/ and a line in
// Dialect/MPC/KernelKinds.def. Codegen writes the loops of a kind: emit<Kind>
// in Codegen/Kernels.
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

/// The ops around its hero that a kernel fuses. Kernels fuse ops in the
/// order of this enum: an op that is already in the epilogue of a contraction
/// cannot join a reduction.
enum class Growth {
  /// Nothing.
  None,
  /// An epilogue: the elementwise ops that follow the hero, and the elementwise
  /// producers of the epilogue's further operands.
  Epilogue,
  /// Elementwise ops around reductions, and further reductions of the same
  /// elements.
  Reductions,
  /// Elementwise ops that compute the values a scatter writes.
  Updates,
  /// Elementwise ops of the same shape. Each op would also be a kernel by
  /// itself, and any other kernel can fuse it.
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

  /// True if `op`, whose role is getRole(), can be the hero of this kind. Two
  /// kinds may have one role: reductions make kernels that reduce rows or
  /// kernels that reduce columns.
  virtual bool isHero(mlir::Operation *op) const { return true; }

  /// The kind of op that isHero accepts, for messages: "a reduction over
  /// leading axes".
  virtual llvm::StringRef getWanted() const { return "another op"; }

  /// The ops that may share a kernel with the hero.
  virtual Company getCompany() const = 0;

  /// The ops around the hero that the kernel fuses.
  virtual Growth getGrowth() const { return Growth::None; }

  /// True if kernels of this kind hold elementwise ops alone, over the shape of
  /// their results.
  bool isElementwise() const { return getGrowth() == Growth::Elementwise; }

  /// True if the kernel reads the elements a second time for ops that need a
  /// result of the reductions, as softmax needs the sum of its row. Row kernels
  /// do, column kernels do not.
  virtual bool passesAgain() const { return false; }

  /// True if several regions of this kind can be segments of one kernel.
  virtual bool hasSegments() const { return false; }

  /// True if a library calls kernels of this kind for tiles of its result. Such
  /// kernels have neither launch nor partition.
  virtual bool isCalledPerTile() const { return false; }

  /// True if the hero reads each operand from a buffer in memory, even a
  /// constant.
  virtual bool readsMemory() const { return false; }

  /// True if the loops load each element once, and need no particular alignment
  /// of rows. Such a kernel can read a box of a tensor, padded rows, or a
  /// gradient that the kernel divides by the loss scale while loading.
  virtual bool loadsByElement() const { return false; }

  /// True if the loops can load and store whole rows in any order. A transpose
  /// that keeps the last axis in place needs nothing else, and can join the
  /// kernel.
  virtual bool loadsInAnyOrder() const { return false; }

  /// storesArranged: true if the loops can store a result in the order of its
  /// transpose. storesJoined: true if the loops can store several values side
  /// by side, as the parts of a concat.
  virtual bool storesArranged() const { return false; }
  virtual bool storesJoined() const { return false; }

  /// True if the loops can store a result in a box of a larger tensor. All
  /// loops that store by strides can.
  bool storesPlaced() const { return loadsInAnyOrder() || storesArranged(); }

  /// True if `kernel` may write a result over an operand that no product
  /// multiplies. The thread that writes an element must be the only thread that
  /// reads the operand's element at the same position. False if values are
  /// loaded or stored in another order.
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

/// True if a result of the kernel may use the memory of the kernel's argument
/// `argument`. The kernel must write where it reads, and have a result of the
/// argument's type. An op other than the product must read the argument: for
/// example, the weight update behind a weight gradient overwrites the weight.
bool mayBeWrittenOver(mlir::BlockArgument argument, const TargetInfo &target);

/// True if `op` may be part of a kernel of `kind`.
bool mayHold(KernelKind kind, mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELHERO_H
