// Tests the properties of each kind of kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelHero.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
/// The kinds for which `holds` is true, in their order.
SmallVector<KernelKind>
findKinds(llvm::function_ref<bool(const KernelHero &)> holds) {
  SmallVector<KernelKind> kinds;
  for (size_t i = 0; i < std::size(Words<KernelKind>::list); ++i)
    if (auto kind = static_cast<KernelKind>(i); holds(KernelHero::get(kind)))
      kinds.push_back(kind);
  return kinds;
}

using Kinds = SmallVector<KernelKind>;

/// A kernel of `kind` on a matrix, with the ops in `body`.
class Kernel {
public:
  Kernel(KernelKind kind, const std::string &body) {
    context.loadDialect<MPCDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(
        "func.func @k(%x: tensor<8x8x64xf32>, %w: tensor<64x64xf32>) -> "
        "tensor<8x8x64xf32> attributes {mpc.kernel = #mpc.kernel<" +
            std::string(stringify(kind)) + ">} {\n" + body +
            "\nreturn %r : tensor<8x8x64xf32>\n}",
        &context);
  }
  bool writesWhereItReads(const std::string &target) {
    auto function = *module->getOps<func::FuncOp>().begin();
    return KernelHero::get(*getKernelKind(function))
        .writesWhereItReads(function, cantFail(TargetInfo::get(target)));
  }

private:
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

const std::string kMove =
    "%r = mpc.transpose %y {perm = array<i64: 1, 0, 2>} : "
    "(tensor<8x8x64xf32>) -> tensor<8x8x64xf32>";
const std::string kType = "(tensor<8x8x64xf32>) -> tensor<8x8x64xf32>";
} // namespace

TEST(KernelHeroTest, RowsArePassedAgain) {
  EXPECT_EQ(findKinds([](auto &hero) { return hero.passesAgain(); }),
            Kinds{KernelKind::RowReduce});
  EXPECT_EQ(findKinds([](auto &hero) {
              return hero.getGrowth() == Growth::Reductions;
            }),
            (Kinds{KernelKind::RowReduce, KernelKind::ColumnReduce}));
}

TEST(KernelHeroTest, ElementwiseKernelsJoinOthers) {
  EXPECT_EQ(findKinds([](auto &hero) { return hero.isElementwise(); }),
            Kinds{KernelKind::Pointwise});
  EXPECT_EQ(findKinds([](auto &hero) { return hero.hasSegments(); }),
            (Kinds{KernelKind::Pointwise, KernelKind::RowReduce}));
}

TEST(KernelHeroTest, LibrariesCallEpilogues) {
  EXPECT_EQ(findKinds([](auto &hero) { return hero.isCalledPerTile(); }),
            Kinds{KernelKind::Epilogue});
}

TEST(KernelHeroTest, WhatIsStoredElsewhereWritesOverNothing) {
  std::string relu = "mpc.relu %x : " + kType;
  Kernel plain(KernelKind::Pointwise, "%r = " + relu);
  EXPECT_TRUE(plain.writesWhereItReads("zen5"));
  Kernel moved(KernelKind::Pointwise, "%y = " + relu + "\n" + kMove);
  EXPECT_FALSE(moved.writesWhereItReads("zen5"));
  Kernel epilogue(KernelKind::Epilogue, "%r = " + relu);
  EXPECT_TRUE(epilogue.writesWhereItReads("zen5"));
  Kernel arranged(KernelKind::Epilogue, "%y = " + relu + "\n" + kMove);
  EXPECT_FALSE(arranged.writesWhereItReads("zen5"));
  Kernel window(KernelKind::Window, "%r = " + relu);
  EXPECT_FALSE(window.writesWhereItReads("zen5"));
}

TEST(KernelHeroTest, ProductsThatShareRowsWriteOverNothing) {
  std::string product = "mpc.matmul %x, %w : (tensor<8x8x64xf32>, "
                        "tensor<64x64xf32>) -> tensor<8x8x64xf32>";
  Kernel plain(KernelKind::Contraction, "%r = " + product);
  EXPECT_TRUE(plain.writesWhereItReads("zen5"));
  // f32 has no Tensor Core kernel.
  EXPECT_FALSE(plain.writesWhereItReads("sm_90"));
  Kernel arranged(KernelKind::Contraction, "%y = " + product + "\n" + kMove);
  EXPECT_FALSE(arranged.writesWhereItReads("zen5"));
}
