// Finds the numbers in a range that pass a test, with all threads of a block.
// Each thread tests some of the numbers. The numbers that pass are listed in
// shared memory, in order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_BLOCKSEARCH_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_BLOCKSEARCH_H

#include "passes/Codegen/Kernels/Loops/KernelContext.h"

namespace mpc::codegen {

/// Searches [0, size) in rounds, so that the lists have a bounded size. For
/// example, a block of 256 threads finds the updates of its table rows among
/// 8192 ids in eight rounds of 1024. In each round, each thread loads four ids,
/// and all found ids are listed before the next round.
class BlockSearch {
public:
  /// The result of testing one number: `passes` (i1), and `mark`, an index of
  /// at most 31 bits that is listed along with a number that passes.
  struct Found {
    mlir::Value passes, mark;
  };
  using Test = llvm::function_ref<Found(mlir::Value number)>;
  /// Emits the use of the `count` numbers that a round has listed. The round
  /// started at number `first`.
  using Use = llvm::function_ref<void(mlir::Value first, mlir::Value count)>;

  BlockSearch(KernelContext &context, int64_t size);

  /// Emits all rounds; every thread of the block must reach them. All threads
  /// run `use` once per round. `use` must not contain barriers.
  void emit(Test test, Use use);

  /// Return the number and the mark in entry `place` of the lists. The current
  /// round started at number `first`.
  mlir::Value getNumber(mlir::Value first, mlir::Value place);
  mlir::Value getMark(mlir::Value place);

private:
  /// One thread's test of the number `offset` after the first number of the
  /// round. Bit i of `lanes` is set if the number of the warp's lane i passes.
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
  /// The numbers that a thread tests per round, and the threads of the block.
  int64_t share, threads;
  /// Shared memory, all i32: the listed numbers, their marks, and the count of
  /// each warp.
  mlir::Value numbers, marks, totals;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_BLOCKSEARCH_H
