// Reorders convolution filters to and from oneDNN's blocked layouts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_FILTERBLOCKS_H
#define MPC_RUNTIME_CPU_CONV_FILTERBLOCKS_H

#include "runtime/cpu/onednn/OneDNN.h"

#include <optional>

namespace mpc::runtime {

/// Reorders filters between a plain layout (OIHW or GOIHW, of any rank) and a
/// blocked layout. In the blocked layout, 8 or 16 outputs (or inputs) are
/// adjacent; bf16 may be interleaved in pairs of inputs (or outputs).
class FilterBlocks {
public:
  /// Returns nullopt if the layouts are not of this form, or if the element
  /// types differ.
  static std::optional<FilterBlocks> find(const dnnl::memory::desc &plain,
                                          const dnnl::memory::desc &blocked);

  size_t scratchBytes() const;
  /// Each call of pack or unpack must begin at a multiple of this many indices
  /// of the first axis.
  int64_t firstAxisStep() const {
    return hasGroups ? 1 : lanesAreFirst ? width : hasPairs ? 2 : 1;
  }
  /// Writes indices [first, first + count) of the first axis of `blocked`.
  /// After the last index, also writes the zeros of the padding. `plain` and
  /// `blocked` are the addresses of the whole tensors.
  void pack(int64_t first, int64_t count, const std::byte *plain,
            std::byte *blocked, void *scratch) const;
  /// Reads indices [first, first + count) of the first axis of `blocked`, which
  /// must be f32.
  void unpack(int64_t first, int64_t count, const std::byte *blocked,
              std::byte *plain, void *scratch) const;

private:
  /// An axis that the blocked layout divides into blocks: outputs or inputs.
  struct Axis {
    int64_t extent = 0, stride = 0; ///< in the plain layout
    std::vector<int64_t> offsets;   ///< in the blocked layout, with padding
    bool hasSteps(int64_t length, int64_t step) const;
  };
  struct Range {
    int64_t first, last;
  };
  /// The indices that one call of pack or unpack processes.
  struct Part {
    Range groups, lanes, others;
  };
  Part partOf(int64_t first, int64_t count, bool withPadding) const;
  int64_t othersAtOnce() const;
  /// The part of a group that passes through scratch at once: `lanes` indices
  /// of the axis in the lanes, and `others` indices of the other axis.
  struct Tile {
    int64_t group, lane, lanes, other, others;
  };
  template <typename Prefetch, typename Body>
  void forEachTile(const Part &part, Prefetch prefetch, Body body) const;
  template <typename T>
  void prefetchTile(const Tile &tile, const T *plain, const T *blocked) const;
  template <typename T, int kLanes>
  void packTiles(const Part &part, const T *plain, T *blocked,
                 T *scratch) const;
  template <typename T, int kLanes>
  void unpackTiles(const Part &part, const T *blocked, T *plain,
                   T *scratch) const;

  int64_t elementBytes = 0;
  bool hasGroups = false, lanesAreFirst = false;
  bool hasPairs = false;
  int64_t width = 16; ///< lanes of a vector
  int64_t groups = 1, plainGroup = 0, blockedGroup = 0;
  Axis lanes, others;
  std::vector<int64_t> taps; ///< offsets in the blocked layout
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_FILTERBLOCKS_H
