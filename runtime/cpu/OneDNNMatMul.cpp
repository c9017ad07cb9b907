// Matrix products by oneDNN, one tile of the result per slice.
//
// Up to three phases, each shared among the workers:
//
//   widen  only where an operand's type is not one the library multiplies on
//          this target: the operand in f32, in blocks of rows
//   pack   only where the library has an order of its own for b: b's panels in
//          that order, and a as dense rows where it is stored in columns, or in
//          rows of a wider matrix, and the library would else not take b's
//          order. A panel is packed once,
//          however many tiles read it.
//   tiles  each over all of k at once, either into the result or into fp32
//          scratch that stays in the worker's cache, where the epilogue, or the
//          final scaling and rounding, takes it from
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/OneDNN.h"
#include "runtime/cpu/OneDNNProvider.h"
#include "runtime/cpu/SlicedReorder.h"
#include "runtime/cpu/Transpose.h"

#include <cstring>
#include <string_view>

namespace mpc::runtime {
namespace {

/// Elements that one slice of the widening phase takes, about.
constexpr int64_t kWidenBlock = 1 << 16;
/// What one slice turns of an operand stored in columns: long runs of the
/// result's rows, and whole cache lines of the source.
constexpr int64_t kBlockRows = 128, kBlockDepth = 512;

/// An operand as the primitive reads it: stored matrices of rows x columns.
struct MatrixOperand {
  Operand source;
  int64_t matrices = 1, rows = 0, columns = 0, ld = 0;
  bool transposed = false;
  bool widened = false;
  size_t sharedOffset = 0; ///< of the widened copy

  MatrixOperand(Operand source, const MatMulStep &step, int64_t first,
                int64_t rows, int64_t columns, int64_t ld, int64_t stride,
                const std::vector<int64_t> &outerStrides, bool transposed)
      : source(source), rows(rows), columns(columns), ld(ld),
        transposed(transposed), first(first), stride(stride), batch(step.batch),
        outer(step.outer), outerStrides(outerStrides) {
    bool repeats = stride == 0;
    for (int64_t elements : outerStrides)
      repeats &= elements == 0;
    matrices = repeats ? 1 : step.batches();
  }

  /// Takes room in shared memory for a dense copy in f32.
  void widen(size_t &sharedBytes) {
    widened = true;
    sharedOffset = sharedBytes;
    sharedBytes += alignScratch(elements() * sizeof(float));
  }

  DType type() const { return widened ? DType::F32 : source.type; }
  int64_t leading() const { return widened ? columns : ld; }

  /// The element (row, column) of op(matrix) number `index` of the batch.
  const std::byte *at(int64_t index, int64_t row, int64_t column,
                      std::byte *shared) const {
    if (transposed)
      std::swap(row, column);
    if (!widened)
      return source.at(offsetOf(index) + row * ld + column);
    int64_t matrix = matrices == 1 ? 0 : index;
    return shared + sharedOffset +
           ((matrix * rows + row) * columns + column) *
               static_cast<int64_t>(sizeof(float));
  }

  dnnl::memory::desc desc(int64_t opRows, int64_t opColumns) const {
    dnnl::memory::dims strides = {leading(), 1};
    if (transposed)
      std::swap(strides[0], strides[1]);
    return {{opRows, opColumns}, dnnlType(type()), strides};
  }

  int64_t elements() const { return matrices * rows * columns; }
  int64_t widenedElements() const { return widened ? elements() : 0; }
  bool isDense() const {
    return ld == columns && (matrices == 1 || (stride == rows * columns &&
                                               outer.extents.empty()));
  }
  /// The elements before matrix `index` in the source.
  int64_t offsetOf(int64_t index) const {
    return first + outer.offsetOf(outerStrides, index, batch, stride);
  }

  // Widening goes by blocks of whole rows of all matrices.
  int64_t rowsPerBlock() const {
    return std::max<int64_t>(1, kWidenBlock / columns);
  }
  int64_t widenSlices() const {
    int64_t block = rowsPerBlock();
    return widened ? (matrices * rows + block - 1) / block : 0;
  }
  void runWiden(int64_t slice, std::byte *shared) const {
    int64_t begin = slice * rowsPerBlock();
    int64_t end = std::min(begin + rowsPerBlock(), matrices * rows);
    auto *result = reinterpret_cast<float *>(shared + sharedOffset);
    if (isDense())
      return runtime::widen(source.type, source.at(first + begin * columns),
                            result + begin * columns, (end - begin) * columns);
    for (int64_t row = begin; row < end; ++row)
      runtime::widen(source.type,
                     source.at(offsetOf(row / rows) + row % rows * ld),
                     result + row * columns, columns);
  }

private:
  int64_t first, stride, batch;
  OuterAxes outer;
  std::vector<int64_t> outerStrides;
};

/// The panels of an operand, one for each tile along m or n, in an order made
/// for the primitive: an absent one has no panels.
class PackedPanels {
public:
  PackedPanels() = default;

  /// `from` and `to` lay out a full panel and, where it is smaller, the last.
  PackedPanels(int64_t matrices, int64_t panels,
               const dnnl::memory::desc (&from)[2],
               const dnnl::memory::desc (&to)[2], int workers)
      : matrices(matrices), panels(panels), hasSmaller(!to[1].is_zero()) {
    for (int i = 0; i <= int(hasSmaller); ++i) {
      layouts[i] = to[i];
      reorders[i] = SlicedReorder(from[i], to[i], workers);
      panelBytes = std::max(panelBytes, alignScratch(to[i].get_size()));
    }
  }

  explicit operator bool() const { return panels > 0; }
  const dnnl::memory::desc &layout(bool isSmaller) const {
    return layouts[isSmaller];
  }
  size_t scratchBytes() const {
    return std::max(reorders[0].scratchBytes(), reorders[1].scratchBytes());
  }

  /// Takes room for all panels in memory of which `bytes` are taken.
  void reserve(size_t &bytes) {
    offset = bytes;
    bytes += panelBytes * size_t(matrices * panels);
  }
  std::byte *at(int64_t index, int64_t panel, std::byte *memory) const {
    const int64_t matrix = matrices == 1 ? 0 : index;
    return memory + offset + panelBytes * size_t(matrix * panels + panel);
  }

  // Packing goes by slices of panels.
  int64_t slices() const { return matrices * slicesPerMatrix(); }
  struct Part {
    int64_t matrix, panel, slice;
  };
  Part partOf(int64_t slice) const {
    const int64_t matrix = slice / slicesPerMatrix();
    const int64_t inMatrix = slice % slicesPerMatrix();
    const int64_t panel =
        std::min(inMatrix / reorders[0].slices(), panels - hasSmaller);
    return {matrix, panel, inMatrix - panel * reorders[0].slices()};
  }
  /// `memory` is where room was taken, `scratch` has scratchBytes() bytes.
  Status run(const Part &part, int worker, const std::byte *from,
             std::byte *memory, std::byte *scratch) {
    const bool isSmaller = hasSmaller && part.panel + 1 == panels;
    return reorders[isSmaller].run(
        part.slice, worker, from, at(part.matrix, part.panel, memory), scratch);
  }

private:
  int64_t slicesPerMatrix() const {
    return (panels - hasSmaller) * reorders[0].slices() +
           (hasSmaller ? reorders[1].slices() : 0);
  }

  int64_t matrices = 0, panels = 0;
  bool hasSmaller = false; ///< the last panel
  dnnl::memory::desc layouts[2];
  SlicedReorder reorders[2];
  size_t panelBytes = 0, offset = 0;
};

/// Matrices of rows x depth that are stored in columns, or in rows with
/// something between them, as dense rows: an absent one has no matrices.
class DenseRows {
public:
  DenseRows() = default;
  DenseRows(int64_t matrices, int64_t rows, int64_t depth, DType type,
            bool inColumns)
      : matrices(matrices), rows(rows), depth(depth), type(type),
        inColumns(inColumns) {}

  explicit operator bool() const { return matrices > 0; }

  /// Takes room for all matrices in memory of which `bytes` are taken.
  void reserve(size_t &bytes) {
    offset = bytes;
    bytes += alignScratch(size_t(matrices * rows * depth * sizeOf(type)));
  }
  std::byte *at(int64_t index, int64_t row, std::byte *memory) const {
    const int64_t matrix = matrices == 1 ? 0 : index;
    return memory + offset + (matrix * rows + row) * depth * sizeOf(type);
  }

  // Rows are made by blocks, those of the same rows one after another.
  int64_t slices() const { return matrices * rowBlocks() * depthBlocks(); }
  struct Part {
    int64_t matrix, row, depth;
  };
  Part partOf(int64_t slice) const {
    const int64_t block = slice / depthBlocks();
    return {block / rowBlocks(), block % rowBlocks() * kBlockRows,
            slice % depthBlocks() * kBlockDepth};
  }
  /// `from` is where the part starts; what it is stored in, rows or columns,
  /// lies `leading` elements apart. `memory` is where room was taken.
  void run(const Part &part, const std::byte *from, int64_t leading,
           std::byte *memory) const {
    std::byte *to =
        at(part.matrix, part.row, memory) + part.depth * sizeOf(type);
    if (!inColumns)
      copyRows(part, from, leading, to);
    else if (type == DType::F32)
      turn<uint32_t>(part, from, leading, to);
    else
      turn<uint16_t>(part, from, leading, to);
  }

private:
  int64_t rowBlocks() const { return (rows + kBlockRows - 1) / kBlockRows; }
  int64_t depthBlocks() const {
    return (depth + kBlockDepth - 1) / kBlockDepth;
  }
  int64_t rowsOf(const Part &part) const {
    return std::min(kBlockRows, rows - part.row);
  }
  int64_t depthOf(const Part &part) const {
    return std::min(kBlockDepth, depth - part.depth);
  }
  template <typename T>
  void turn(const Part &part, const std::byte *from, int64_t leading,
            std::byte *to) const {
    transpose(reinterpret_cast<const T *>(from), leading,
              reinterpret_cast<T *>(to), depth, depthOf(part), rowsOf(part));
  }
  void copyRows(const Part &part, const std::byte *from, int64_t leading,
                std::byte *to) const {
    for (int64_t row = 0; row < rowsOf(part); ++row)
      std::memcpy(to + row * depth * sizeOf(type),
                  from + row * leading * sizeOf(type),
                  size_t(depthOf(part) * sizeOf(type)));
  }

  int64_t matrices = 0, rows = 0, depth = 0;
  DType type = DType::F32;
  bool inColumns = false;
  size_t offset = 0;
};

class OneDNNMatMul : public Contraction {
public:
  OneDNNMatMul(const MatMulStep &step, MatMulOperands operands)
      : step(step), c(operands.c), epilogue(std::move(operands.epilogue)),
        a(operands.a, step, step.offsetA, step.transA ? step.k : step.m,
          step.transA ? step.m : step.k, step.lda, step.strideA, step.outer.a,
          step.transA),
        b(operands.b, step, step.offsetB, step.transB ? step.n : step.k,
          step.transB ? step.k : step.n, step.ldb, step.strideB, step.outer.b,
          step.transB) {}

  Status prepare(const OneDNNConfig &config);
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&a.source, &b.source, &c}, epilogue);
  }

private:
  enum class Phase { Widen, Pack, Tiles };

  dnnl::matmul::primitive_desc describe(const dnnl::memory::desc &left,
                                        const dnnl::memory::desc &right) const;
  dnnl::memory::desc chooseLayoutOfB(bool densifiesA, int64_t columns,
                                     const OneDNNConfig &config) const;
  bool gainsByPackingForOneTile(const OneDNNConfig &config) const;
  bool mustDensifyA(const OneDNNConfig &config) const;
  void choosePacking(const OneDNNConfig &config);
  bool makePrimitive(int64_t rows, int64_t columns, const OneDNNConfig &config);
  bool makePrimitives(const OneDNNConfig &config);
  void addPhase(Phase phase, int64_t slices) {
    phases.push_back(phase);
    phaseSlices.push_back(slices);
  }
  Status runPack(int64_t slice, const SliceContext &context);
  Status packForTile(int64_t index, const SliceContext &context);
  int64_t widenSlices() const { return a.widenSlices() + b.widenSlices(); }
  void runWiden(int64_t slice, std::byte *shared) const;
  Status runTile(int64_t tile, const SliceContext &context);
  /// Where row `row` of matrix `index` of the result starts, in elements.
  int64_t offsetOfRow(int64_t index, int64_t row) const {
    return step.outer.offsetOf(step.outer.c, index, step.batch, step.strideC) +
           row * step.ldc;
  }
  std::byte *resultAt(int64_t index, int64_t row, int64_t column) const {
    return c.at(offsetOfRow(index, row) + column);
  }
  void finishTile(float *accumulators, int64_t index, int64_t row, int64_t rows,
                  int64_t column, int64_t columns) const;

  int64_t tileRows() const { return std::min(step.tileM, step.m); }
  int64_t tileColumns() const { return std::min(step.tileN, step.n); }
  WorkerPrimitive &primitiveFor(int64_t rows, int64_t columns) {
    return primitives[rows != tileRows()][columns != tileColumns()];
  }

  const MatMulStep step;
  Operand c;
  EpilogueCall epilogue;
  MatrixOperand a, b;
  bool direct = false;       ///< the primitive writes c itself
  bool widensAtOnce = false; ///< both operands in one slice
  DenseRows denseA;
  PackedPanels packedB;
  bool packsForTile = false; ///< into a worker's scratch, one matrix
  size_t padOffset = 0;      ///< of the library's scratch in a worker's
  std::vector<Phase> phases;
  int64_t tilesM = 0, tilesN = 0;
  WorkerPrimitive primitives[2][2]; ///< [last rows are fewer][last columns]
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// The product of two panels, into the result or into scratch.
dnnl::matmul::primitive_desc
OneDNNMatMul::describe(const dnnl::memory::desc &left,
                       const dnnl::memory::desc &right) const {
  const int64_t rows = left.dims()[0], columns = right.dims()[1];
  dnnl::memory::desc result({rows, columns},
                            dnnlType(direct ? c.type : DType::F32),
                            dnnl::memory::dims{direct ? step.ldc : columns, 1});
  return {dnnl::matmul::desc(left, right, result), dnnlAttributes(),
          dnnlEngine()};
}

/// Rows of a as they lie side by side.
static dnnl::memory::desc denseRows(int64_t rows, int64_t k, DType type) {
  return {{rows, k}, dnnlType(type), dnnl::memory::dims{k, 1}};
}

static bool isBlocked(const dnnl::memory::desc &desc) {
  return desc.data.format_desc.blocking.inner_nblks > 0;
}

/// The order in which the library would have a panel of b, where it may choose.
dnnl::memory::desc
OneDNNMatMul::chooseLayoutOfB(bool densifiesA, int64_t columns,
                              const OneDNNConfig &config) const {
  using Tag = dnnl::memory::format_tag;
  const Tag tag = config.packsAlways ? Tag::BA16a16b : Tag::any;
  dnnl::memory::desc right({step.k, columns}, dnnlType(b.type()), tag);
  if (config.packsAlways)
    return right;
  return describe(densifiesA ? denseRows(tileRows(), step.k, a.type())
                             : a.desc(tileRows(), step.k),
                  right)
      .weights_desc();
}

/// Whether the library would else copy the operands of each product itself, in
/// its general routine: with AMX that takes twenty times as long as the product
/// of an attention's head. Where it reorders, too, nothing is gained.
bool OneDNNMatMul::gainsByPackingForOneTile(const OneDNNConfig &config) const {
  if (tilesM * tilesN > 1)
    return false;
  if (config.packsAlways)
    return true;
  const dnnl::memory::desc stored = b.desc(step.k, step.n);
  const dnnl::matmul::primitive_desc unpacked =
      describe(a.desc(step.m, step.k), stored);
  const bool isGeneral =
      std::string_view(unpacked.impl_info_str()).rfind("gemm", 0) == 0;
  return isGeneral &&
         findPairedLayout(stored, chooseLayoutOfB(true, step.n, config));
}

/// Whether the library has an order of its own for b only where a lies in dense
/// rows. Columns are worth turning for any order, rows worth copying for the
/// one that is packed fast.
bool OneDNNMatMul::mustDensifyA(const OneDNNConfig &config) const {
  if (config.packsAlways)
    return a.transposed;
  const bool isDense = !a.transposed && a.leading() == step.k;
  if (isDense || isBlocked(chooseLayoutOfB(false, tileColumns(), config)))
    return false;
  return a.transposed ||
         findPairedLayout(b.desc(step.k, tileColumns()),
                          chooseLayoutOfB(true, tileColumns(), config));
}

/// Packs where panels of b are read by several tiles and the library has an
/// order of its own for them, or where one tile is all. Such an implementation
/// may want a in rows.
void OneDNNMatMul::choosePacking(const OneDNNConfig &config) {
  // Packing pays where a panel is read more than once.
  const int64_t readers = tilesM * (b.matrices == 1 ? step.batches() : 1);
  packsForTile = readers < 2 && gainsByPackingForOneTile(config);
  if (readers < 2 && !packsForTile && !config.packsAlways)
    return;
  const bool densifiesA = mustDensifyA(config);
  const int64_t lastColumns = step.n % step.tileN;
  const bool hasLastColumns = tilesN > 1 && lastColumns > 0;
  // The order that the library wants for b, also for its last, narrower panel.
  dnnl::memory::desc to[2] = {
      chooseLayoutOfB(densifiesA, tileColumns(), config)};
  if (!isBlocked(to[0]))
    return;
  if (hasLastColumns)
    to[1] = chooseLayoutOfB(densifiesA, lastColumns, config);
  packedB = PackedPanels(
      packsForTile ? 1 : b.matrices, tilesN,
      {b.desc(step.k, tileColumns()),
       hasLastColumns ? b.desc(step.k, lastColumns) : dnnl::memory::desc()},
      to, config.workers);
  if (densifiesA)
    denseA = DenseRows(packsForTile ? 1 : a.matrices, step.m, step.k, a.type(),
                       a.transposed);
}

/// False where only the library's reference takes what was packed.
bool OneDNNMatMul::makePrimitive(int64_t rows, int64_t columns,
                                 const OneDNNConfig &config) {
  // One primitive for each size of tile.
  WorkerPrimitive &primitive = primitiveFor(rows, columns);
  if (rows <= 0 || columns <= 0 || primitive)
    return true;
  dnnl::matmul::primitive_desc desc = describe(
      denseA ? denseRows(rows, step.k, a.type()) : a.desc(rows, step.k),
      packedB ? packedB.layout(columns != tileColumns())
              : b.desc(step.k, columns));
  // The library falls back on slow code for orders that it does not know.
  const bool isReference =
      std::string_view(desc.impl_info_str()).rfind("ref", 0) == 0;
  if (packedB && isReference && !config.packsAlways)
    return false;
  primitive = WorkerPrimitive(dnnl::matmul(desc),
                              {{DNNL_ARG_SRC, desc.src_desc()},
                               {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                               {DNNL_ARG_DST, desc.dst_desc()}},
                              desc.scratchpad_desc(), config.workers);
  scratchSize = std::max(scratchSize, primitive.scratchBytes());
  return true;
}

bool OneDNNMatMul::makePrimitives(const OneDNNConfig &config) {
  for (int64_t rows : {tileRows(), step.m % step.tileM})
    for (int64_t columns : {tileColumns(), step.n % step.tileN})
      if (!makePrimitive(rows, columns, config))
        return false;
  return true;
}

Status OneDNNMatMul::prepare(const OneDNNConfig &config) {
  // Types that the library multiplies.
  bool narrow = config.nativeBF16 && a.source.type == DType::BF16 &&
                b.source.type == DType::BF16;
  for (MatrixOperand *operand : {&a, &b})
    if (!narrow && operand->source.type != DType::F32)
      operand->widen(sharedSize);
  // Small operands are not worth meeting another thread for.
  widensAtOnce = a.widenedElements() + b.widenedElements() <= kWidenBlock;
  if (int64_t slices = widenSlices())
    addPhase(Phase::Widen, widensAtOnce ? 1 : slices);

  // A tile of a wide result is written through scratch: the library stores it
  // many times over, and rows far apart would share few lines of the cache.
  direct = !epilogue && step.alpha == 1 && tileColumns() == step.ldc &&
           (c.type == DType::F32 || (narrow && c.type == DType::BF16));
  tilesM = (step.m + step.tileM - 1) / step.tileM;
  tilesN = (step.n + step.tileN - 1) / step.tileN;

  Status status = catchDNNL("prepare a matrix product", [&] {
    choosePacking(config);
    if (makePrimitives(config))
      return;
    denseA = DenseRows();
    packedB = PackedPanels();
    for (auto &row : primitives)
      row[0] = row[1] = WorkerPrimitive();
    makePrimitives(config);
  });
  packsForTile = packsForTile && packedB;
  scratchSize = std::max(scratchSize, packedB.scratchBytes());
  if (packedB && !packsForTile) {
    denseA.reserve(sharedSize);
    packedB.reserve(sharedSize);
    addPhase(Phase::Pack, denseA.slices() + packedB.slices());
  }
  addPhase(Phase::Tiles, step.batches() * tilesM * tilesN);

  // A slice's scratch: its result, what it packs, and the library's own.
  if (!direct)
    padOffset = alignScratch(tileRows() * tileColumns() * sizeof(float));
  if (packsForTile) {
    denseA.reserve(padOffset);
    packedB.reserve(padOffset);
  }
  scratchSize += padOffset;
  return status;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

Status OneDNNMatMul::runSlice(size_t phase, int64_t slice,
                              const SliceContext &context) {
  if (phases[phase] == Phase::Tiles)
    return runTile(slice, context);
  if (phases[phase] == Phase::Pack)
    return runPack(slice, context);
  int64_t end = widensAtOnce ? widenSlices() : slice + 1;
  for (; slice < end; ++slice)
    runWiden(slice, context.shared);
  return Status();
}

Status OneDNNMatMul::runPack(int64_t slice, const SliceContext &context) {
  const int64_t slicesOfA = denseA.slices();
  if (slice < slicesOfA) {
    const DenseRows::Part part = denseA.partOf(slice);
    denseA.run(part, a.at(part.matrix, part.row, part.depth, context.shared),
               a.leading(), context.shared);
    return Status();
  }
  const PackedPanels::Part part = packedB.partOf(slice - slicesOfA);
  return packedB.run(
      part, context.worker,
      b.at(part.matrix, 0, part.panel * step.tileN, context.shared),
      context.shared, context.scratch);
}

/// The operands of the only tile of matrix `index`, in the worker's scratch.
Status OneDNNMatMul::packForTile(int64_t index, const SliceContext &context) {
  for (int64_t slice = 0; slice < denseA.slices(); ++slice) {
    const DenseRows::Part part = denseA.partOf(slice);
    denseA.run(part, a.at(index, part.row, part.depth, context.shared),
               a.leading(), context.scratch);
  }
  for (int64_t slice = 0; slice < packedB.slices(); ++slice)
    if (Status status =
            packedB.run(packedB.partOf(slice), context.worker,
                        b.at(index, 0, 0, context.shared), context.scratch,
                        context.scratch + padOffset);
        !status.ok())
      return status;
  return Status();
}

void OneDNNMatMul::runWiden(int64_t slice, std::byte *shared) const {
  int64_t slicesOfA = a.widenSlices();
  if (slice < slicesOfA)
    a.runWiden(slice, shared);
  else
    b.runWiden(slice - slicesOfA, shared);
}

/// Tiles of one column of tiles follow each other: they share b's panel.
Status OneDNNMatMul::runTile(int64_t tile, const SliceContext &context) {
  // Where the tile is, and how large it is at the edges.
  const int64_t tileRow = tile % tilesM, tileColumn = tile / tilesM % tilesN;
  int64_t row = tileRow * step.tileM, column = tileColumn * step.tileN;
  int64_t index = tile / (tilesM * tilesN);
  int64_t rows = std::min(step.tileM, step.m - row);
  int64_t columns = std::min(step.tileN, step.n - column);

  // Its result goes where it belongs, or into scratch memory to be finished.
  auto *accumulators = reinterpret_cast<float *>(context.scratch);
  std::byte *result = direct ? resultAt(index, row, column) : context.scratch;

  // Operands are packed, before or here, or read where they are.
  if (packsForTile)
    if (Status status = packForTile(index, context); !status.ok())
      return status;
  std::byte *packed = packsForTile ? context.scratch : context.shared;
  const std::byte *left = denseA ? denseA.at(index, row, packed)
                                 : a.at(index, row, 0, context.shared);
  const std::byte *right = packedB ? packedB.at(index, tileColumn, packed)
                                   : b.at(index, 0, column, context.shared);
  Status status = primitiveFor(rows, columns)
                      .run(context.worker, {left, right, result},
                           context.scratch + padOffset);
  if (status.ok() && !direct)
    finishTile(accumulators, index, row, rows, column, columns);
  return status;
}

void OneDNNMatMul::finishTile(float *accumulators, int64_t index, int64_t row,
                              int64_t rows, int64_t column,
                              int64_t columns) const {
  auto alpha = static_cast<float>(step.alpha);
  if (alpha != 1)
    for (int64_t i = 0; i < rows * columns; ++i)
      accumulators[i] *= alpha;
  // An epilogue takes rows side by side at once, others one by one.
  if (epilogue) {
    const int64_t atOnce = step.ldc == step.n ? rows : 1;
    for (int64_t i = 0; i < rows; i += atOnce)
      epilogue(accumulators + i * columns, offsetOfRow(index, row + i) / step.n,
               atOnce, column, columns, columns);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    narrow(c.type, accumulators + i * columns, resultAt(index, row + i, column),
           columns);
}

StatusOr<std::unique_ptr<Contraction>>
prepareOneDNNMatMul(const MatMulStep &step, MatMulOperands operands,
                    const OneDNNConfig &config) {
  auto matmul = std::make_unique<OneDNNMatMul>(step, std::move(operands));
  if (Status status = matmul->prepare(config); !status.ok())
    return status;
  return std::unique_ptr<Contraction>(std::move(matmul));
}

} // namespace mpc::runtime
