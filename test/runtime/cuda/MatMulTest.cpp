// Tests matrix products on an emulated GPU against float64 loops. The device's
// calls of cuBLASLt must give the plan's result. The emulated cuBLASLt refuses
// what the real one would.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/BLASLtABI.h"
#include "test/runtime/MatMulCase.h"
#include "test/runtime/cuda/Emulated.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;
using mpc::runtime::cuda::BLASStatus;

namespace {

const char *const kNoKernels = ".version 8.0\n.target sm_80\n"
                               ".address_size 64\n";

ArtifactBuilder emptyArtifact() {
  ArtifactBuilder builder;
  builder.forGPU("sm_80", kNoKernels);
  return builder;
}

/// An artifact of one product, whose result is output c.
ArtifactBuilder oneProduct(const MatMul &matmul) {
  ArtifactBuilder builder = emptyArtifact();
  FunctionBuilder f = builder.function("step");
  const MatMulCase &c = matmul.c;
  size_t a = f.constant(matmul.a), b = f.constant(matmul.b);
  size_t result = f.arena(c.c, {c.batch, c.m, c.n});
  f.step(matmul.step(a, b, result));
  f.output("c", result);
  return builder;
}

/// The outputs after three runs: eager, recorded, replayed.
std::vector<Tensor> outputsOf(const ArtifactBuilder &builder,
                              const std::vector<std::string> &names) {
  auto session = openOnGPU(builder);
  std::vector<Tensor> outputs(names.size());
  if (!session)
    return outputs;
  for (int i = 0; i < 3; ++i) {
    Status status = session->run("step");
    EXPECT_TRUE(status.ok()) << status.message();
  }
  for (size_t i = 0; i < names.size(); ++i) {
    auto output = session->output("step", names[i]);
    EXPECT_TRUE(output.ok()) << output.status().message();
    if (output.ok())
      outputs[i] = *output;
  }
  return outputs;
}

void expectCorrect(const MatMulCase &c) {
  SCOPED_TRACE(std::string(nameOf(c.a)) + " to " + std::string(nameOf(c.c)) +
               (c.transA ? " A'" : " A") + (c.transB ? " B'" : " B"));
  MatMul matmul(c);
  expectClose(outputsOf(oneProduct(matmul), {"c"})[0], matmul.reference());
}

TEST(CUDAMatMul, MultipliesInEveryType) {
  emulated({}, [] {
    for (DType type : {DType::F32, DType::BF16, DType::F16})
      for (DType result : {type, DType::F32})
        expectCorrect({33, 24, 40, type, type, result});
    MatMulCase wide{33, 24, 40, DType::F64, DType::F64, DType::F64};
    wide.compute = "f64";
    expectCorrect(wide);
  });
}

TEST(CUDAMatMul, MultipliesByAnOlderLibraryIfTheNewestCannot) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", MPC_TEST_OLDER_BLASLT_FOLDER}}, [] {
    expectCorrect({33, 24, 40, DType::F32, DType::F32, DType::F32});
  });
}

TEST(CUDAMatMul, NamesTheFaultOfTheNewestLibrary) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", MPC_TEST_UNUSABLE_BLASLT_FOLDER}}, [] {
    MatMul matmul({33, 24, 40, DType::F32, DType::F32, DType::F32});
    expectMessage(tryOpenOnGPU(oneProduct(matmul)), StatusCode::Device,
                  {"create a handle", "CUBLAS_STATUS_NOT_INITIALIZED"});
  });
}

TEST(CUDAMatMul, TransposesAndSkipsBetweenRows) {
  emulated({}, [] {
    for (DType type : {DType::F32, DType::BF16})
      for (bool transA : {false, true})
        for (bool transB : {false, true})
          for (int64_t padding : {0, 8}) {
            MatMulCase c{17, 24, 40, type, type, DType::F32, transA, transB};
            c.padding = padding;
            expectCorrect(c);
          }
  });
}

/// Products large enough for a second call, where k is the length of both
/// operands' rows. The long part adds to the short part's result.
TEST(CUDAMatMul, AddsPiecesOfRaggedRows) {
  emulated({}, [] {
    MatMulCase c{128,         1024,        15265, DType::BF16,
                 DType::BF16, DType::BF16, false, true};
    c.padding = 7;
    MatMul matmul(c);
    auto session = openOnGPU(oneProduct(matmul));
    ASSERT_TRUE(session);
    Status status = session->run("step");
    ASSERT_TRUE(status.ok()) << status.message();
    auto output = session->output("step", "c");
    ASSERT_TRUE(output.ok()) << output.status().message();
    std::vector<double> values = toDoubles(*output);
    for (int64_t element = 0; element < c.m * c.n; element += 1021) {
      const int64_t row = element / c.n, column = element % c.n;
      const DotProduct dot = matmul.product(0, row, column);
      // The short part, of the last term, is rounded to c's type first.
      const double last =
          matmul.atA(0, row, c.k - 1) * matmul.atB(0, c.k - 1, column);
      ASSERT_NEAR(values[size_t(element)], dot.value,
                  dot.bound(c.c) + unitRoundoff(c.c) * std::fabs(last))
          << element;
    }
  });
}

TEST(CUDAMatMul, MultipliesBatches) {
  emulated({}, [] {
    for (bool repeatB : {false, true}) {
      MatMulCase c{8, 16, 24, DType::F16, DType::F16, DType::F16};
      c.batch = 5;
      c.repeatB = repeatB;
      c.alpha = 0.25;
      expectCorrect(c);
    }
  });
}

/// Reads heads of samples in place, as columns of rows of tokens: 3 samples
/// with 2 heads each, of 8 tokens of width 5. The library is called for each
/// sample.
TEST(CUDAMatMul, MultipliesBatchesOfTwoAxes) {
  static constexpr int64_t kSamples = 3, kHeads = 2, kTokens = 8, kWidth = 5;
  static constexpr int64_t kRow = kHeads * kWidth;
  emulated({}, [] {
    Tensor a = randomTensor(DType::F32, {kSamples, kTokens, kRow}, 1);
    Tensor b = randomTensor(DType::F32, {kSamples, kTokens, kRow}, 2);
    ArtifactBuilder builder = emptyArtifact();
    FunctionBuilder f = builder.function("step");
    MatMulCase c{kTokens, kTokens, kWidth};
    c.transB = true;
    c.batch = kHeads;
    size_t aBuffer = f.constant(a), bBuffer = f.constant(b);
    size_t result = f.arena(DType::F32, {kSamples, kHeads, kTokens, kTokens});
    Json step = MatMul(c).step(aBuffer, bBuffer, result);
    step["lda"] = step["ldb"] = kRow;
    step["stride_a"] = step["stride_b"] = kWidth;
    step["outer"] = {{"extents", {kSamples}},
                     {"a", {kTokens * kRow}},
                     {"b", {kTokens * kRow}},
                     {"c", {kHeads * kTokens * kTokens}}};
    f.step(step);
    f.output("c", result);

    std::vector<double> as = toDoubles(a), bs = toDoubles(b);
    std::vector<DotProduct> expected;
    for (int64_t sample = 0; sample < kSamples; ++sample)
      for (int64_t head = 0; head < kHeads; ++head)
        for (int64_t row = 0; row < kTokens; ++row)
          for (int64_t column = 0; column < kTokens; ++column) {
            auto at = [&](int64_t token, int64_t k) {
              return static_cast<size_t>((sample * kTokens + token) * kRow +
                                         head * kWidth + k);
            };
            DotProduct &dot = expected.emplace_back();
            for (int64_t k = 0; k < kWidth; ++k)
              dot.add(as[at(row, k)], bs[at(column, k)]);
          }
    expectClose(outputsOf(builder, {"c"})[0], expected);
  });
}

/// tf32 keeps ten fraction bits of each factor.
TEST(CUDAMatMul, RoundsToTF32OnlyWhereAsked) {
  emulated({}, [] {
    MatMulCase c{8, 8, 64};
    MatMul exact(c);
    c.compute = "tf32";
    Tensor rounded = outputsOf(oneProduct(MatMul(c)), {"c"})[0];
    Tensor whole = outputsOf(oneProduct(exact), {"c"})[0];
    expectClose(whole, exact.reference());
    EXPECT_NE(rounded.bytes, whole.bytes);
    std::vector<DotProduct> expected = exact.reference();
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(rounded.as<float>()[i], expected[i].value,
                  0x1p-9 * expected[i].magnitude);
  });
}

//===----------------------------------------------------------------------===//
// Fused operations of the library
//===----------------------------------------------------------------------===//

/// c = max(p + bias, 0) with the mask, a product masked by it, and the sums of
/// the masked rows: the three products of two layers.
TEST(CUDAMatMul, AddsBiasAndMasksByReLU) {
  emulated({}, [] {
    for (DType type : {DType::F32, DType::BF16}) {
      SCOPED_TRACE(std::string(nameOf(type)));
      MatMul forward({17, 24, 40, type, type, type});
      MatMulCase backwardCase{17, 24, 32, type, type, type};
      backwardCase.transB = true;
      MatMul backward(backwardCase);
      ArtifactBuilder builder = emptyArtifact();
      FunctionBuilder f = builder.function("step");
      Tensor bias = randomTensor(type, {24}, 3);
      size_t a = f.constant(forward.a), b = f.constant(forward.b);
      size_t biasBuffer = f.constant(bias);
      size_t c = f.arena(type, {17, 24});
      size_t aux = f.arena(DType::U8, {17, 16}); // 24 bits, padded to 128
      Json product = forward.step(a, b, c);
      product["fused"] = {
          {"kind", "relu_aux_bias"}, {"bias", biasBuffer}, {"aux", aux}};
      f.step(product);
      size_t dy = f.constant(backward.a), w = f.constant(backward.b);
      size_t masked = f.arena(type, {17, 24});
      size_t again = f.arena(type, {17, 24});
      size_t sums = f.arena(type, {24});
      product = backward.step(dy, w, masked);
      product["fused"] = {{"kind", "drelu"}, {"aux", aux}};
      f.step(product);
      product = backward.step(dy, w, again);
      product["fused"] = {
          {"kind", "drelu_bgrad"}, {"aux", aux}, {"bias_grad", sums}};
      f.step(product);
      for (auto [name, buffer] : {std::pair("c", c),
                                  {"masked", masked},
                                  {"again", again},
                                  {"sums", sums}})
        f.output(name, buffer);

      std::vector<DotProduct> relu, gradient, columnSums(24);
      std::vector<double> biases = toDoubles(bias);
      for (int64_t row = 0; row < 17; ++row)
        for (int64_t column = 0; column < 24; ++column) {
          DotProduct p = forward.product(0, row, column);
          p.add(biases[static_cast<size_t>(column)], 1);
          bool passes = p.value > 0;
          relu.push_back(p);
          if (!passes)
            relu.back().value = 0;
          DotProduct d = backward.product(0, row, column);
          gradient.push_back(passes ? d : DotProduct());
          DotProduct &sum = columnSums[static_cast<size_t>(column)];
          sum.value += gradient.back().value;
          sum.magnitude += gradient.back().magnitude;
          sum.terms += gradient.back().terms;
        }
      // The sums may be of values already rounded to the type.
      for (DotProduct &sum : columnSums)
        sum.magnitude *= type == DType::F32 ? 1 : 0x1p16;
      std::vector<Tensor> outputs =
          outputsOf(builder, {"c", "masked", "again", "sums"});
      expectClose(outputs[0], relu);
      expectClose(outputs[1], gradient);
      expectClose(outputs[2], gradient);
      expectClose(outputs[3], columnSums);
    }
  });
}

TEST(CUDAMatMul, AddsBias) {
  emulated({}, [] {
    for (bool relu : {false, true}) {
      MatMul matmul({17, 24, 40, DType::F16, DType::F16, DType::F16});
      ArtifactBuilder builder = emptyArtifact();
      FunctionBuilder f = builder.function("step");
      Tensor bias = randomTensor(DType::F16, {24}, 3);
      size_t a = f.constant(matmul.a), b = f.constant(matmul.b);
      size_t biasBuffer = f.constant(bias), c = f.arena(DType::F16, {17, 24});
      Json product = matmul.step(a, b, c);
      product["fused"] = {{"kind", relu ? "relu_bias" : "bias"},
                          {"bias", biasBuffer}};
      f.step(product);
      f.output("c", c);
      std::vector<DotProduct> expected = matmul.reference();
      std::vector<double> biases = toDoubles(bias);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i].add(biases[i % 24], 1);
        if (relu)
          expected[i].value = std::max(expected[i].value, 0.0);
      }
      expectClose(outputsOf(builder, {"c"})[0], expected);
    }
  });
}

/// The library's kind of sum depends on the operand: its A is the step's b.
TEST(CUDAMatMul, SumsAnOperandAlongK) {
  emulated({}, [] {
    for (const char *kind : {"bgrad_a", "bgrad_b"}) {
      SCOPED_TRACE(kind);
      bool first = std::string(kind) == "bgrad_a";
      MatMulCase shape{24, 16, 40, DType::BF16, DType::BF16};
      shape.transA = first; // as in the gradient of a weight
      MatMul matmul(shape);
      ArtifactBuilder builder = emptyArtifact();
      FunctionBuilder f = builder.function("step");
      int64_t length = first ? 24 : 16;
      size_t a = f.constant(matmul.a), b = f.constant(matmul.b);
      size_t c = f.arena(DType::F32, {24, 16});
      size_t sums = f.arena(DType::F32, {length});
      Json product = matmul.step(a, b, c);
      product["fused"] = {{"kind", kind}, {"bias_grad", sums}};
      f.step(product);
      f.output("c", c);
      f.output("sums", sums);
      std::vector<DotProduct> expected(static_cast<size_t>(length));
      for (int64_t i = 0; i < length; ++i)
        for (int64_t k = 0; k < 40; ++k)
          expected[static_cast<size_t>(i)].add(
              first ? matmul.atA(0, i, k) : matmul.atB(0, k, i), 1);
      std::vector<Tensor> outputs = outputsOf(builder, {"c", "sums"});
      expectClose(outputs[0], matmul.reference());
      expectClose(outputs[1], expected);
    }
  });
}

//===----------------------------------------------------------------------===//
// Errors and resources
//===----------------------------------------------------------------------===//

TEST(CUDAMatMul, CountsItsWorkspace) {
  emulated({}, [] {
    auto session = openOnGPU(oneProduct(MatMul({8, 8, 8})));
    ASSERT_TRUE(session);
    EXPECT_GE(session->memoryBytes(), size_t(32) << 20);
  });
}

TEST(CUDAMatMul, NamesTheProductWithoutAnAlgorithm) {
  for (const char *status : {"7", "15"}) {
    std::string fault = "cublasLtMatmulAlgoGetHeuristic=";
    emulated({{"MPC_EMULATOR_FAULT", fault + status}}, [&] {
      MatMul matmul({8, 16, 24, DType::BF16, DType::BF16});
      expectMessage(tryOpenOnGPU(oneProduct(matmul)), StatusCode::Device,
                    {"'fc1' in function 'step'", "no deterministic algorithm",
                     "bf16 x bf16 to f32, 1 of 8x16x24",
                     "(" + std::string(status) + ")", "--device cpu"});
    });
  }
}

TEST(CUDAMatMul, SaysWhereTheLibraryIsMissing) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", MPC_TEST_DRIVER_ONLY_FOLDER}}, [] {
    Status status = tryOpenOnGPU(oneProduct(MatMul({8, 8, 8})));
    if (status.message().find("cannot be loaded") == std::string::npos)
      GTEST_SKIP() << "this machine has a cuBLASLt of its own";
    expectMessage(status, StatusCode::Device,
                  {"'fc1' in function 'step'", "cuBLASLt of CUDA 12 or 13",
                   "--device cpu"});
  });
}

/// Every call of the library fails once. None ends the process, and all are
/// reported, except for calls that only clean up or inform.
TEST(CUDAMatMul, ReportsTheFailureOfAnyCall) {
  auto train = [] {
    SessionOptions options;
    options.device = "cuda";
    auto session =
        Session::create(oneProduct(MatMul({8, 8, 8})).open(), options);
    if (!session.ok())
      return session.status();
    for (int i = 0; i < 2; ++i)
      if (Status status = (*session)->run("step"); !status.ok())
        return status;
    return (*session)->output("step", "c").status();
  };
#define MPC_FAULT(result, member, symbol, ...)                                 \
  if (std::is_same_v<result, BLASStatus>) {                                    \
    bool cleansUp = std::string(#symbol).find("Destroy") != std::string::npos; \
    emulated({{"MPC_EMULATOR_FAULT", #symbol ":1=14"}}, [&] {                  \
      Status status = train();                                                 \
      /* The layouts of a single product have no attributes. */                \
      bool unused =                                                            \
          std::string(#symbol) == "cublasLtMatrixLayoutSetAttribute";          \
      EXPECT_EQ(status.getCode(),                                              \
                cleansUp || unused ? StatusCode::Done : StatusCode::Device)    \
          << #symbol << ": " << status.message();                              \
    });                                                                        \
  }
  MPC_CUDA_BLASLT_FUNCTIONS(MPC_FAULT)
#undef MPC_FAULT
}

} // namespace
