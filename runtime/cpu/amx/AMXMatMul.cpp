// Matrix products with AMX, for operands in bf16, f16 or f32 (AMXPanels.h).
//
// A slice is a tile of the result. The tile's sums stay in the worker's cache
// until the epilogue, or the final scaling and rounding, has read them.
//
// Tiling does not change how an element is summed, so the tiles may depend on
// the number of workers. The same holds for the sum of an operand along the
// depth, which a tile computes just before it packs the operand.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/amx/AMXOperands.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "runtime/cpu/onednn/OperandSums.h"

namespace mpc::runtime {
namespace {

/// Limit on the sums of a tile: 768 KiB of a worker's cache.
constexpr int64_t kMaxSums = 192 << 10;
/// A tile with fewer multiply-adds is not worth handing to another thread.
constexpr int64_t kMinTileProducts = 1 << 21;
/// Tiles per worker, so that no worker waits long for the others. Smaller tiles
/// read the operands more often.
constexpr int64_t kTilesPerWorker = 2;

/// Leading dimension of a tile's sums: an odd number of cache lines, so that
/// the rows of a block lie in different sets of the cache.
int64_t sumsLeading(int64_t columns) {
  return wholePanels(columns) + kPanelWidth / 2;
}

class AMXMatMul : public Contraction {
public:
  AMXMatMul(const MatMulStep &step, MatMulOperands operands,
            const OneDNNConfig &config)
      : step(step), isPortable(!config.hasAMX), sums(step, operands),
        c(step, operands.c, std::move(operands.epilogue)),
        a(leftMatrix(step, operands.a)), b(rightMatrix(step, operands.b)) {
    chooseTiles(config.workers);
    chunks = ChunkScratch(tileM, tileN, step.k, termsOf(operands.a.type));
    chunkOffset = size_t(tileM * sumsLeading(tileN)) * sizeof(float);
    scratchSize = chunkOffset + chunks.bytes();
    phaseSlices = {tiles()};
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    std::vector<void **> result =
        addressesOf({&a.source, &b.source, &c.operand}, c.epilogue);
    if (sums)
      sums.addAddresses(result);
    return result;
  }

private:
  void chooseTiles(int workers);

  int64_t tilesM() const { return (step.m + tileM - 1) / tileM; }
  int64_t tilesN() const { return (step.n + tileN - 1) / tileN; }
  int64_t tiles() const { return countMatrices(step) * tilesM() * tilesN(); }

  const MatMulStep step;
  const bool isPortable;
  OperandSums sums;
  ProductResult c;
  MatMulOperand a, b;
  int64_t tileM = 0, tileN = 0;
  ChunkScratch chunks;
  size_t chunkOffset = 0; ///< of packed operands in a worker's scratch
};

} // namespace

/// Halves the tile until the tile's sums fit the cache and there are enough
/// tiles for all workers. Tiles become about square. For a weight gradient,
/// whose left operand is transposed, tiles are up to twice as wide as high: an
/// optimizer often follows, and reads long rows faster.
void AMXMatMul::chooseTiles(int workers) {
  tileM = wholePanels(step.m);
  tileN = wholePanels(step.n);
  while (tileM > kPanelWidth || tileN > kPanelWidth) {
    const bool wantsMore = tiles() < kTilesPerWorker * workers &&
                           tileM * tileN * step.k >= 2 * kMinTileProducts;
    if (tileM * tileN <= kMaxSums && !wantsMore)
      break;
    // A tile that is a single panel high can be cut only between columns.
    const bool cutsColumns = tileM <= kPanelWidth ||
                             (step.transA ? tileN > 2 * tileM : tileN >= tileM);
    int64_t &side = cutsColumns ? tileN : tileM;
    side = wholePanels((side + 1) / 2);
  }
}

/// Tiles of the same rows are consecutive, since they share the left operand.
Status AMXMatMul::runSlice(size_t, int64_t tile, const SliceContext &context) {
  const int64_t index = tile / (tilesM() * tilesN());
  const int64_t row = tile / tilesN() % tilesM() * tileM;
  const int64_t column = tile % tilesN() * tileN;
  const int64_t rows = std::min(tileM, step.m - row);
  const int64_t columns = std::min(tileN, step.n - column);

  // Several tiles pack the same rows or columns of the summed operand. Exactly
  // one of these tiles also computes their sums.
  if (sums && (sums.ofLeft ? column == 0 : row == 0))
    sums.sum(sums.ofLeft ? row : column, sums.ofLeft ? rows : columns);

  auto *data = reinterpret_cast<float *>(context.scratch);
  const ProductSums product{data, sumsLeading(columns), rows, columns};
  multiplyByChunks({sourceAt(a, index, row, 0), sourceAt(b, index, 0, column)},
                   step.k, chunks, context.scratch + chunkOffset, isPortable,
                   product);
  c.finish(data, product.leading, index, row, rows, column, columns);
  return Status();
}

std::unique_ptr<Contraction> prepareAMXMatMul(const MatMulStep &step,
                                              MatMulOperands &operands,
                                              const OneDNNConfig &config) {
  if (!canMultiplyByAMX(step, operands, config))
    return nullptr;
  return std::make_unique<AMXMatMul>(step, std::move(operands), config);
}

} // namespace mpc::runtime
