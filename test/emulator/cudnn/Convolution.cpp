// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cudnn/Convolution.h"

#include "test/emulator/Element.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::emulator;

static Element elementOf(cudnnDataType_t type) {
  switch (type) {
  case CUDNN_DATA_DOUBLE:
    return Element::F64;
  case CUDNN_DATA_HALF:
    return Element::F16;
  case CUDNN_DATA_BFLOAT16:
    return Element::BF16;
  case CUDNN_DATA_FLOAT:
  case CUDNN_DATA_INT32:
  case CUDNN_DATA_BOOLEAN:
    break;
  }
  return Element::F32;
}

size_t ConvTensor::elementBytes() const { return sizeOf(elementOf(type)); }

int64_t ConvTensor::elements() const {
  int64_t count = 1;
  for (int64_t extent : dims)
    count *= extent;
  return count;
}

int64_t ConvTensor::reach() const {
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    last += (dims[i] - 1) * strides[i];
  return last + 1;
}

size_t ConvTensor::bytes() const {
  return static_cast<size_t>(reach()) * elementBytes();
}

//===----------------------------------------------------------------------===//
// Restrictions of the library
//===----------------------------------------------------------------------===//

const char *mpc::emulator::checkShapes(const Convolution &conv) {
  size_t spatial = conv.strides.size(), rank = spatial + 2;
  if (conv.x.dims.size() != rank || conv.w.dims.size() != rank ||
      conv.y.dims.size() != rank)
    return "the tensors' ranks differ from the convolution's";
  if (conv.x.dims[0] != conv.y.dims[0])
    return "x and y differ in batch size";
  if (conv.x.dims[1] % conv.w.dims[1] ||
      conv.w.dims[0] % (conv.x.dims[1] / conv.w.dims[1]))
    return "the channels do not divide into groups";
  if (conv.w.dims[0] != conv.y.dims[1])
    return "w and y differ in output channels";
  for (size_t i = 0; i < spatial; ++i) {
    int64_t window = (conv.w.dims[2 + i] - 1) * conv.dilations[i] + 1;
    int64_t room = conv.x.dims[2 + i] + conv.prePaddings[i] +
                   conv.postPaddings[i] - window;
    if (room < 0 || room / conv.strides[i] + 1 != conv.y.dims[2 + i])
      return "y's extent is not what x, the window and the strides give";
  }
  return nullptr;
}

const char *mpc::emulator::checkSupport(const Convolution &conv) {
  size_t spatial = conv.strides.size();
  if (spatial < 2 || spatial > 3)
    return "engines have two or three spatial dimensions";
  cudnnDataType_t type = conv.x.type;
  if (conv.w.type != type || conv.y.type != type)
    return "no engine mixes element types";
  bool isDouble = type == CUDNN_DATA_DOUBLE;
  if (conv.compute != (isDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return "the compute type does not go with the element type";
  for (const ConvTensor *tensor : {&conv.x, &conv.w, &conv.y})
    if (tensor->alignment % static_cast<int64_t>(tensor->elementBytes()))
      return "a tensor is aligned less than its elements";
  return nullptr;
}

//===----------------------------------------------------------------------===//
// The convolution
//===----------------------------------------------------------------------===//

namespace {

using Extents = std::array<int64_t, 3>;

/// Extends two spatial dimensions to three. The first has extent `filler`.
Extents spatial(const std::vector<int64_t> &values, size_t from,
                int64_t filler) {
  Extents extents = {filler, filler, filler};
  size_t count = values.size() - from;
  std::copy(values.begin() + static_cast<long>(from), values.end(),
            extents.begin() + static_cast<long>(3 - count));
  return extents;
}

/// Clears the low 13 bits, which a Tensor Core ignores.
float toTF32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits &= ~uint32_t(0x1fff);
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

/// A dense tensor in the type of the computation: first dimension, spatial
/// ones, then channels.
template <class T>
struct Dense {
  Dense(const ConvTensor &tensor)
      : tensor(tensor), outer(tensor.dims[0]), channels(tensor.dims[1]),
        element(elementOf(tensor.type)), extents(spatial(tensor.dims, 2, 1)),
        steps(spatial(tensor.strides, 2, 0)),
        values(static_cast<size_t>(outer * channels * extents[0] * extents[1] *
                                   extents[2])) {}

  T *at(int64_t o, int64_t d, int64_t h, int64_t w) {
    int64_t row = ((o * extents[0] + d) * extents[1] + h) * extents[2] + w;
    return &values[static_cast<size_t>(row * channels)];
  }

  template <class F>
  void forEach(F f) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t d = 0; d < extents[0]; ++d)
        for (int64_t h = 0; h < extents[1]; ++h)
          for (int64_t w = 0; w < extents[2]; ++w)
            for (int64_t c = 0; c < channels; ++c)
              f(at(o, d, h, w)[c],
                static_cast<uint64_t>(o * tensor.strides[0] +
                                      c * tensor.strides[1] + d * steps[0] +
                                      h * steps[1] + w * steps[2]));
  }

  void read(const void *memory, bool roundsToTF32) {
    forEach([&](T &value, uint64_t i) {
      value = load<T>(memory, i, element);
      if (roundsToTF32)
        value = static_cast<T>(toTF32(static_cast<float>(value)));
    });
  }

  void write(void *memory, double alpha, double beta) {
    forEach([&](T &value, uint64_t i) {
      T result = static_cast<T>(alpha) * value;
      if (beta != 0)
        result += static_cast<T>(beta) * load<T>(memory, i, element);
      store(memory, i, element, result);
    });
  }

  const ConvTensor &tensor;
  int64_t outer, channels;
  Element element;
  Extents extents, steps;
  std::vector<T> values;
};

template <class T>
class Convolver {
public:
  explicit Convolver(const Convolution &conv)
      : conv(conv), x(conv.x), w(conv.w), y(conv.y),
        strides(spatial(conv.strides, 0, 1)),
        dilations(spatial(conv.dilations, 0, 1)),
        paddings(spatial(conv.prePaddings, 0, 0)) {}

  void run(void *xMemory, void *wMemory, void *yMemory) {
    if (conv.kind != Convolution::BackwardData)
      x.read(xMemory, conv.roundsToTF32);
    if (conv.kind != Convolution::BackwardFilter)
      w.read(wMemory, conv.roundsToTF32);
    if (conv.kind != Convolution::Forward)
      y.read(yMemory, conv.roundsToTF32);
    for (int64_t n = 0; n < y.outer; ++n)
      for (int64_t d = 0; d < y.extents[0]; ++d)
        for (int64_t h = 0; h < y.extents[1]; ++h)
          for (int64_t q = 0; q < y.extents[2]; ++q)
            convolveWindow(n, {d, h, q});
    if (conv.kind == Convolution::Forward)
      y.write(yMemory, conv.alpha, conv.beta);
    else if (conv.kind == Convolution::BackwardData)
      x.write(xMemory, conv.alpha, conv.beta);
    else
      w.write(wMemory, conv.alpha, conv.beta);
  }

private:
  /// Combines one position of y, with all channels, with all elements of its
  /// window.
  void convolveWindow(int64_t n, Extents at) {
    T *output = y.at(n, at[0], at[1], at[2]);
    Extents tap;
    for (tap[0] = 0; tap[0] < w.extents[0]; ++tap[0]) {
      for (tap[1] = 0; tap[1] < w.extents[1]; ++tap[1]) {
        for (tap[2] = 0; tap[2] < w.extents[2]; ++tap[2]) {
          Extents from;
          bool inside = true;
          for (unsigned i = 0; i < 3; ++i) {
            from[i] = at[i] * strides[i] + tap[i] * dilations[i] - paddings[i];
            inside &= from[i] >= 0 && from[i] < x.extents[i];
          }
          if (inside)
            convolveTap(x.at(n, from[0], from[1], from[2]), output, tap);
        }
      }
    }
  }

  void convolveTap(T *input, T *output, const Extents &tap) {
    int64_t perGroup = y.channels / conv.groups();
    for (int64_t k = 0; k < y.channels; ++k) {
      T *weights = w.at(k, tap[0], tap[1], tap[2]);
      T *in = input + k / perGroup * w.channels;
      switch (conv.kind) {
      case Convolution::Forward: {
        output[k] += dot(in, weights);
        break;
      }
      case Convolution::BackwardData:
        for (int64_t c = 0; c < w.channels; ++c)
          in[c] += weights[c] * output[k];
        break;
      case Convolution::BackwardFilter:
        for (int64_t c = 0; c < w.channels; ++c)
          weights[c] += in[c] * output[k];
        break;
      }
    }
  }

  /// Eight partial sums, which the host computes at once.
  T dot(const T *a, const T *b) const {
    T sums[8] = {}, rest = 0;
    int64_t c = 0;
    for (; c + 8 <= w.channels; c += 8)
      for (int64_t i = 0; i < 8; ++i)
        sums[i] += a[c + i] * b[c + i];
    for (; c < w.channels; ++c)
      rest += a[c] * b[c];
    for (T sum : sums)
      rest += sum;
    return rest;
  }

  const Convolution &conv;
  Dense<T> x, w, y;
  Extents strides, dilations, paddings;
};

} // namespace

void mpc::emulator::convolve(const Convolution &conv, void *x, void *w,
                             void *y) {
  if (conv.compute == CUDNN_DATA_DOUBLE)
    Convolver<double>(conv).run(x, w, y);
  else
    Convolver<float>(conv).run(x, w, y);
}
