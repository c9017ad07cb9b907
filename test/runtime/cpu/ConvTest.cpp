// Convolutions and their gradients against float64 loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cpu/Reference.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

struct Case {
  int64_t batch, groups, inChannels, outChannels;
  std::vector<int64_t> inSpatial, kernel, strides, dilations, padsBegin,
      padsEnd;
  DType type = DType::F32;   ///< of the operands read
  DType result = DType::F32; ///< of the one written
};

/// Steps a multi-index through `extents`; false after the last.
bool advance(std::vector<int64_t> &index, const std::vector<int64_t> &extents) {
  for (size_t d = extents.size(); d-- > 0;) {
    if (++index[d] < extents[d])
      return true;
    index[d] = 0;
  }
  return false;
}

int64_t flatten(const std::vector<int64_t> &index,
                const std::vector<int64_t> &extents) {
  int64_t result = 0;
  for (size_t d = 0; d < extents.size(); ++d)
    result = result * extents[d] + index[d];
  return result;
}

class Conv {
public:
  explicit Conv(const Case &c) : c(c) {
    for (size_t d = 0; d < c.kernel.size(); ++d)
      outSpatial.push_back((c.inSpatial[d] + c.padsBegin[d] + c.padsEnd[d] -
                            c.dilations[d] * (c.kernel[d] - 1) - 1) /
                               c.strides[d] +
                           1);
    xShape = shapeOf(c.inSpatial, c.inChannels);
    yShape = shapeOf(outSpatial, c.outChannels);
    wShape = {c.outChannels, c.inChannels / c.groups};
    wShape.insert(wShape.end(), c.kernel.begin(), c.kernel.end());
    x = randomTensor(c.type, xShape, 1);
    w = randomTensor(c.type, wShape, 2);
    y = randomTensor(c.type, yShape, 3);
  }

  /// What each element of x, w or y (by `kind`) is the sum of.
  std::vector<DotProduct> reference(const std::string &kind) const {
    std::vector<double> xs = toDoubles(x), ws = toDoubles(w), ys = toDoubles(y);
    size_t elements = kind == "forward"      ? ys.size()
                      : kind == "input_grad" ? xs.size()
                                             : ws.size();
    std::vector<DotProduct> result(elements);
    forEachProduct([&](size_t xi, size_t wi, size_t yi) {
      if (kind == "forward")
        result[yi].add(xs[xi], ws[wi]);
      else if (kind == "input_grad")
        result[xi].add(ys[yi], ws[wi]);
      else
        result[wi].add(xs[xi], ys[yi]);
    });
    return result;
  }

  Json step(const std::string &kind) const {
    return {{"op", "conv"},
            {"kind", kind},
            {"x", nullptr},
            {"w", nullptr},
            {"y", nullptr},
            {"batch", c.batch},
            {"groups", c.groups},
            {"in_channels", c.inChannels},
            {"out_channels", c.outChannels},
            {"in_spatial", c.inSpatial},
            {"out_spatial", outSpatial},
            {"kernel", c.kernel},
            {"strides", c.strides},
            {"dilations", c.dilations},
            {"pads_begin", c.padsBegin},
            {"pads_end", c.padsEnd},
            {"epilogue", nullptr}};
  }

  const Case c;
  std::vector<int64_t> outSpatial;
  Shape xShape, wShape, yShape;
  Tensor x, w, y;

private:
  Shape shapeOf(const std::vector<int64_t> &spatial, int64_t channels) const {
    Shape shape = {c.batch};
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    shape.push_back(channels);
    return shape;
  }

  /// Calls body(x, w, y) with the elements of every product.
  template <typename Body>
  void forEachProduct(Body body) const {
    int64_t inPerGroup = c.inChannels / c.groups;
    int64_t outPerGroup = c.outChannels / c.groups;
    int64_t xPixels = numElements(c.inSpatial);
    int64_t yPixels = numElements(outSpatial);
    int64_t taps = numElements(c.kernel);
    std::vector<int64_t> out(outSpatial.size());
    do {
      std::vector<int64_t> tap(c.kernel.size());
      do {
        std::vector<int64_t> in(out.size());
        bool inside = true;
        for (size_t d = 0; d < in.size(); ++d) {
          in[d] =
              out[d] * c.strides[d] + tap[d] * c.dilations[d] - c.padsBegin[d];
          inside = inside && in[d] >= 0 && in[d] < c.inSpatial[d];
        }
        if (!inside)
          continue;
        int64_t xPixel = flatten(in, c.inSpatial);
        int64_t yPixel = flatten(out, outSpatial);
        int64_t t = flatten(tap, c.kernel);
        for (int64_t n = 0; n < c.batch; ++n)
          for (int64_t o = 0; o < c.outChannels; ++o)
            for (int64_t i = 0; i < inPerGroup; ++i) {
              int64_t channel = o / outPerGroup * inPerGroup + i;
              body(static_cast<size_t>((n * xPixels + xPixel) * c.inChannels +
                                       channel),
                   static_cast<size_t>((o * inPerGroup + i) * taps + t),
                   static_cast<size_t>((n * yPixels + yPixel) * c.outChannels +
                                       o));
            }
      } while (advance(tap, c.kernel));
    } while (advance(out, outSpatial));
  }
};

void expectCorrect(const Case &c, const std::string &kind) {
  SCOPED_TRACE(kind + " " + std::string(nameOf(c.type)) + " -> " +
               std::string(nameOf(c.result)));
  Conv conv(c);
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  Json step = conv.step(kind);
  std::string written = kind == "forward"      ? "y"
                        : kind == "input_grad" ? "x"
                                               : "w";
  for (const auto &[name, tensor] :
       {std::pair<std::string, const Tensor *>{"x", &conv.x},
        {"w", &conv.w},
        {"y", &conv.y}})
    step[name] = name == written ? f.arena(c.result, tensor->shape)
                                 : f.constant(*tensor);
  f.step(step);
  f.output("result", step[written].get<size_t>());
  expectClose(runOnThreads(builder, "result"), conv.reference(kind));
}

void expectAllKindsCorrect(Case c) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (const char *kind : {"forward", "input_grad", "weight_grad"}) {
      c.type = type;
      c.result = type;
      expectCorrect(c, kind);
    }
}

TEST(Conv, TwoDimensions) {
  expectAllKindsCorrect(
      {5, 1, 6, 16, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Conv, FewAndManyChannels) {
  expectAllKindsCorrect(
      {3, 1, 1, 6, {12, 12}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}});
  expectAllKindsCorrect(
      {2, 1, 64, 32, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  expectAllKindsCorrect(
      {2, 1, 32, 48, {5, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

TEST(Conv, StridesDilationsAndUnevenPadding) {
  expectAllKindsCorrect(
      {2, 1, 8, 8, {11, 10}, {3, 2}, {2, 3}, {1, 1}, {0, 1}, {2, 0}});
  expectAllKindsCorrect(
      {2, 1, 16, 16, {11, 10}, {3, 3}, {1, 1}, {2, 2}, {2, 1}, {2, 3}});
  expectAllKindsCorrect(
      {2, 1, 16, 16, {10, 10}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}});
}

TEST(Conv, Groups) {
  expectAllKindsCorrect(
      {2, 2, 8, 12, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  expectAllKindsCorrect(
      {2, 16, 16, 16, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Conv, OneAndThreeDimensions) {
  expectAllKindsCorrect({3, 1, 5, 7, {17}, {4}, {2}, {1}, {1}, {2}});
  expectAllKindsCorrect({2,
                         1,
                         3,
                         4,
                         {5, 4, 6},
                         {2, 3, 3},
                         {1, 1, 2},
                         {1, 1, 1},
                         {0, 1, 1},
                         {1, 1, 1}});
}

TEST(Conv, BatchesThatDoNotDivideIntoSlices) {
  expectAllKindsCorrect(
      {37, 1, 16, 16, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Conv, NarrowOperandsWithAWideResult) {
  for (DType type : {DType::BF16, DType::F16})
    for (const char *kind : {"forward", "input_grad", "weight_grad"})
      expectCorrect({3,
                     1,
                     16,
                     16,
                     {6, 6},
                     {3, 3},
                     {1, 1},
                     {1, 1},
                     {1, 1},
                     {1, 1},
                     type,
                     DType::F32},
                    kind);
}

TEST(Conv, RandomGeometries) {
  std::mt19937 random(7);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 40; ++i) {
    Case c;
    c.batch = pick(1, 5);
    c.groups = pick(0, 2) ? 1 : pick(2, 4);
    c.inChannels = c.groups * pick(1, 20);
    c.outChannels = c.groups * pick(1, 20);
    for (int64_t d = 0, rank = pick(1, 2); d < rank; ++d) {
      c.kernel.push_back(pick(1, 4));
      c.strides.push_back(pick(1, 3));
      c.dilations.push_back(pick(1, 2));
      c.padsBegin.push_back(pick(0, 3));
      c.padsEnd.push_back(pick(0, 3));
      int64_t window = c.dilations.back() * (c.kernel.back() - 1) + 1;
      c.inSpatial.push_back(window + pick(0, 8));
    }
    SCOPED_TRACE("case " + std::to_string(i));
    expectAllKindsCorrect(c);
  }
}

TEST(Conv, EpilogueSeesEveryPixelOnce) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    Case c{19,     1,      8,      16,     {12, 11}, {3, 3},
           {1, 1}, {1, 1}, {1, 1}, {1, 1}, type};
    Conv conv(c);
    Tensor bias = randomTensor(DType::F32, {c.outChannels}, 4);
    Tensor columns = Tensor::zeros(DType::I64, {});
    *columns.as<int64_t>() = c.outChannels;
    ArtifactBuilder builder;
    FunctionBuilder f = builder.function("step");
    size_t out = f.arena(DType::F32, conv.yShape);
    Json step = conv.step("forward");
    step["x"] = f.constant(conv.x);
    step["w"] = f.constant(conv.w);
    step["epilogue"] = {{"kernel", "bias_relu"},
                        {"args", {f.constant(bias), out, f.constant(columns)}}};
    f.step(step);
    f.output("out", out);

    std::vector<DotProduct> expected = conv.reference("forward");
    std::vector<double> result = toDoubles(runOnThreads(builder, "out"));
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i].add(bias.as<float>()[i % static_cast<size_t>(c.outChannels)],
                      1);
      ASSERT_NEAR(result[i], std::max(expected[i].value, 0.0),
                  expected[i].bound(DType::F32))
          << i;
    }
  }
}

} // namespace
