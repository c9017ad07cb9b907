// Convolutions and their gradients on an emulated GPU against float64 loops:
// what the device tells cuDNN, which refuses what the real one would, gives the
// result that the plan describes.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/DNNABI.h"
#include "test/runtime/cpu/Reference.h"
#include "test/runtime/cuda/Emulated.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;
using mpc::runtime::cuda::DNNStatus;

namespace {

using Extents = std::vector<int64_t>;

struct Case {
  int64_t batch, groups, inChannels, outChannels;
  Extents in, kernel, strides, dilations, padsBegin, padsEnd;
  DType type = DType::F32;
  const char *compute = "f32";
};

/// A convolution over up to three dimensions, the missing ones of extent 1.
class Conv {
public:
  explicit Conv(const Case &c) : c(c) {
    for (size_t d = 0; d < c.in.size(); ++d)
      out.push_back((c.in[d] + c.padsBegin[d] + c.padsEnd[d] -
                     c.dilations[d] * (c.kernel[d] - 1) - 1) /
                        c.strides[d] +
                    1);
    x = randomTensor(c.type, shapeOf(c.batch, c.in, c.inChannels), 1);
    w = randomTensor(
        c.type, shapeOf(c.outChannels, c.kernel, c.inChannels / c.groups), 2);
    y = randomTensor(c.type, shapeOf(c.batch, out, c.outChannels), 3);
  }

  /// What each element of the result of `kind` is the sum of.
  std::vector<DotProduct> reference(const std::string &kind) const {
    std::vector<double> xs = toDoubles(x), ws = toDoubles(w), ys = toDoubles(y);
    std::vector<DotProduct> result(resultOf(kind).size());
    Extents in = padded(c.in, 1), kernel = padded(c.kernel, 1),
            strides = padded(c.strides, 1), dilations = padded(c.dilations, 1),
            pads = padded(c.padsBegin, 0), outs = padded(out, 1);
    int64_t inGroup = c.inChannels / c.groups;
    int64_t outGroup = c.outChannels / c.groups;
    for (int64_t yi = 0; yi < y.size(); ++yi) {
      int64_t o = yi % c.outChannels, rest = yi / c.outChannels;
      Extents at = split(rest, outs);
      int64_t n = rest / numElements(outs);
      for (int64_t t = 0; t < numElements(kernel); ++t) {
        Extents tap = split(t, kernel);
        int64_t pixel = n;
        bool inside = true;
        for (size_t d = 0; d < 3; ++d) {
          int64_t position =
              at[d] * strides[d] + tap[d] * dilations[d] - pads[d];
          inside = inside && position >= 0 && position < in[d];
          pixel = pixel * in[d] + position;
        }
        for (int64_t i = 0; inside && i < inGroup; ++i) {
          auto xe = static_cast<size_t>(pixel * c.inChannels +
                                        o / outGroup * inGroup + i);
          auto we =
              static_cast<size_t>((o * numElements(kernel) + t) * inGroup + i);
          auto ye = static_cast<size_t>(yi);
          if (kind == "forward")
            result[ye].add(xs[xe], ws[we]);
          else if (kind == "input_grad")
            result[xe].add(ys[ye], ws[we]);
          else
            result[we].add(xs[xe], ys[ye]);
        }
      }
    }
    return result;
  }

  const Tensor &resultOf(const std::string &kind) const {
    return kind == "forward" ? y : kind == "input_grad" ? x : w;
  }

  /// An artifact of one step, with the result as output `result`.
  ArtifactBuilder artifact(const std::string &kind) const {
    ArtifactBuilder builder;
    builder.forGPU("sm_80", ".version 8.0\n.target sm_80\n.address_size 64\n");
    FunctionBuilder f = builder.function("step");
    Json step = {{"op", "conv"},
                 {"name", "conv1"},
                 {"kind", kind},
                 {"batch", c.batch},
                 {"groups", c.groups},
                 {"in_channels", c.inChannels},
                 {"out_channels", c.outChannels},
                 {"in_spatial", c.in},
                 {"out_spatial", out},
                 {"kernel", c.kernel},
                 {"strides", c.strides},
                 {"dilations", c.dilations},
                 {"pads_begin", c.padsBegin},
                 {"pads_end", c.padsEnd},
                 {"epilogue", nullptr},
                 {"compute", c.compute},
                 {"filter_layout", "OHWI"}};
    const std::pair<const char *, const Tensor &> operands[] = {
        {"x", x}, {"w", w}, {"y", y}};
    for (const auto &[name, tensor] : operands) {
      bool written = &tensor == &resultOf(kind);
      size_t buffer =
          written ? f.arena(tensor.type, tensor.shape) : f.constant(tensor);
      step[name] = buffer;
      if (written)
        f.output("result", buffer);
    }
    f.step(step);
    return builder;
  }

private:
  static Shape shapeOf(int64_t first, const Extents &spatial, int64_t last) {
    Shape shape = {first};
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    shape.push_back(last);
    return shape;
  }
  static Extents padded(Extents extents, int64_t value) {
    extents.insert(extents.begin(), 3 - extents.size(), value);
    return extents;
  }
  /// The last digits of `number` in a system of three extents.
  static Extents split(int64_t number, const Extents &extents) {
    Extents digits(3);
    for (size_t d = 3; d-- > 0;) {
      digits[d] = number % extents[d];
      number /= extents[d];
    }
    return digits;
  }

  const Case c;
  Extents out;
  Tensor x, w, y;
};

void expectCorrect(const Case &c) {
  Conv conv(c);
  for (const char *kind : {"forward", "input_grad", "weight_grad"}) {
    SCOPED_TRACE(std::string(kind) + " " + std::string(nameOf(c.type)));
    auto session = openOnGPU(conv.artifact(kind));
    ASSERT_TRUE(session);
    for (int i = 0; i < 3; ++i) { // eager, recorded, replayed
      Status status = session->run("step");
      ASSERT_TRUE(status.ok()) << status.message();
    }
    auto result = session->output("step", "result");
    ASSERT_TRUE(result.ok()) << result.status().message();
    expectClose(*result, conv.reference(kind));
  }
}

Case small(DType type) {
  return {2, 1, 3, 8, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, type};
}

TEST(CUDAConv, ConvolvesInEveryType) {
  emulated({}, [] {
    for (DType type : {DType::F32, DType::F16, DType::BF16})
      expectCorrect(small(type));
    Case wide = small(DType::F64);
    wide.compute = "f64";
    expectCorrect(wide);
  });
}

TEST(CUDAConv, HasStridesDilationsAndUnevenPadding) {
  emulated({}, [] {
    Case c = small(DType::F32);
    c.strides = {2, 3};
    c.dilations = {2, 1};
    c.padsBegin = {0, 2};
    c.padsEnd = {1, 1};
    expectCorrect(c);
  });
}

TEST(CUDAConv, ConvolvesGroups) {
  emulated({}, [] {
    Case c = small(DType::F32);
    c.groups = 4;
    c.inChannels = 8;
    expectCorrect(c);
    c.groups = 8; // depthwise
    expectCorrect(c);
  });
}

TEST(CUDAConv, ConvolvesInOneAndThreeDimensions) {
  emulated({}, [] {
    expectCorrect({2, 1, 3, 4, {9}, {3}, {2}, {1}, {1}, {0}});
    expectCorrect({2,
                   1,
                   3,
                   4,
                   {4, 5, 3},
                   {3, 2, 1},
                   {1, 1, 1},
                   {1, 1, 1},
                   {1, 0, 0},
                   {1, 1, 0}});
  });
}

TEST(CUDAConv, NamesTheConvolutionWithoutAnEngine) {
  emulated({{"MPC_EMULATOR_FAULT", "cudnnBackendFinalize:7+=3000"}}, [] {
    expectMessage(
        tryOpenOnGPU(Conv(small(DType::F32)).artifact("weight_grad")),
        StatusCode::Device,
        {"'conv1' in function 'step'", "no deterministic engine",
         "the convolution's weight gradient of x f32 2x3x7x6, w f32 8x3x3x3, "
         "y f32 2x8x7x6",
         "--device cpu"});
  });
}

/// Every call of the library fails once. Some failures mean that an engine
/// cannot do it, and another is taken; none ends the process.
TEST(CUDAConv, SurvivesTheFailureOfAnyCall) {
  auto train = [] {
    SessionOptions options;
    options.device = "cuda";
    auto session = Session::create(
        Conv(small(DType::F32)).artifact("forward").open(), options);
    if (!session.ok())
      return session.status();
    for (int i = 0; i < 2; ++i)
      if (Status status = (*session)->run("step"); !status.ok())
        return status;
    return (*session)->output("step", "result").status();
  };
#define MPC_FAULT(result, member, symbol, ...)                                 \
  if (std::is_same_v<result, DNNStatus>)                                       \
    for (int which : {1, 2, 3, 6, 12, 24})                                     \
      emulated(                                                                \
          {{"MPC_EMULATOR_FAULT",                                              \
            std::string(#symbol ":") + std::to_string(which) + "=4000"}},      \
          [&] {                                                                \
            Status status = train();                                           \
            EXPECT_TRUE(status.ok() || status.getCode() == StatusCode::Device) \
                << #symbol << ": " << status.message();                        \
            bool first = which == 1 && std::string(#symbol).find("estroy") ==  \
                                           std::string::npos;                  \
            EXPECT_TRUE(!first || !status.ok()) << #symbol;                    \
          });
  MPC_CUDA_DNN_FUNCTIONS(MPC_FAULT)
#undef MPC_FAULT
}

} // namespace
