// Tests the emulated cuBLASLt's products against plain loops, epilogue by
// epilogue, and its refusals.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/FloatBits.h"
#include "test/emulator/Libraries.h"

using namespace mpc;
using namespace mpc::emulator;
using cuda::BLASEpilogue;
using cuda::BLASMatMulAttribute;
using cuda::BLASType;

namespace {

/// A column-major product of D [m, n] over k. All leading dimensions have
/// padding.
struct Problem {
  uint64_t m = 5, n = 3, k = 4;
  bool transA = false, transB = false;
  BLASType type = BLASType::F32, resultType = BLASType::F32;
  cuda::BLASCompute compute = cuda::BLASCompute::F32;
  BLASEpilogue epilogue = BLASEpilogue::Default;
  int32_t batch = 1;
  float alpha = 1, beta = 0;
  uint64_t auxLd = 128;
  BLASType biasType = BLASType::F32;
};

class BLASLt : public Libraries {
protected:
  BLASLt() {
    void *library = openLibrary("libcublasLt.so.13");
#define MPC_FIND(result, member, symbol, ...)                                  \
  findFunction(library, #symbol, call.member);
    MPC_CUDA_BLASLT_FUNCTIONS(MPC_FIND)
#undef MPC_FIND
    EXPECT_EQ(code(call.create(&handle)), 0);
  }
  ~BLASLt() override { (void)call.destroy(handle); }

  cuda::BLASLayout layout(BLASType type, uint64_t rows, uint64_t columns,
                          const Problem &problem) {
    cuda::BLASLayout result = nullptr;
    auto ld = static_cast<int64_t>(rows + 2);
    int64_t stride = ld * static_cast<int64_t>(columns);
    EXPECT_EQ(code(call.layoutCreate(&result, type, rows, columns, ld)), 0);
    EXPECT_EQ(
        code(call.layoutSetAttribute(
            result, cuda::BLASLayoutAttribute::BatchCount, &problem.batch, 4)),
        0);
    EXPECT_EQ(
        code(call.layoutSetAttribute(
            result, cuda::BLASLayoutAttribute::StridedBatchOffset, &stride, 8)),
        0);
    return result;
  }

  template <class T>
  void set(cuda::BLASMatMul product, BLASMatMulAttribute attribute,
           const T &value) {
    EXPECT_EQ(code(call.matMulSetAttribute(product, attribute, &value,
                                           sizeof(value))),
              0);
  }

  /// Gets an algorithm and multiplies. Returns the first failed status.
  int multiply(const Problem &problem) {
    bool wide = problem.compute == cuda::BLASCompute::F64;
    cuda::BLASMatMul product = nullptr;
    EXPECT_EQ(code(call.matMulCreate(&product, problem.compute,
                                     wide ? BLASType::F64 : BLASType::F32)),
              0);
    set(product, BLASMatMulAttribute::TransA, int32_t(problem.transA));
    set(product, BLASMatMulAttribute::TransB, int32_t(problem.transB));
    set(product, BLASMatMulAttribute::Epilogue, problem.epilogue);
    set(product, BLASMatMulAttribute::BiasPointer, bias);
    set(product, BLASMatMulAttribute::BiasDataType, problem.biasType);
    set(product, BLASMatMulAttribute::EpilogueAuxPointer, aux);
    set(product, BLASMatMulAttribute::EpilogueAuxLd, problem.auxLd);
    auto a = layout(problem.type, problem.transA ? problem.k : problem.m,
                    problem.transA ? problem.m : problem.k, problem);
    auto b = layout(problem.type, problem.transB ? problem.n : problem.k,
                    problem.transB ? problem.k : problem.n, problem);
    auto d = layout(problem.resultType, problem.m, problem.n, problem);
    cuda::BLASPreference preference = nullptr;
    EXPECT_EQ(code(call.preferenceCreate(&preference)), 0);
    uint64_t most = 1 << 20;
    EXPECT_EQ(code(call.preferenceSetAttribute(
                  preference, cuda::BLASPreferenceAttribute::MaxWorkspaceBytes,
                  &most, sizeof(most))),
              0);
    cuda::BLASHeuristic found[4];
    int count = 0;
    int status = code(call.getHeuristic(handle, product, a, b, d, d, preference,
                                        4, found, &count));
    if (status == 0) {
      double alpha = problem.alpha, beta = problem.beta;
      const void *factors[] = {&problem.alpha, &problem.beta};
      if (wide)
        factors[0] = &alpha, factors[1] = &beta;
      auto pointer = [](cuda::DevicePointer p) {
        return reinterpret_cast<void *>(p);
      };
      cuda::DevicePointer workspace = allocate(1 << 20);
      status = code(call.matMul(
          handle, product, factors[0], pointer(this->a), a, pointer(this->b), b,
          factors[1], pointer(this->d), d, pointer(this->d), d,
          &found[0].algorithm, pointer(workspace), 1 << 20, stream));
    }
    (void)call.preferenceDestroy(preference);
    for (cuda::BLASLayout each : {a, b, d})
      (void)call.layoutDestroy(each);
    (void)call.matMulDestroy(product);
    return status;
  }

  // Columns are padded by two elements, which must stay unchanged.
  static constexpr size_t kRoom = 2;
  std::vector<float> matrix(uint64_t rows, uint64_t columns, size_t salt) {
    std::vector<float> values((rows + kRoom) * columns);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = sample(i, salt);
    return values;
  }

  cuda::BLASLtFunctions call;
  cuda::BLASHandle handle = nullptr;
  cuda::DevicePointer a = 0, b = 0, d = 0, bias = 0, aux = 0;
};

TEST_F(BLASLt, MultipliesTransposedOperands) {
  for (bool transA : {false, true}) {
    for (bool transB : {false, true}) {
      Problem problem;
      problem.transA = transA;
      problem.transB = transB;
      problem.alpha = 2;
      problem.beta = 3;
      auto [m, n, k] = std::tuple(problem.m, problem.n, problem.k);
      auto x = matrix(transA ? k : m, transA ? m : k, 1);
      auto y = matrix(transB ? n : k, transB ? k : n, 2);
      auto z = matrix(m, n, 3);
      a = upload(x), b = upload(y), d = upload(z);
      ASSERT_EQ(multiply(problem), 0);
      auto found = download<float>(d, z.size());
      for (uint64_t i = 0; i < m + kRoom; ++i) {
        for (uint64_t j = 0; j < n; ++j) {
          size_t at = j * (m + kRoom) + i;
          float sum = 0;
          for (uint64_t l = 0; i < m && l < k; ++l)
            sum += x[transA ? i * (k + kRoom) + l : l * (m + kRoom) + i] *
                   y[transB ? l * (n + kRoom) + j : j * (k + kRoom) + l];
          EXPECT_EQ(found[at], i < m ? 2 * sum + 3 * z[at] : z[at]);
        }
      }
    }
  }
}

TEST_F(BLASLt, RoundsOnceToNarrowTypes) {
  Problem problem;
  problem.type = problem.resultType = BLASType::BF16;
  auto x = matrix(5, 4, 1), y = matrix(4, 3, 2);
  auto narrow = [](const std::vector<float> &values) {
    std::vector<uint16_t> bits;
    for (float value : values)
      bits.push_back(runtime::floatToBF16(value));
    return bits;
  };
  a = upload(narrow(x)), b = upload(narrow(y)), d = allocate(7 * 3 * 2);
  ASSERT_EQ(multiply(problem), 0);
  auto found = download<uint16_t>(d, 7 * 3);
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint64_t j = 0; j < 3; ++j) {
      float sum = 0;
      for (uint64_t l = 0; l < 4; ++l)
        sum += x[l * 7 + i] * y[j * 6 + l];
      EXPECT_EQ(found[j * 7 + i], runtime::floatToBF16(sum));
    }
  }
}

TEST_F(BLASLt, ReluKeepsAMaskThatItsGradientReads) {
  Problem problem;
  auto x = matrix(5, 4, 1), y = matrix(4, 3, 2);
  std::vector<float> added = {-1, 0, 1, 0.5, -0.5};
  a = upload(x), b = upload(y), d = allocate(7 * 3 * 4);
  bias = upload(added);
  aux = upload(std::vector<uint8_t>(16 * 3));
  problem.epilogue = BLASEpilogue::ReluAuxBias;
  ASSERT_EQ(multiply(problem), 0);
  auto forward = download<float>(d, 7 * 3);
  auto mask = download<uint8_t>(aux, 16 * 3);

  auto product = [&](uint64_t i, uint64_t j) {
    float sum = 0;
    for (uint64_t l = 0; l < 4; ++l)
      sum += x[l * 7 + i] * y[j * 6 + l];
    return sum;
  };
  unsigned positive = 0;
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint64_t j = 0; j < 3; ++j) {
      float value = product(i, j) + added[i];
      positive += value > 0;
      EXPECT_EQ(forward[j * 7 + i], std::max(value, 0.0f));
      EXPECT_EQ(mask[16 * j + i / 8] >> i % 8 & 1, value > 0);
    }
  }
  EXPECT_GT(positive, 0u);
  EXPECT_LT(positive, 15u);

  problem.epilogue = BLASEpilogue::DReluBGrad;
  ASSERT_EQ(multiply(problem), 0);
  auto backward = download<float>(d, 7 * 3);
  auto gradient = download<float>(bias, 5);
  for (uint64_t i = 0; i < 5; ++i) {
    float sum = 0;
    for (uint64_t j = 0; j < 3; ++j) {
      float value = product(i, j) + added[i] > 0 ? product(i, j) : 0;
      EXPECT_EQ(backward[j * 7 + i], value);
      sum += value;
    }
    EXPECT_EQ(gradient[i], sum);
  }
}

TEST_F(BLASLt, SumsAnOperandForTheBiasGradient) {
  Problem problem;
  auto x = matrix(5, 4, 1), y = matrix(4, 3, 2);
  a = upload(x), b = upload(y), d = allocate(7 * 3 * 4);
  bias = allocate(5 * 4);
  problem.epilogue = BLASEpilogue::BGradA;
  ASSERT_EQ(multiply(problem), 0);
  auto rows = download<float>(bias, 5);
  for (uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(rows[i], x[i] + x[7 + i] + x[14 + i] + x[21 + i]);
  problem.epilogue = BLASEpilogue::BGradB;
  problem.transB = true;
  auto turned = matrix(3, 4, 2);
  b = upload(turned);
  ASSERT_EQ(multiply(problem), 0);
  auto columns = download<float>(bias, 3);
  for (uint64_t j = 0; j < 3; ++j)
    EXPECT_EQ(columns[j],
              turned[j] + turned[5 + j] + turned[10 + j] + turned[15 + j]);
}

TEST_F(BLASLt, SumsAnOperandInOneOrderAlone) {
  constexpr int notSupported = 15;
  Problem problem;
  a = upload(matrix(4, 5, 1)), b = upload(matrix(4, 3, 2));
  d = allocate(7 * 3 * 4);
  bias = allocate(5 * 4);
  problem.epilogue = BLASEpilogue::BGradA;
  problem.transA = true;
  EXPECT_EQ(multiply(problem), notSupported);
  problem.epilogue = BLASEpilogue::BGradB;
  problem.transA = false;
  a = upload(matrix(5, 4, 1));
  EXPECT_EQ(multiply(problem), notSupported);
}

TEST_F(BLASLt, MultipliesBatches) {
  Problem problem;
  problem.batch = 2;
  auto x = matrix(5, 8, 1), y = matrix(4, 6, 2);
  a = upload(x), b = upload(y), d = allocate(7 * 6 * 4);
  ASSERT_EQ(multiply(problem), 0);
  auto found = download<float>(d, 7 * 6);
  float sum = 0; // the last element of the second batch
  for (uint64_t l = 0; l < 4; ++l)
    sum += x[7 * (4 + l) + 4] * y[6 * 5 + l];
  EXPECT_EQ(found[7 * 5 + 4], sum);
}

TEST_F(BLASLt, RoundsOperandsToTF32WhereAsked) {
  Problem problem;
  problem.m = problem.n = problem.k = 1;
  a = upload<float>({1 + 0x1p-12f, 0, 0}), b = upload<float>({1, 0, 0});
  d = allocate(12);
  ASSERT_EQ(multiply(problem), 0);
  EXPECT_EQ(download<float>(d, 1).front(), 1 + 0x1p-12f);
  problem.compute = cuda::BLASCompute::FastTF32;
  ASSERT_EQ(multiply(problem), 0);
  EXPECT_EQ(download<float>(d, 1).front(), 1.0f);
}

TEST_F(BLASLt, RefusesWhatTheLibraryRefuses) {
  constexpr int kInvalidValue = 7, kNotSupported = 15;
  a = allocate(4096), b = allocate(4096), d = allocate(4096);
  bias = allocate(4096), aux = allocate(4096);
  auto status = [&](auto change) {
    Problem problem;
    change(problem);
    return multiply(problem);
  };
  EXPECT_EQ(status([](Problem &) {}), 0);
  EXPECT_EQ(status([](Problem &p) {
              p.epilogue = BLASEpilogue::ReluAuxBias;
              p.auxLd = 64;
            }),
            kInvalidValue);
  EXPECT_EQ(status([](Problem &p) {
              p.epilogue = BLASEpilogue::Bias;
              p.biasType = BLASType::BF16;
            }),
            kNotSupported);
  EXPECT_EQ(status([](Problem &p) { p.resultType = BLASType::F16; }),
            kNotSupported);
  EXPECT_EQ(status([](Problem &p) { p.compute = cuda::BLASCompute::F64; }),
            kNotSupported);
  EXPECT_EQ(status([](Problem &p) {
              p.epilogue = BLASEpilogue::DRelu;
              p.batch = 2;
            }),
            kNotSupported);
  // The pointer has less alignment than promised.
  a += 4;
  EXPECT_EQ(status([](Problem &) {}), kInvalidValue);
  a -= 4;
  // Memory that is too small is found when the product runs.
  d = allocate(7 * 3 * 4 - 12);
  EXPECT_EQ(status([](Problem &) {}), 0);
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 700);
}

} // namespace
