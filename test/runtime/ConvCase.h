// A convolution and its gradients as the tests of every device set them: random
// operands, the steps of a plan, and what float64 loops make of them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CONVCASE_H
#define MPC_TEST_RUNTIME_CONVCASE_H

#include "test/runtime/cpu/Reference.h"

namespace mpc::runtime::test {

struct ConvCase {
  int64_t batch, groups, inChannels, outChannels;
  std::vector<int64_t> inSpatial, kernel, strides, dilations, padsBegin,
      padsEnd;
  DType type = DType::F32;   ///< of the operands read
  DType result = DType::F32; ///< of the one written
  const char *filterLayout = "OIHW", *compute = "f32";
};

/// Steps a multi-index through `extents`; false after the last.
inline bool advance(std::vector<int64_t> &index,
                    const std::vector<int64_t> &extents) {
  for (size_t d = extents.size(); d-- > 0;) {
    if (++index[d] < extents[d])
      return true;
    index[d] = 0;
  }
  return false;
}

inline int64_t flatten(const std::vector<int64_t> &index,
                       const std::vector<int64_t> &extents) {
  int64_t result = 0;
  for (size_t d = 0; d < extents.size(); ++d)
    result = result * extents[d] + index[d];
  return result;
}

class Conv {
public:
  explicit Conv(const ConvCase &c) : c(c) {
    for (size_t d = 0; d < c.kernel.size(); ++d)
      outSpatial.push_back((c.inSpatial[d] + c.padsBegin[d] + c.padsEnd[d] -
                            c.dilations[d] * (c.kernel[d] - 1) - 1) /
                               c.strides[d] +
                           1);
    xShape = shapeOf(c.batch, c.inSpatial, c.inChannels);
    yShape = shapeOf(c.batch, outSpatial, c.outChannels);
    int64_t inPerGroup = c.inChannels / c.groups;
    if (hasInputChannelsLast()) {
      wShape = shapeOf(c.outChannels, c.kernel, inPerGroup);
    } else {
      wShape = {c.outChannels, inPerGroup};
      wShape.insert(wShape.end(), c.kernel.begin(), c.kernel.end());
    }
    x = randomTensor(c.type, xShape, 1);
    w = randomTensor(c.type, wShape, 2);
    y = randomTensor(c.type, yShape, 3);
  }

  /// What each element of x, w or y (by `kind`) is the sum of.
  std::vector<DotProduct> reference(const std::string &kind) const {
    std::vector<double> xs = toDoubles(x), ws = toDoubles(w), ys = toDoubles(y);
    std::vector<DotProduct> result(
        static_cast<size_t>(operand(writtenBy(kind)).size()));
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

  /// The operand that a step of `kind` writes.
  static const char *writtenBy(const std::string &kind) {
    return kind == "forward" ? "y" : kind == "input_grad" ? "x" : "w";
  }
  const Tensor &operand(const std::string &name) const {
    return name == "x" ? x : name == "w" ? w : y;
  }

  /// The step without its operands.
  Json step(const std::string &kind) const {
    return {{"op", "conv"},
            {"name", "conv1"},
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
            {"epilogue", nullptr},
            {"compute", c.compute},
            {"filter_layout", c.filterLayout}};
  }

  /// Adds the step to `f`, with the result as the output `result`.
  void addTo(FunctionBuilder &f, const std::string &kind) const {
    Json step = this->step(kind);
    std::string written = writtenBy(kind);
    for (const char *name : {"x", "w", "y"})
      step[name] = name == written ? f.arena(c.result, operand(name).shape)
                                   : f.constant(operand(name));
    f.step(step);
    f.output("result", step[written].get<size_t>());
  }

  const ConvCase c;
  std::vector<int64_t> outSpatial;
  Shape xShape, wShape, yShape;
  Tensor x, w, y;

private:
  bool hasInputChannelsLast() const {
    return std::string(c.filterLayout) == "OHWI";
  }
  static Shape shapeOf(int64_t first, const std::vector<int64_t> &spatial,
                       int64_t last) {
    Shape shape = {first};
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    shape.push_back(last);
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
              int64_t filter = hasInputChannelsLast()
                                   ? (o * taps + t) * inPerGroup + i
                                   : (o * inPerGroup + i) * taps + t;
              body(static_cast<size_t>((n * xPixels + xPixel) * c.inChannels +
                                       channel),
                   static_cast<size_t>(filter),
                   static_cast<size_t>((n * yPixels + yPixel) * c.outChannels +
                                       o));
            }
      } while (advance(tap, c.kernel));
    } while (advance(out, outSpatial));
  }
};

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CONVCASE_H
