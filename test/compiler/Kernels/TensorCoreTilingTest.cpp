// Tests the choice of products and tiles for Tensor Cores, and that no access
// to shared memory has bank conflicts.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/TensorCoreTiling.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

#include <set>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Banks
//===----------------------------------------------------------------------===//

namespace {
/// The 4-byte banks that the threads of an access touch, each `bytes` from its
/// offset on.
struct Banks {
  std::set<int64_t> used;
  bool conflict = false;

  void add(int64_t offset, int64_t bytes) {
    for (int64_t word = offset / 4; word < (offset + bytes) / 4; ++word)
      conflict |= !used.insert(word % 32).second;
  }
};
} // namespace

// ldmatrix reads the rows of one 8 x 8 matrix at once: 128 bytes.
TEST(SwizzledTile, MatricesLieInAllBanks) {
  for (int64_t chunks : {4, 8, 16}) {
    SwizzledTile tile = SwizzledTile::get(128, chunks);
    for (int64_t row = 0; row < tile.rows; row += 8)
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        Banks banks;
        for (int64_t i = 0; i < 8; ++i)
          banks.add(tile.getOffset(row + i, chunk), 16);
        EXPECT_FALSE(banks.conflict) << chunks << " " << row << " " << chunk;
      }
  }
}

// The exclusive-or is needed: one column of eight rows of 64 bytes lies in a
// quarter of the banks.
TEST(SwizzledTile, MatricesOfPlainRowsWouldNot) {
  SwizzledTile plain{8, 4, 0, 0};
  Banks banks;
  for (int64_t row = 0; row < 8; ++row)
    banks.add(plain.getOffset(row, 0), 16);
  EXPECT_TRUE(banks.conflict);
}

// Eight threads write 128 bytes at once: adjacent chunks of adjacent rows.
TEST(SwizzledTile, CopiesLieInAllBanks) {
  for (int64_t chunks : {4, 8, 16}) {
    SwizzledTile tile = SwizzledTile::get(32, chunks);
    for (int64_t piece = 0; piece < tile.rows * chunks; piece += 8) {
      Banks banks;
      for (int64_t i = 0; i < 8; ++i)
        banks.add(tile.getOffset((piece + i) / chunks, (piece + i) % chunks),
                  16);
      EXPECT_FALSE(banks.conflict) << chunks << " " << piece;
    }
  }
}

TEST(SwizzledTile, HasAPlaceForEveryChunk) {
  for (int64_t chunks : {4, 8, 16}) {
    SwizzledTile tile = SwizzledTile::get(32, chunks);
    std::set<int64_t> offsets;
    for (int64_t row = 0; row < tile.rows; ++row)
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        offsets.insert(tile.getOffset(row, chunk));
    EXPECT_EQ(offsets.size(), static_cast<size_t>(tile.rows * chunks));
    EXPECT_EQ(*offsets.rbegin(), tile.getBytes() - 16);
  }
}

// Half a warp writes 8 bytes per thread at once. Lane 4r + c writes to row r,
// unit c / 2 of one of the mma instruction's tiles.
TEST(StagingTile, WritesLieInAllBanks) {
  for (int64_t width : {1, 2, 4, 8})
    for (int64_t first : {0, 4})
      for (int64_t tile = 0; tile < 8; ++tile) {
        Banks banks;
        for (int64_t row = first; row < first + 4; ++row)
          for (int64_t pair = 0; pair < 4; ++pair)
            banks.add(StagingTile{width}.getOffset(row, 2 * tile + pair / 2) +
                          pair % 2 * 8,
                      8);
        EXPECT_FALSE(banks.conflict) << width << " " << first << " " << tile;
      }
}

// Threads read along a row, 128 bytes at once and at most 16 each. A thread's
// eight elements therefore take two reads.
TEST(StagingTile, ReadsLieInAllBanks) {
  for (int64_t width : {1, 2, 4, 8}) {
    int64_t bytes = std::min<int64_t>(16, width * 4);
    int64_t threads = 128 / bytes;
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t start = 0; start + threads * width <= StagingTile::kColumns;
           start += threads * width)
        for (int64_t half = 0; half < (width == 8 ? 2 : 1); ++half) {
          Banks banks;
          for (int64_t i = 0; i < threads; ++i) {
            int64_t column = start + i * width + half * 4;
            banks.add(StagingTile{width}.getOffset(row, column / 4) +
                          column % 4 * 4,
                      bytes);
          }
          EXPECT_FALSE(banks.conflict) << width << " " << row << " " << start;
        }
  }
}

TEST(StagingTile, HasAPlaceForEveryUnit) {
  for (int64_t width : {1, 2, 4, 8}) {
    std::set<int64_t> offsets;
    for (int64_t row = 0; row < 16; ++row)
      for (int64_t unit = 0; unit < 16; ++unit)
        offsets.insert(StagingTile{width}.getOffset(row, unit));
    EXPECT_EQ(offsets.size(), 256u);
    EXPECT_EQ(*offsets.rbegin(), 255 * 16);
  }
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

namespace {
struct Tiling : testing::Test {
  Tiling() { context.loadDialect<MPCDialect, func::FuncDialect>(); }

  std::optional<TensorCoreTiling> get(std::string lhs, std::string rhs,
                                      std::string result,
                                      std::string attributes = "",
                                      StringRef target = "sm_80") {
    std::string text =
        "func.func @f(%a: tensor<" + lhs + ">, %b: tensor<" + rhs +
        ">) -> tensor<" + result + "> {\n%0 = mpc.matmul %a, %b {" +
        attributes + "} : (tensor<" + lhs + ">, tensor<" + rhs +
        ">) -> tensor<" + result + ">\nreturn %0 : tensor<" + result + ">\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    MatMulOp matmul;
    module->walk([&](MatMulOp op) { matmul = op; });
    return getTensorCoreTiling(matmul, llvm::cantFail(TargetInfo::get(target)));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

TEST_F(Tiling, LargeProductsHaveLargeTiles) {
  auto tiling = get("4096x1024xbf16", "1024x4096xbf16", "4096x4096xf32");
  ASSERT_TRUE(tiling);
  EXPECT_EQ(tiling->blockM, 128);
  EXPECT_EQ(tiling->blockN, 128);
  EXPECT_EQ(tiling->getThreads(), 128);
  EXPECT_EQ(tiling->getTileCount(), 1024);
  EXPECT_EQ(tiling->stages, 4);
  EXPECT_EQ(tiling->getSharedBytes(), 64 * 1024);
  EXPECT_TRUE(tiling->lhs.alongDepth);
  EXPECT_FALSE(tiling->rhs.alongDepth);
}

TEST_F(Tiling, SmallProductsHaveManyTiles) {
  auto tiling = get("512x1024xf16", "1024x768xf16", "512x768xf32");
  ASSERT_TRUE(tiling);
  EXPECT_EQ(tiling->getTileCount(), 192);
  EXPECT_EQ(tiling->blockM, 32);
}

TEST_F(Tiling, AShallowProductHasNoMoreStagesThanItCanFill) {
  EXPECT_EQ(get("64x16xbf16", "16x64xbf16", "64x64xf32")->stages, 2);
  EXPECT_EQ(get("64x96xbf16", "96x64xbf16", "64x64xf32")->stages, 3);
}

TEST_F(Tiling, BatchesOfOneRhsAreRows) {
  auto tiling = get("8x64x64xbf16", "64x64xbf16", "8x64x64xf32");
  EXPECT_EQ(tiling->m, 512);
  EXPECT_EQ(tiling->batch, 1);
  tiling = get("8x64x64xbf16", "8x64x64xbf16", "8x64x64xf32");
  EXPECT_EQ(tiling->m, 64);
  EXPECT_EQ(tiling->batch, 8);
  // The rows of transposed matrices do not follow each other in memory.
  tiling = get("8x64x64xbf16", "64x64xbf16", "8x64x64xf32", "transA = true");
  EXPECT_EQ(tiling->batch, 8);
}

TEST_F(Tiling, UnalignedRowsAreCopiedInSmallerPieces) {
  auto tiling = get("64x36xbf16", "36x10xbf16", "64x10xf32");
  EXPECT_EQ(tiling->lhs.copyBytes, 8);
  EXPECT_EQ(tiling->rhs.copyBytes, 4);
  EXPECT_FALSE(get("64x35xbf16", "35x64xbf16", "64x64xf32"));
  // The transposed matrix's rows are contiguous in memory.
  EXPECT_TRUE(get("35x64xbf16", "35x64xbf16", "64x64xf32", "transA = true"));
}

TEST_F(Tiling, OnlyPairsOfOneHalfPrecisionType) {
  EXPECT_TRUE(get("64x64xf16", "64x64xf16", "64x64xbf16"));
  EXPECT_FALSE(get("64x64xf16", "64x64xbf16", "64x64xf32"));
  EXPECT_FALSE(get("64x64xf32", "64x64xf32", "64x64xf32"));
  EXPECT_FALSE(get("64x64xbf16", "64x64xbf16", "64x64xf64"));
}

TEST_F(Tiling, OnlyOnAGPU) {
  EXPECT_TRUE(
      get("64x64xbf16", "64x64xbf16", "64x64xf32", "", "sm_90").has_value());
  EXPECT_FALSE(get("64x64xbf16", "64x64xbf16", "64x64xf32", "", "zen5"));
}
