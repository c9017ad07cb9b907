// Test cases of a convolution and its gradients, for every device: random
// operands, the plan's steps, and float64 loops as the reference.
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
  DType type = DType::F32;   ///< of the operands that are read
  DType result = DType::F32; ///< of the written operand
  const char *filterLayout = "OIHW", *compute = "f32";
};

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

  /// The sum for each element of x, w or y (by `kind`).
  std::vector<DotProduct> reference(const std::string &kind) const;

  /// The operand that a step of `kind` writes.
  static const char *writtenBy(const std::string &kind) {
    return kind == "forward" ? "y" : kind == "input_grad" ? "x" : "w";
  }
  const Tensor &operand(const std::string &name) const {
    return name == "x" ? x : name == "w" ? w : y;
  }

  /// The step without operands.
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

  /// Adds the step to `f`. The result is the output `result`.
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

  template <typename Body>
  void forEachProduct(Body body) const;
};

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CONVCASE_H
