// Matrix products by AMX, of operands in bf16, f16 or f32 (AMXPanels.h).
//
// A slice is a tile of the result, whose sums stay in the worker's cache. It
// goes along the depth in chunks: packs the right operand's, and the left one's
// unless it lies in rows that can be read where they are, and multiplies them.
// Then the epilogue, or the final scaling and rounding, takes the sums.
//
// Operands are packed by every tile that reads them. Memory is what takes time
// here: packed once for all, operands would be written to it and read again.
//
// An element of the result is the same sum whatever the tiles are, so these may
// follow from the number of workers.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/AMXPanels.h"
#include "runtime/cpu/MatrixOperands.h"
#include "runtime/cpu/OneDNNProvider.h"

namespace mpc::runtime {
namespace {

/// Sums of a tile: 768 KiB of a worker's cache.
constexpr int64_t kMaxSums = 192 << 10;
/// Multiply-adds below which a tile is not worth handing to another thread.
constexpr int64_t kMinTileProducts = 1 << 21;
/// Tiles for each worker, so that none waits long for the others.
constexpr int64_t kTilesPerWorker = 4;

int64_t roundUp(int64_t extent) { return panelsOf(extent) * kPanelWidth; }

class AMXMatMul : public Contraction {
public:
  AMXMatMul(const MatMulStep &step, MatMulOperands operands,
            const OneDNNConfig &config)
      : step(step), isPortable(!config.hasAMX), parts(partsOf(operands.a.type)),
        c(step, operands.c, std::move(operands.epilogue)),
        a(operands.a, step, step.offsetA, step.transA ? step.k : step.m,
          step.transA ? step.m : step.k, step.lda, step.strideA, step.outer.a,
          step.transA),
        b(operands.b, step, step.offsetB, step.transB ? step.n : step.k,
          step.transB ? step.k : step.n, step.ldb, step.strideB, step.outer.b,
          step.transB) {
    chooseTiles(config.workers);
    layOutScratch();
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&a.source, &b.source, &c.operand}, c.epilogue);
  }

private:
  void chooseTiles(int workers);
  void layOutScratch();
  LeftOperand packLeft(const PanelSource &source, int64_t rows, int64_t depth,
                       const Panels &panels, bool &leavesOut) const;

  int64_t tilesM() const { return (step.m + tileM - 1) / tileM; }
  int64_t tilesN() const { return (step.n + tileN - 1) / tileN; }
  int64_t tiles() const { return step.batches() * tilesM() * tilesN(); }
  /// Whether the left operand's rows, of whole panels and steps, are read where
  /// they are.
  bool readsInPlace(int64_t rows) const {
    return parts == 1 && !step.transA && rows % kPanelWidth == 0 &&
           step.k % kPanelWidth == 0 && step.lda % kPanelWidth == 0;
  }

  /// Steps of the depth that are multiplied at once, at most.
  int64_t chunkSteps() const {
    return std::min(panelsOf(step.k), chunkStepsOf(parts));
  }

  const MatMulStep step;
  const bool isPortable;
  const int64_t parts; ///< of an operand's element
  ProductResult c;
  MatrixOperand a, b;
  int64_t tileM = 0, tileN = 0;
  size_t leftOffset = 0, rightOffset = 0; ///< of panels in a worker's scratch
};

} // namespace

/// Halves a tile until its sums fit and there are enough of them. Rows may be
/// many; of a weight's gradient, whose left operand is turned, tiles are wide,
/// for the sake of the optimizer that follows.
void AMXMatMul::chooseTiles(int workers) {
  tileM = roundUp(step.m);
  tileN = roundUp(step.n);
  while (tileM > kPanelWidth || tileN > kPanelWidth) {
    const bool wantsMore = tiles() < kTilesPerWorker * workers &&
                           tileM * tileN * step.k >= 2 * kMinTileProducts;
    if (tileM * tileN <= kMaxSums && !wantsMore)
      break;
    // Rows of one panel cannot be cut: of 32 x 64 the columns are.
    const bool cutsColumns = tileM <= kPanelWidth ||
                             (step.transA ? tileN > 2 * tileM : tileN >= tileM);
    int64_t &side = cutsColumns ? tileN : tileM;
    side = roundUp((side + 1) / 2);
  }
}

void AMXMatMul::layOutScratch() {
  const int64_t steps = chunkSteps();
  leftOffset = size_t(tileM * tileN) * sizeof(float);
  rightOffset = leftOffset;
  if (!readsInPlace(step.m))
    rightOffset +=
        alignScratch(size_t(Panels::bytes(panelsOf(tileM), steps, parts)));
  scratchSize =
      rightOffset + size_t(Panels::bytes(panelsOf(tileN), steps, parts));
  phaseSlices = {tiles()};
}

static PanelSource sourceAt(const MatrixOperand &operand, int64_t index,
                            int64_t row, int64_t column) {
  return {operand.source.type, operand.at(index, row, column, nullptr),
          operand.ld, operand.transposed};
}

/// A chunk of the left operand: where it is, or in panels.
LeftOperand AMXMatMul::packLeft(const PanelSource &source, int64_t rows,
                                int64_t depth, const Panels &panels,
                                bool &leavesOut) const {
  constexpr int64_t kRowBytes = kPanelWidth * sizeof(uint16_t);
  if (readsInPlace(rows)) {
    const int64_t leading = step.lda * int64_t(sizeof(uint16_t));
    return {source.data, leading, kRowBytes, kPanelWidth * leading};
  }
  leavesOut |= packLeftPanels(source, rows, depth, panels);
  return {panels.data, kRowBytes, parts * kPartBytes,
          panelsOf(depth) * parts * kPartBytes};
}

/// Tiles of the same rows follow each other: they share the left operand.
Status AMXMatMul::runSlice(size_t, int64_t tile, const SliceContext &context) {
  // Where the tile is, and how large it is at the edges.
  const int64_t index = tile / (tilesM() * tilesN());
  const int64_t row = tile / tilesN() % tilesM() * tileM;
  const int64_t column = tile % tilesN() * tileN;
  const int64_t rows = std::min(tileM, step.m - row);
  const int64_t columns = std::min(tileN, step.n - column);

  // Chunk after chunk of the depth.
  auto *data = reinterpret_cast<float *>(context.scratch);
  const ProductSums sums{data, roundUp(columns), rows, columns};
  const int64_t chunk = chunkSteps() * kPanelWidth;
  for (int64_t k = 0; k < step.k; k += chunk) {
    const int64_t depth = std::min(chunk, step.k - k), steps = panelsOf(depth);
    const PanelSource leftSource = sourceAt(a, index, row, k);
    const PanelSource rightSource = sourceAt(b, index, k, column);
    const Panels left =
        Panels::at(context.scratch + leftOffset, panelsOf(rows), steps, parts);
    const Panels right = Panels::at(context.scratch + rightOffset,
                                    panelsOf(columns), steps, parts);
    bool leavesOut = packRightPanels(rightSource, depth, columns, right);
    (isPortable ? multiplyPanelsPortably : multiplyPanels)(
        packLeft(leftSource, rows, depth, left, leavesOut), right, steps, sums,
        k == 0);
    if (leavesOut)
      multiplyLeftOut(leftSource, rightSource, left.isLeftOut, right.isLeftOut,
                      depth, sums);
  }
  c.finish(data, sums.leading, index, row, rows, column, columns);
  return Status();
}

std::unique_ptr<Contraction> prepareAMXMatMul(const MatMulStep &step,
                                              MatMulOperands &operands,
                                              const OneDNNConfig &config) {
  constexpr int64_t kFewest = kPanelWidth / 2;
  const DType type = operands.a.type;
  const bool fits =
      (config.hasAMX || config.emulatesAMX) && type == operands.b.type &&
      (type == DType::BF16 || type == DType::F16 || type == DType::F32) &&
      step.m >= kFewest && step.n >= kFewest && step.k >= kFewest;
  if (!fits)
    return nullptr;
  return std::make_unique<AMXMatMul>(step, std::move(operands), config);
}

} // namespace mpc::runtime
