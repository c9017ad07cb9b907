// How the threads of a block look through numbers together: each tests some,
// and those that pass are listed in shared memory, in their order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_BLOCKSEARCH_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_BLOCKSEARCH_H

#include "passes/Codegen/Kernels/Loops/KernelContext.h"

namespace mpc::codegen {

/// The search through [0, size) in rounds, so that the lists have a bound.
/// For example, a block of 256 threads that looks for the updates of its rows
/// of a table among 8192 ids does so in eight rounds of 1024: each thread loads
/// four ids, and all that were found are in both lists before the next round.
class BlockSearch {
public:
  /// What a number was found to be: `passes` (i1), and an index of at most 31
  /// bits that is listed beside it.
  struct Found {
    mlir::Value passes, mark;
  };
  using Test = llvm::function_ref<Found(mlir::Value number)>;
  /// What a round does with `count` (index) listed numbers.
  using Use = llvm::function_ref<void(mlir::Value first, mlir::Value count)>;

  BlockSearch(KernelContext &context, int64_t size);

  /// Emits all rounds, which every thread of the block must reach. `use` is run
  /// by all threads once a round; it has no barriers.
  void emit(Test test, Use use);

  /// Entry `place` (index) of the lists, in the round from number `first` on.
  mlir::Value getNumber(mlir::Value first, mlir::Value place);
  mlir::Value getMark(mlir::Value place);

private:
  /// What a thread found of one number, `offset` behind the round's first, and
  /// the bits of the warp's lanes that found theirs to pass.
  struct Tested {
    mlir::Value offset, passes, mark, lanes;
  };

  llvm::SmallVector<Tested> runTests(mlir::Value first, mlir::Value start,
                                     Test test);
  std::pair<mlir::Value, mlir::Value>
  addTotals(mlir::Value warp, mlir::Value lane, mlir::Value own);
  mlir::Value list(mlir::Value first, Test test);

  KernelContext &context;
  mlir::ImplicitLocOpBuilder &b;
  int64_t size;
  /// Numbers that a thread tests in a round, and threads.
  int64_t share, threads;
  /// In shared memory, all i32: the lists, and how many each warp found.
  mlir::Value numbers, marks, totals;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_BLOCKSEARCH_H
