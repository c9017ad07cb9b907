// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/SlicedReorder.h"

#include <algorithm>
#include <numeric>

namespace mpc::runtime {

/// Approximate number of elements per slice.
static constexpr int64_t kSliceElements = 1 << 16;

/// Returns how many adjacent indices of the first axis a block of the layout
/// holds: 16 for OIhw16i16o.
static int64_t firstAxisBlock(const dnnl::memory::desc &desc) {
  const dnnl::memory::dims axes = desc.get_inner_idxs();
  const dnnl::memory::dims blocks = desc.get_inner_blks();
  int64_t block = 1;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == 0)
      block *= blocks[i];
  return block;
}

/// Returns the layout of indices [first, first + count) of the first axis.
/// Empty if a block of the layout would be cut.
static dnnl::memory::desc rowsOfDesc(const dnnl::memory::desc &desc,
                                     int64_t first, int64_t count) {
  dnnl::memory::dims dims = desc.get_dims(), offsets(dims.size(), 0);
  dims[0] = count;
  offsets[0] = first;
  return desc.submemory_desc(dims, offsets, /*allow_empty=*/true);
}

/// Returns the offset in bytes of index `first` of the first axis.
static int64_t offsetOfRow(const dnnl::memory::desc &desc, int64_t first) {
  const dnnl::memory::desc rows =
      rowsOfDesc(desc, first, desc.get_dims()[0] - first);
  return (rows.get_submemory_offset() - desc.get_submemory_offset()) *
         static_cast<int64_t>(
             dnnl::memory::data_type_size(desc.get_data_type()));
}

/// Returns the row-major or column-major storage of a matrix; nullopt for other
/// layouts, such as blocks.
static std::optional<StoredMatrix> asStored(const dnnl::memory::desc &desc) {
  if (desc.get_inner_nblks() != 0 || desc.get_submemory_offset() != 0)
    return std::nullopt;
  const dnnl::memory::dims strides = desc.get_strides();
  if (strides[1] == 1)
    return StoredMatrix{nullptr, strides[0], false};
  if (strides[0] == 1)
    return StoredMatrix{nullptr, strides[1], true};
  return std::nullopt;
}

std::optional<PairedLayout> findPairedLayout(const dnnl::memory::desc &from,
                                             const dnnl::memory::desc &to) {
  constexpr auto kBF16 = dnnl::memory::data_type::bf16;
  if (to.get_ndims() != 2 || from.get_ndims() != 2 ||
      to.get_data_type() != kBF16 || from.get_data_type() != kBF16 ||
      to.get_submemory_offset() != 0 || !asStored(from))
    return std::nullopt;
  // A block must have 16 pairs of rows by `width` columns, with adjacent pairs.
  const dnnl::memory::dims blocks = to.get_inner_blks();
  if (to.get_inner_idxs() != dnnl::memory::dims{0, 1, 0} ||
      blocks[0] * 2 != PairedLayout::kBlockRows || blocks[1] % 16 != 0 ||
      blocks[2] != 2)
    return std::nullopt;
  // Blocks of the same columns must be consecutive, without gaps.
  const PairedLayout layout{to.get_dims()[0], to.get_dims()[1], blocks[1]};
  const dnnl::memory::dims strides = to.get_strides();
  if (strides[0] != layout.blockElements() ||
      strides[1] != layout.rowBlocks() * layout.blockElements())
    return std::nullopt;
  return layout;
}

SlicedReorder::SlicedReorder(const dnnl::memory::desc &from,
                             const dnnl::memory::desc &to, int workers)
    : extent(from.get_dims()[0]), rowsPerSlice(extent) {
  // A slice has enough whole blocks of rows to be worth handing out.
  const int64_t block = std::lcm(firstAxisBlock(from), firstAxisBlock(to));
  const dnnl::memory::dims dims = from.get_dims();
  const int64_t rowElements = std::accumulate(dims.begin() + 1, dims.end(),
                                              int64_t(1), std::multiplies<>());
  const int64_t wanted = std::max(kSliceElements / rowElements, int64_t(1));
  const int64_t rows = (wanted + block - 1) / block * block;

  // The most frequent case: blocks of 32 rows, packed by pairRows.
  if ((paired = findPairedLayout(from, to))) {
    pairedSource = *asStored(from);
    rowsPerSlice = std::min(rows, extent);
    return;
  }

  packed = FilterBlocks::find(from, to);
  if (!packed && to.get_data_type() == dnnl::memory::data_type::f32)
    unpacked = FilterBlocks::find(to, from);
  if (packed || unpacked) {
    const int64_t step =
        std::lcm(block, (packed ? packed : unpacked)->firstAxisStep());
    rowsPerSlice = std::min((wanted + step - 1) / step * step, extent);
    return;
  }

  // Use several slices only if both layouts can be cut between blocks.
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

/// Makes the reorder primitive for slices of `count` rows. If the last slice
/// has `count` rows, the primitive describes the last rows, because only the
/// last rows have the padding of the axis. Otherwise, the primitive describes
/// the first rows.
WorkerPrimitive SlicedReorder::makePrimitive(int64_t count,
                                             dnnl::memory::desc from,
                                             dnnl::memory::desc to,
                                             int workers) const {
  if (count < extent) {
    const int64_t first = extent % rowsPerSlice == count ? extent - count : 0;
    from = rowsOfDesc(from, first, count);
    to = rowsOfDesc(to, first, count);
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
  if (packed || unpacked)
    return (packed ? packed : unpacked)->scratchBytes();
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
  if (packed || unpacked) {
    const Rows rows = rowsOf(slice);
    if (packed)
      packed->pack(rows.first, rows.count, from, to, scratch);
    else
      unpacked->unpack(rows.first, rows.count, from, to, scratch);
    return Status();
  }
  // The last, smaller slice has a primitive of its own, whose layouts include
  // the offset.
  if (rowsOf(slice).count != rowsPerSlice)
    return primitives[1].run(worker, {from, to}, scratch);
  return primitives[0].run(
      worker, {from + slice * fromStep, to + slice * toStep}, scratch);
}

} // namespace mpc::runtime
