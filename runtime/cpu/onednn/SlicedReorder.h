// Changes the layout of a tensor in slices that workers share. Uses oneDNN, or
// mpc's own routines for the layout that most bf16 products use.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_SLICEDREORDER_H
#define MPC_RUNTIME_CPU_ONEDNN_SLICEDREORDER_H

#include "runtime/cpu/PairedRows.h"
#include "runtime/cpu/conv/FilterBlocks.h"
#include "runtime/cpu/onednn/OneDNN.h"

#include <cstdint>
#include <optional>

namespace mpc::runtime {

/// Describes `to` as a layout that `pairRows` can write from `from`; nullopt if
/// it cannot. `from` must be a row-major or column-major bf16 matrix.
std::optional<PairedLayout> findPairedLayout(const dnnl::memory::desc &from,
                                             const dnnl::memory::desc &to);

/// Copies a tensor from one layout to another. A slice copies a few rows of the
/// first axis. If the blocks of a layout cannot be cut along that axis, there
/// is one slice.
class SlicedReorder {
public:
  SlicedReorder() = default;

  /// Throws dnnl::error if oneDNN has no such reorder.
  SlicedReorder(const dnnl::memory::desc &from, const dnnl::memory::desc &to,
                int workers);

  /// Indices [first, first + count) of the first axis.
  struct Rows {
    int64_t first, count;
  };
  Rows rowsOf(int64_t slice) const;
  int64_t slices() const { return (extent + rowsPerSlice - 1) / rowsPerSlice; }
  size_t scratchBytes() const;

  /// Copies one slice. `from` and `to` are the starts of the whole tensors.
  Status run(int64_t slice, int worker, const std::byte *from, std::byte *to,
             void *scratch);

private:
  WorkerPrimitive makePrimitive(int64_t count, dnnl::memory::desc from,
                                dnnl::memory::desc to, int workers) const;

  int64_t extent = 0, rowsPerSlice = 1;
  /// Distance in bytes between the starts of two slices, in source and result.
  int64_t fromStep = 0, toStep = 0;
  /// [0] for full slices, [1] for the last slice if it has fewer rows.
  WorkerPrimitive primitives[2];
  /// Set if pairRows does the work, without a primitive. `pairedSource` has no
  /// data.
  std::optional<PairedLayout> paired;
  StoredMatrix pairedSource;
  std::optional<FilterBlocks> packed, unpacked;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_SLICEDREORDER_H
