// A change of layout, cut into slices that workers share: by oneDNN, or by
// routines of our own into the order that bf16 products are made of most.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_SLICEDREORDER_H
#define MPC_RUNTIME_CPU_ONEDNN_SLICEDREORDER_H

#include "runtime/cpu/PairedRows.h"
#include "runtime/cpu/onednn/OneDNN.h"

#include <cstdint>
#include <optional>

namespace mpc::runtime {

/// The order that `pairRows` writes, if it can make `to` of `from`: a bf16
/// matrix in rows or columns.
std::optional<PairedLayout> findPairedLayout(const dnnl::memory::desc &from,
                                             const dnnl::memory::desc &to);

/// Copies a tensor from one layout to another, a few rows of its first axis per
/// slice. Where a layout's blocks cannot be cut along that axis there is one
/// slice.
class SlicedReorder {
public:
  SlicedReorder() = default;

  /// Throws dnnl::error where the library knows no such reorder.
  SlicedReorder(const dnnl::memory::desc &from, const dnnl::memory::desc &to,
                int workers);

  /// Indices [first, first + count) of the first axis.
  struct Rows {
    int64_t first, count;
  };
  Rows rowsOf(int64_t slice) const;
  int64_t slices() const { return (extent + rowsPerSlice - 1) / rowsPerSlice; }
  size_t scratchBytes() const;

  /// `from` and `to` are where the whole tensors start.
  Status run(int64_t slice, int worker, const std::byte *from, std::byte *to,
             void *scratch);

private:
  WorkerPrimitive makePrimitive(int64_t count, dnnl::memory::desc from,
                                dnnl::memory::desc to, int workers) const;

  int64_t extent = 0, rowsPerSlice = 1;
  /// Bytes from one slice to the next.
  int64_t fromStep = 0, toStep = 0;
  WorkerPrimitive primitives[2]; ///< full slices; the last if it has fewer rows
  /// Where no primitive is needed; `pairedSource` has no data.
  std::optional<PairedLayout> paired;
  StoredMatrix pairedSource;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_SLICEDREORDER_H
