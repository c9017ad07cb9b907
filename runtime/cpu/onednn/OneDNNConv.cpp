// Convolutions and their gradients by oneDNN, with NHWC images. A slice takes
// some images of the batch. If images are large and have groups, a slice takes
// only a part of the groups at once (groupsAtOnce).
//
// Phases of forward and input_grad:
//   0  Reorders the weights into oneDNN's layout, a few filters per slice.
//   1  Convolves a few images per slice. Results go through f32 scratch memory
//      if there is an epilogue or if oneDNN cannot write the result's type.
//
// Phases of weight_grad:
//   0  Computes a partial sum of the weight gradient per slice of images.
//   1  Adds the partial sums in the order of the images.
//   2  Writes the sums as OIHW, a few filters per slice.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/conv/ImageParts.h"
#include "runtime/cpu/conv/PixelCopies.h"
#include "runtime/cpu/onednn/ConvShapes.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "runtime/cpu/onednn/SlicedReorder.h"

#include <string>
#include <string_view>

namespace mpc::runtime {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

/// True if the name of an implementation starts with `kind`.
bool hasName(std::string_view name, std::string_view kind) {
  return name.substr(0, kind.size()) == kind;
}

/// Limits the slices into which a batch is divided.
constexpr int64_t kMaxSlices = 16;
/// Limits the bytes of a slice's f32 results, so that they stay in a worker's
/// cache.
constexpr int64_t kSliceBytes = 512 << 10;
/// Limits the bytes of all partial weight gradients together. Each partial
/// gradient is written, read and added, which costs more than it gains if
/// weights are large.
constexpr int64_t kPartialBytes = 12 << 20;
/// An image with at least this many channels is read often enough to be worth a
/// copy.
constexpr int64_t kManyChannels = 128;
/// A slice with fewer multiply-adds is not worth handing to another thread.
constexpr int64_t kMinSliceProducts = 1 << 20;
/// Elements of the partial sums that one slice adds up.
constexpr int64_t kSumBlock = 1 << 14;

/// The element type of each operand of oneDNN's primitive.
struct Types {
  DType x, w, y;
};

class OneDNNConv : public Contraction {
public:
  OneDNNConv(const ConvStep &step, ConvOperands operands,
             const OneDNNConfig &config)
      : step(cutGroups(step, groupsAtOnce(step, operands.x.type))),
        parts(step.groups / this->step.groups), x(operands.x), w(operands.w),
        y(operands.y), epilogue(std::move(operands.epilogue)), config(config),
        geometry(this->step) {}
  Status prepare();
  bool isSlow() const;
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&x, &w, &y}, epilogue);
  }
  ConvOperands operands() const { return {x, w, y, epilogue}; }

private:
  struct Images {
    int64_t first, count;
  };
  using PrimitiveArgs = std::vector<std::pair<int, dnnl::memory::desc>>;

  bool isForward() const { return step.kind == ConvKind::Forward; }
  bool isWeightGrad() const { return step.kind == ConvKind::WeightGrad; }
  bool isSafe() const { return !isWeightGrad() || hasWholeWindows(step); }
  bool isDepthwise() const {
    return step.groups > 1 && step.groups == step.inChannels &&
           step.groups == step.outChannels;
  }
  // The images that forward and input_grad read, and the images that they
  // write.
  const Operand &input() const { return isForward() ? x : y; }
  const Operand &output() const { return isForward() ? y : x; }
  DType inputType() const { return isForward() ? types.x : types.y; }
  int64_t inputElements() const {
    return isForward() ? geometry.xElements : geometry.yElements;
  }
  int64_t outputPixels() const {
    return isForward() ? geometry.yPixels : geometry.xPixels;
  }
  int64_t outputChannels() const {
    return isForward() ? step.outChannels : step.inChannels;
  }
  int64_t outputElements() const { return outputPixels() * outputChannels(); }
  /// Returns the part of the groups that `slice` computes. Slices of one part
  /// follow each other.
  int64_t partOf(int64_t slice) const { return slice / slices; }
  Images imagesOf(int64_t slice) const {
    int64_t first = slice % slices * imagesPerSlice;
    return {first, std::min(imagesPerSlice, step.batch - first)};
  }
  /// Describes channels [part * channels, (part + 1) * channels) of images with
  /// `pixels` pixels.
  ImagePart partIn(const Operand &operand, int64_t part, int64_t pixels,
                   int64_t channels) const {
    return {&operand, pixels, channels, part * channels, parts * channels};
  }
  ImagePart inputPart(int64_t part) const {
    return isForward() ? partIn(x, part, geometry.xPixels, step.inChannels)
                       : partIn(y, part, geometry.yPixels, step.outChannels);
  }

  void chooseTypes();
  void chooseSlices();
  void makePrimitives();
  void blockImages();
  void makeForward(int64_t count);
  void makeInputGrad(int64_t count);
  void makeWeightGrad(int64_t count);
  template <typename Desc>
  void setPrimitive(const Desc &desc, const dnnl::primitive &made,
                    PrimitiveArgs args, int64_t count);
  void makeReorder();
  void layOutMemory();
  Tag imagesTag() const {
    return imageBlock == 0 ? geometry.imageTag
                           : geometry.blockedTags[imageBlock == 16];
  }
  dnnl::memory::desc xDesc(int64_t count) const;
  dnnl::memory::desc yDesc(int64_t count) const;
  dnnl::memory::desc plainWeights() const;

  int64_t rowElements() const {
    return geometry.wElements / geometry.weights[0];
  }
  Status reorderWeights(int64_t slice, const SliceContext &context);
  Status runImages(int64_t slice, const SliceContext &context);
  Status runPartial(int64_t slice, const SliceContext &context);
  void sumPartials(int64_t block, std::byte *partials) const;
  Status writeWeights(int64_t slice, const SliceContext &context);

  const ConvStep step; ///< the step, with the groups of one part only
  const int64_t parts; ///< number of parts into which groups are divided
  Operand x, w, y;
  EpilogueCall epilogue;
  const OneDNNConfig config;
  const ConvGeometry geometry;

  Types types = {DType::F32, DType::F32, DType::F32};
  bool direct = false;    ///< the primitive writes the result, without scratch
  int64_t imageBlock = 0; ///< channels per block of copied images; 0: no blocks
  int64_t imagesPerSlice = 1, slices = 1;
  std::string implementation;    ///< oneDNN's name of the chosen routine
  WorkerPrimitive primitives[2]; ///< [1]: for a last slice with fewer images
  dnnl::memory::desc weights;    ///< oneDNN's layout, after makePrimitives
  SlicedReorder reorder;         ///< between OIHW and oneDNN's layout
  size_t weightsBytes = 0;       ///< in oneDNN's layout, aligned
  // Offsets in a worker's scratch memory. The scratch holds copied images, f32
  // results and oneDNN's scratch memory.
  size_t secondOffset = 0, resultOffset = 0, padOffset = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// Keeps the operands in bf16 if both are bf16 and oneDNN can multiply bf16
/// safely; otherwise widens both to f32. Sets `direct` if oneDNN can write the
/// result's type.
void OneDNNConv::chooseTypes() {
  const Operand &first = isWeightGrad() ? x : input();
  const Operand &second = isWeightGrad() ? y : w;
  bool narrow = config.nativeBF16 && isSafe() && !isFarApart(step) &&
                first.type == DType::BF16 && second.type == DType::BF16;
  if (narrow)
    types = isWeightGrad() ? Types{DType::BF16, DType::F32, DType::BF16}
            : isForward()  ? Types{DType::BF16, DType::BF16, DType::F32}
                           : Types{DType::F32, DType::BF16, DType::BF16};
  if (isWeightGrad() || epilogue)
    return;
  direct = parts == 1 && (output().type == DType::F32 ||
                          (narrow && output().type == DType::BF16));
  if (direct)
    (isForward() ? types.y : types.x) = output().type;
}

void OneDNNConv::chooseSlices() {
  if (isWeightGrad()) {
    int64_t partials = std::clamp<int64_t>(
        kPartialBytes / (parts * geometry.wElements * 4), 2, kMaxSlices);
    imagesPerSlice = (step.batch + partials - 1) / partials;
  } else {
    int64_t fitting = kSliceBytes / (outputElements() * 4);
    int64_t most = (step.batch + kMaxSlices - 1) / kMaxSlices;
    imagesPerSlice = std::clamp<int64_t>(fitting, 1, most);
  }
  int64_t products = geometry.yPixels * geometry.wElements; // of one image
  int64_t worthwhile = (kMinSliceProducts + products - 1) / products;
  imagesPerSlice = std::max(imagesPerSlice, std::min(worthwhile, step.batch));
  slices = (step.batch + imagesPerSlice - 1) / imagesPerSlice;
}

static dnnl::memory::desc imagesDesc(int64_t count, int64_t channels,
                                     const std::vector<int64_t> &spatial,
                                     DType type, Tag tag) {
  Dims dims = {count, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return {dims, dnnlType(type), tag};
}

dnnl::memory::desc OneDNNConv::xDesc(int64_t count) const {
  return imagesDesc(count, step.inChannels, step.inSpatial, types.x,
                    imagesTag());
}

dnnl::memory::desc OneDNNConv::yDesc(int64_t count) const {
  return imagesDesc(count, step.outChannels, step.outSpatial, types.y,
                    imagesTag());
}

dnnl::memory::desc OneDNNConv::plainWeights() const {
  return {geometry.weights, dnnlType(types.w), geometry.weightsTag};
}

template <typename Desc>
void OneDNNConv::setPrimitive(const Desc &desc, const dnnl::primitive &made,
                              PrimitiveArgs args, int64_t count) {
  implementation = desc.impl_info_str();
  primitives[count != imagesPerSlice] = WorkerPrimitive(
      made, std::move(args), desc.scratchpad_desc(), config.workers);
}

void OneDNNConv::makeForward(int64_t count) {
  dnnl::convolution_forward::primitive_desc desc(
      dnnlEngine(), dnnl::prop_kind::forward_training,
      dnnl::algorithm::convolution_direct, xDesc(count), weights, yDesc(count),
      geometry.strides, geometry.dilations, geometry.padsBegin,
      geometry.padsEnd, dnnlAttributes());
  weights = desc.weights_desc();
  setPrimitive(desc, dnnl::convolution_forward(desc),
               {{DNNL_ARG_SRC, desc.src_desc()},
                {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                {DNNL_ARG_DST, desc.dst_desc()}},
               count);
}

static bool isBlocked(const dnnl::memory::desc &desc) {
  return desc.get_inner_nblks() != 0;
}

/// Returns the forward convolution of a gradient, because oneDNN requires a
/// description of it. All its types are the type of the output gradient.
static dnnl::convolution_forward::primitive_desc
forwardHint(const dnnl::memory::desc &x, const ConvGeometry &geometry,
            const dnnl::memory::desc &y) {
  const dnnl::memory::data_type type = y.get_data_type();
  return {dnnlEngine(),
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          isBlocked(x)
              ? x
              : dnnl::memory::desc(x.get_dims(), type, geometry.imageTag),
          {geometry.weights, type, Tag::any},
          y,
          geometry.strides,
          geometry.dilations,
          geometry.padsBegin,
          geometry.padsEnd,
          dnnlAttributes()};
}

void OneDNNConv::makeInputGrad(int64_t count) {
  // next_impl() reads the hint, so the hint must stay alive.
  const dnnl::convolution_forward::primitive_desc hint =
      forwardHint(xDesc(count), geometry, yDesc(count));
  dnnl::convolution_backward_data::primitive_desc desc(
      dnnlEngine(), dnnl::algorithm::convolution_direct, xDesc(count), weights,
      yDesc(count), geometry.strides, geometry.dilations, geometry.padsBegin,
      geometry.padsEnd, hint, dnnlAttributes());
  // For depthwise convolutions, brgconv_strided computes many small products of
  // one channel each. This takes 90 times as long as oneDNN's depthwise
  // routine, so skip to the next implementation.
  while (isDepthwise() && hasName(desc.impl_info_str(), "brgconv_strided") &&
         desc.next_impl())
    ;
  weights = desc.weights_desc();
  setPrimitive(desc, dnnl::convolution_backward_data(desc),
               {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}},
               count);
}

void OneDNNConv::makeWeightGrad(int64_t count) {
  dnnl::convolution_backward_weights::primitive_desc desc(
      dnnlEngine(), dnnl::algorithm::convolution_direct, xDesc(count), weights,
      yDesc(count), geometry.strides, geometry.dilations, geometry.padsBegin,
      geometry.padsEnd, forwardHint(xDesc(count), geometry, yDesc(count)),
      dnnlAttributes());
  weights = desc.diff_weights_desc();
  setPrimitive(desc, dnnl::convolution_backward_weights(desc),
               {{DNNL_ARG_SRC, desc.src_desc()},
                {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}},
               count);
}

void OneDNNConv::makeReorder() {
  dnnl::memory::desc from = plainWeights(), to = weights;
  if (isWeightGrad())
    std::swap(from, to);
  reorder = SlicedReorder(from, to, config.workers);
}

void OneDNNConv::layOutMemory() {
  auto floats = [](int64_t count) {
    return alignScratch(static_cast<size_t>(count) * sizeof(float));
  };
  // All workers share the weights in oneDNN's layout. If the stored weights
  // have another type, there is also a copy in f32.
  weightsBytes = alignScratch(weights.get_size());
  size_t plainBytes =
      w.type == types.w ? 0 : floats(parts * geometry.wElements);
  sharedSize =
      (isWeightGrad() ? slices : 1) * parts * weightsBytes + plainBytes;

  // Each worker has memory for copied images, for f32 results, and for oneDNN.
  if (isWeightGrad()) {
    auto roomOf = [&](const Operand &operand, DType type,
                      const dnnl::memory::desc &images) {
      const bool isCopied =
          imageBlock != 0 || parts > 1 || operand.type != type;
      return isCopied ? alignScratch(images.get_size()) : 0;
    };
    secondOffset = roomOf(x, types.x, xDesc(imagesPerSlice));
    resultOffset = secondOffset + roomOf(y, types.y, yDesc(imagesPerSlice));
    padOffset = resultOffset;
  } else {
    resultOffset = input().type == inputType() && parts == 1
                       ? 0
                       : floats(imagesPerSlice * inputElements());
    padOffset =
        resultOffset + (direct ? 0 : floats(imagesPerSlice * outputElements()));
  }
  // Reorders and primitives use the same scratch memory, behind images and
  // results.
  size_t padBytes = reorder.scratchBytes();
  for (const WorkerPrimitive &primitive : primitives)
    padBytes = std::max(padBytes, primitive.scratchBytes());
  scratchSize = padOffset + padBytes;
}

void OneDNNConv::makePrimitives() {
  weights = {geometry.weights, dnnlType(types.w),
             isSafe() ? Tag::any : geometry.channelsLastTag};
  // The last, shorter slice must use the layout of the weights that the first
  // primitive has chosen.
  for (int64_t count : {imagesPerSlice, step.batch % imagesPerSlice}) {
    if (count == 0)
      continue;
    if (isForward())
      makeForward(count);
    else if (isWeightGrad())
      makeWeightGrad(count);
    else
      makeInputGrad(count);
  }
}

/// For f32 weight gradients of large images, makes slices copy the images into
/// blocks of 8 or 16 channels if oneDNN keeps its routine. In NHWC, vectors of
/// channels lie far apart, and the routine reads the image again for each block
/// of filters.
void OneDNNConv::blockImages() {
  const int64_t block = hasName(implementation, "jit:avx2")          ? 8
                        : hasName(implementation, "jit:avx512_core") ? 16
                                                                     : 0;
  const int64_t bytes =
      std::max(geometry.xElements, geometry.yElements) * int64_t(sizeof(float));
  const bool isReadOften =
      bytes >= 2 * kLargeImageBytes &&
      std::max(step.inChannels, step.outChannels) >= kManyChannels;
  if (types.x != DType::F32 || block == 0 || step.inChannels % block != 0 ||
      step.outChannels % block != 0 || (block == 16 && !isReadOften))
    return;
  const std::string before = implementation;
  imageBlock = block;
  makePrimitives();
  if (implementation == before)
    return;
  imageBlock = 0;
  makePrimitives();
}

Status OneDNNConv::prepare() {
  // Choose types and slices first: oneDNN's descriptions depend on both.
  chooseTypes();
  chooseSlices();
  Status status = catchDNNL("prepare a convolution", [&] {
    makePrimitives();
    if (isWeightGrad())
      blockImages();
    makeReorder();
    layOutMemory();
  });
  // Each slice of a weight gradient computes partial sums. The second phase
  // adds the partial sums in a fixed order.
  int64_t blocks = (parts * weightsBytes / 4 + kSumBlock - 1) / kSumBlock;
  if (isWeightGrad())
    phaseSlices = {parts * slices, slices > 1 ? blocks : 0,
                   parts * reorder.slices()};
  else
    phaseSlices = {parts * reorder.slices(), parts * slices};
  return status;
}

/// True if oneDNN would compute the step element by element, or with a copy of
/// the image for each tap. Examples: wide filters, gradients with strides and
/// dilations, and some depthwise filters. Also true for weight gradients of
/// small groups, which oneDNN computes group by group, or in bf16 by pairs that
/// are mostly zeros.
bool OneDNNConv::isSlow() const {
  auto is = [this](const char *kind) { return hasName(implementation, kind); };
  if (!isWeightGrad())
    return is("ref") || is("x64:gemm") ||
           (isDepthwise() && !is("jit_dw") && !is("brdgmm_dw"));
  const int64_t inPerGroup = step.inChannels / step.groups;
  const int64_t outPerGroup = step.outChannels / step.groups;
  const int64_t groups = parts * step.groups;
  const bool hasSmallGroups =
      groups >= 8 && std::max(inPerGroup, outPerGroup) <= 4;
  const bool hasFewPairs =
      types.x == DType::BF16 && groups >= 16 && inPerGroup * outPerGroup <= 9;
  return is("ref") || (hasSmallGroups && is("x64:gemm")) ||
         ((isDepthwise() || hasFewPairs) && !is("jit_dw"));
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

Status OneDNNConv::runSlice(size_t phase, int64_t slice,
                            const SliceContext &context) {
  if (!isWeightGrad())
    return phase == 0 ? reorderWeights(slice, context)
                      : runImages(slice, context);
  if (phase == 0)
    return runPartial(slice, context);
  if (phase == 2)
    return writeWeights(slice, context);
  sumPartials(slice, context.shared);
  return Status();
}

Status OneDNNConv::reorderWeights(int64_t slice, const SliceContext &context) {
  const int64_t part = slice / reorder.slices();
  slice %= reorder.slices();
  const int64_t before = part * geometry.wElements;
  const std::byte *plain = w.at(before);
  if (w.type != types.w) {
    const SlicedReorder::Rows rows = reorder.rowsOf(slice);
    const int64_t first = rows.first * rowElements();
    auto *wide =
        reinterpret_cast<float *>(context.shared + parts * weightsBytes) +
        before;
    widen(w.type, w.at(before + first), wide + first,
          rows.count * rowElements());
    plain = reinterpret_cast<const std::byte *>(wide);
  }
  return reorder.run(slice, context.worker, plain,
                     context.shared + part * weightsBytes,
                     context.scratch + padOffset);
}

Status OneDNNConv::runImages(int64_t slice, const SliceContext &context) {
  // The last slice may have fewer images.
  const int64_t part = partOf(slice);
  const Images images = imagesOf(slice);
  const void *in = loadImages(inputPart(part), inputType(), images.first,
                              images.count, context.scratch);
  std::byte *out = direct ? output().at(images.first * outputElements())
                          : context.scratch + resultOffset;
  Status status = primitives[images.count != imagesPerSlice].run(
      context.worker, {in, context.shared + part * weightsBytes, out},
      context.scratch + padOffset);
  if (!status.ok() || direct)
    return status;

  // Finish f32 results here: call the epilogue, or round to the result's type.
  auto *accumulators = reinterpret_cast<float *>(out);
  const int64_t channels = outputChannels();
  const int64_t pixels = images.count * outputPixels();
  const ImagePart result = partIn(output(), part, outputPixels(), channels);
  if (epilogue)
    epilogue(accumulators, images.first * outputPixels(), pixels, result.first,
             channels, channels);
  else
    narrowPixels(output().type, accumulators, channels,
                 {pixels, channels, result.step}, result.at(images.first));
  return Status();
}

Status OneDNNConv::runPartial(int64_t slice, const SliceContext &context) {
  const int64_t part = partOf(slice);
  const Images images = imagesOf(slice);
  const ImagePart xPart = partIn(x, part, geometry.xPixels, step.inChannels);
  const ImagePart yPart = partIn(y, part, geometry.yPixels, step.outChannels);
  std::byte *second = context.scratch + secondOffset;
  const void *in, *gradient;
  if (imageBlock != 0) {
    in = loadBlocked(xPart, images.first, images.count, imageBlock,
                     context.scratch);
    gradient =
        loadBlocked(yPart, images.first, images.count, imageBlock, second);
  } else {
    in =
        loadImages(xPart, types.x, images.first, images.count, context.scratch);
    gradient = loadImages(yPart, types.y, images.first, images.count, second);
  }
  // The partial sums lie in the order [slice][part], so that one pass can add
  // them.
  std::byte *sums =
      context.shared + (slice % slices * parts + part) * weightsBytes;
  return primitives[images.count != imagesPerSlice].run(
      context.worker, {in, gradient, sums}, context.scratch + padOffset);
}

/// Adds the partial sums of all slices, in the order of the slices, to the
/// partial sums of the first slice.
void OneDNNConv::sumPartials(int64_t block, std::byte *partials) const {
  int64_t count = parts * static_cast<int64_t>(weightsBytes / sizeof(float));
  int64_t begin = block * kSumBlock;
  int64_t end = std::min(begin + kSumBlock, count);
  auto *sum = reinterpret_cast<float *>(partials);
  for (int64_t slice = 1; slice < slices; ++slice) {
    const float *partial = sum + slice * count;
    for (int64_t i = begin; i < end; ++i)
      sum[i] += partial[i];
  }
}

Status OneDNNConv::writeWeights(int64_t slice, const SliceContext &context) {
  const int64_t part = slice / reorder.slices();
  slice %= reorder.slices();
  const int64_t before = part * geometry.wElements;
  auto *wide = reinterpret_cast<float *>(context.shared +
                                         slices * parts * weightsBytes) +
               before;
  const bool isWidened = w.type != types.w;
  Status status = reorder.run(
      slice, context.worker, context.shared + part * weightsBytes,
      isWidened ? reinterpret_cast<std::byte *>(wide) : w.at(before),
      context.scratch + padOffset);
  if (status.ok() && isWidened) {
    const SlicedReorder::Rows rows = reorder.rowsOf(slice);
    const int64_t first = rows.first * rowElements();
    narrow(w.type, wide + first, w.at(before + first),
           rows.count * rowElements());
  }
  return status;
}

StatusOr<std::unique_ptr<Contraction>>
prepareOneDNNConv(const ConvStep &step, ConvOperands operands,
                  const OneDNNConfig &config) {
  auto conv = std::make_unique<OneDNNConv>(step, std::move(operands), config);
  if (Status status = conv->prepare(); !status.ok())
    return status;
  if (conv->isSlow()) {
    auto direct = step.kind == ConvKind::WeightGrad
                      ? prepareDirectWeightGrad(step, conv->operands())
                      : prepareDirectConv(step, conv->operands(), config);
    if (direct)
      return direct;
  }
  return std::unique_ptr<Contraction>(std::move(conv));
}

} // namespace mpc::runtime
