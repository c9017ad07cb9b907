// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/SlicedReorder.h"

#include <algorithm>
#include <numeric>

namespace mpc::runtime {

/// Elements that one slice moves, about.
static constexpr int64_t kSliceElements = 1 << 16;

/// How many neighbours along the first axis a layout keeps in one block: 16 for
/// OIhw16i16o.
static int64_t firstAxisBlock(const dnnl::memory::desc &desc) {
  const auto &blocking = desc.data.format_desc.blocking;
  int64_t block = 1;
  for (int i = 0; i < blocking.inner_nblks; ++i)
    if (blocking.inner_idxs[i] == 0)
      block *= blocking.inner_blks[i];
  return block;
}

/// Rows [first, first + count) of a tensor; empty where its layout cannot be
/// cut there.
static dnnl::memory::desc rowsOfDesc(const dnnl::memory::desc &desc,
                                     int64_t first, int64_t count) {
  dnnl::memory::dims dims = desc.dims(), offsets(dims.size(), 0);
  dims[0] = count;
  offsets[0] = first;
  return desc.submemory_desc(dims, offsets, /*allow_empty=*/true);
}

/// Bytes from the tensor's start to row `first`.
static int64_t offsetOfRow(const dnnl::memory::desc &desc, int64_t first) {
  const dnnl::memory::desc rows =
      rowsOfDesc(desc, first, desc.dims()[0] - first);
  return (rows.data.offset0 - desc.data.offset0) *
         static_cast<int64_t>(dnnl::memory::data_type_size(desc.data_type()));
}

/// How a matrix is stored, in rows or in columns; nothing where it is neither,
/// as in blocks.
static std::optional<StoredMatrix> asStored(const dnnl::memory::desc &desc) {
  const auto &blocking = desc.data.format_desc.blocking;
  if (blocking.inner_nblks != 0 || desc.data.offset0 != 0)
    return std::nullopt;
  if (blocking.strides[1] == 1)
    return StoredMatrix{nullptr, blocking.strides[0], false};
  if (blocking.strides[0] == 1)
    return StoredMatrix{nullptr, blocking.strides[1], true};
  return std::nullopt;
}

std::optional<PairedLayout> findPairedLayout(const dnnl::memory::desc &from,
                                             const dnnl::memory::desc &to) {
  constexpr auto kBF16 = dnnl::memory::data_type::bf16;
  if (to.data.ndims != 2 || from.data.ndims != 2 || to.data_type() != kBF16 ||
      from.data_type() != kBF16 || to.data.offset0 != 0 || !asStored(from))
    return std::nullopt;
  // 16 pairs of rows by `width` columns, two of a pair side by side.
  const auto &blocking = to.data.format_desc.blocking;
  if (blocking.inner_nblks != 3 || blocking.inner_idxs[0] != 0 ||
      blocking.inner_idxs[1] != 1 || blocking.inner_idxs[2] != 0 ||
      blocking.inner_blks[0] * 2 != PairedLayout::kBlockRows ||
      blocking.inner_blks[1] % 16 != 0 || blocking.inner_blks[2] != 2)
    return std::nullopt;
  // Blocks of the same columns one after another, nothing between them.
  const PairedLayout layout{to.dims()[0], to.dims()[1], blocking.inner_blks[1]};
  if (blocking.strides[0] != layout.blockElements() ||
      blocking.strides[1] != layout.rowBlocks() * layout.blockElements())
    return std::nullopt;
  return layout;
}

SlicedReorder::SlicedReorder(const dnnl::memory::desc &from,
                             const dnnl::memory::desc &to, int workers)
    : extent(from.dims()[0]), rowsPerSlice(extent) {
  // As many whole blocks of rows as make a slice worth handing out.
  const int64_t block = std::lcm(firstAxisBlock(from), firstAxisBlock(to));
  const dnnl::memory::dims dims = from.dims();
  const int64_t rowElements = std::accumulate(dims.begin() + 1, dims.end(),
                                              int64_t(1), std::multiplies<>());
  const int64_t wanted = std::max(kSliceElements / rowElements, int64_t(1));
  const int64_t rows = (wanted + block - 1) / block * block;

  // The most frequent order of all, whose rows go by 32.
  if ((paired = findPairedLayout(from, to))) {
    pairedSource = *asStored(from);
    rowsPerSlice = std::min(rows, extent);
    return;
  }

  // Cut only if both layouts can be.
  if (rows < extent && !rowsOfDesc(from, rows, extent - rows).is_zero() &&
      !rowsOfDesc(to, rows, extent - rows).is_zero()) {
    rowsPerSlice = rows;
    fromStep = offsetOfRow(from, rows);
    toStep = offsetOfRow(to, rows);
  }
  primitives[0] = makePrimitive(rowsPerSlice, from, to, workers);
  if (const int64_t rest = extent % rowsPerSlice)
    primitives[1] = makePrimitive(rest, from, to, workers);
}

/// The reorder of the last `count` rows, which alone have the padding of their
/// axis, or of as many before them. Where they start is for the caller to say.
WorkerPrimitive SlicedReorder::makePrimitive(int64_t count,
                                             dnnl::memory::desc from,
                                             dnnl::memory::desc to,
                                             int workers) const {
  if (count < extent) {
    const int64_t first = extent % rowsPerSlice == count ? extent - count : 0;
    from = rowsOfDesc(from, first, count);
    to = rowsOfDesc(to, first, count);
    from.data.offset0 = to.data.offset0 = 0;
  }
  dnnl::engine &engine = dnnlEngine();
  dnnl::reorder::primitive_desc desc(engine, from, engine, to,
                                     dnnlAttributes());
  return WorkerPrimitive(dnnl::reorder(desc),
                         {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
                         desc.scratchpad_desc(), workers);
}

SlicedReorder::Rows SlicedReorder::rowsOf(int64_t slice) const {
  const int64_t first = slice * rowsPerSlice;
  return {first, std::min(rowsPerSlice, extent - first)};
}

size_t SlicedReorder::scratchBytes() const {
  return std::max(primitives[0].scratchBytes(), primitives[1].scratchBytes());
}

Status SlicedReorder::run(int64_t slice, int worker, const std::byte *from,
                          std::byte *to, void *scratch) {
  if (paired) {
    StoredMatrix source = pairedSource;
    source.data = reinterpret_cast<const uint16_t *>(from);
    const Rows rows = rowsOf(slice);
    const int64_t first = rows.first / PairedLayout::kBlockRows;
    const int64_t last =
        (rows.first + rows.count + PairedLayout::kBlockRows - 1) /
        PairedLayout::kBlockRows;
    pairRows(source, *paired, first, last, reinterpret_cast<uint16_t *>(to));
    return Status();
  }
  const bool isShort = rowsOf(slice).count != rowsPerSlice;
  return primitives[isShort].run(
      worker, {from + slice * fromStep, to + slice * toStep}, scratch);
}

} // namespace mpc::runtime
