// Convolutions and their gradients by oneDNN: NHWC images, sliced over the
// batch.
//
// forward, input_grad: the weights are put into the library's order once per
// run, a few filters per slice (phase 0), then every slice takes a few images
// (phase 1). With an epilogue, or where the result's type is not one the
// library writes, a slice goes through fp32 scratch.
//
// weight_grad: every slice makes its own partial sum (phase 0), these are added
// in the order of the images (phase 1) and written out as OIHW, a few filters
// per slice (phase 2).
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/conv/PixelCopies.h"
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

/// Slices a batch is cut into at most, where it has as many images.
constexpr int64_t kMaxSlices = 16;
/// fp32 results of one slice that still stay in a worker's cache, in bytes.
constexpr int64_t kSliceBytes = 512 << 10;
/// All partial weight gradients together, in bytes: each is written, read and
/// added, which for large weights costs more than it gains.
constexpr int64_t kPartialBytes = 12 << 20;
/// Bytes of an image that stay in a worker's cache, of a large image, and of a
/// line of the cache.
constexpr int64_t kCachedImageBytes = 512 << 10, kLargeImageBytes = 1 << 20,
                  kLineBytes = 64;
/// Channels of an image that is read often enough to be worth a copy.
constexpr int64_t kManyChannels = 128;
/// Multiply-adds below which a slice is not worth handing to another thread.
constexpr int64_t kMinSliceProducts = 1 << 20;
/// Elements of the partial sums that one slice adds up.
constexpr int64_t kSumBlock = 1 << 14;

/// The step in the library's terms.
struct Geometry {
  Dims weights, strides, dilations, padsBegin, padsEnd;
  Tag imageTag, weightsTag, channelsLastTag;
  Tag blockedTags[2];                   ///< of eight channels, and of sixteen
  int64_t xElements = 1, yElements = 1; ///< of one image
  int64_t xPixels = 1, yPixels = 1;     ///< of one image
  int64_t wElements = 1;

  explicit Geometry(const ConvStep &step);
};

/// One element type per operand of the primitive.
struct Types {
  DType x, w, y;
};

/// True if, along every axis, some window lies within the image: of padding
/// that reaches into each window, as of 3 taps at stride 2 over 3 pixels and 1
/// of padding on either side, there is none.
///
/// Without, the library's convolution kernels leave gradients of some taps to
/// chance (oneDNN 2.6: bf16 of any rank, f32 of three axes), or write behind
/// the end. For weights with the output channels last the library multiplies
/// matrices in f32 instead, and the result is right.
bool hasWholeWindows(const ConvStep &step) {
  for (size_t axis = 0; axis < step.kernel.size(); ++axis) {
    const int64_t window = step.dilations[axis] * (step.kernel[axis] - 1) + 1;
    // The first window that starts within the image.
    const int64_t stride = step.strides[axis];
    const int64_t before = (step.padsBegin[axis] + stride - 1) / stride;
    const int64_t first = before * stride - step.padsBegin[axis];
    if (first + window > step.inSpatial[axis])
      return false;
  }
  return true;
}

/// True if windows, their padding or the way from one to the next are longer
/// than images are. In bf16 the library then takes minutes for gradients of
/// filters, for nothing: most of it is padding. With tiles it cannot make
/// gradients of images, or writes behind their end (oneDNN 3.2).
bool isFarApart(const ConvStep &step) {
  constexpr int64_t kFar = int64_t(1) << 20;
  for (size_t axis = 0; axis < step.kernel.size(); ++axis)
    if (std::max({step.strides[axis], step.padsBegin[axis], step.padsEnd[axis],
                  step.dilations[axis] * (step.kernel[axis] - 1)}) > kFar)
      return true;
  return false;
}

/// Groups of `step` to convolve at once. The groups of a pixel lie side by
/// side, and the library reads a whole image again for each group. If the image
/// is large, a slice first copies channels of some groups, a part that fits the
/// cache. Results without strides take as long to copy as the part saves.
int64_t groupsAtOnce(const ConvStep &step, DType type) {
  const int64_t in = step.inChannels / step.groups;
  const int64_t out = step.outChannels / step.groups;
  const int64_t inPixels = numElements(step.inSpatial);
  const int64_t outPixels = numElements(step.outSpatial);
  const int64_t group = sizeOf(type) * std::max(inPixels * in, outPixels * out);
  const bool isLarge = group * step.groups >= (step.kind == ConvKind::Forward
                                                   ? 2 * kLargeImageBytes
                                                   : kLargeImageBytes);
  const bool hasFewResults = inPixels >= 2 * outPixels;
  if (std::max(in, out) == 1 || !isLarge || step.kind == ConvKind::InputGrad ||
      (step.kind == ConvKind::Forward && !hasFewResults))
    return step.groups;
  int64_t atOnce = step.groups;
  for (int64_t count = step.groups; count > 0; --count) {
    if (step.groups % count != 0)
      continue;
    if (count * std::min(in, out) * sizeOf(type) < kLineBytes)
      break;
    atOnce = count;
    if (count * group <= kCachedImageBytes)
      break;
  }
  return atOnce;
}

/// A step of some of the groups.
ConvStep cutGroups(ConvStep step, int64_t groups) {
  step.inChannels = step.inChannels / step.groups * groups;
  step.outChannels = step.outChannels / step.groups * groups;
  step.groups = groups;
  return step;
}

/// Some channels of images, `first` to `first + channels` of `step`.
struct ImagePart {
  const Operand *operand;
  int64_t pixels, channels, first, step;

  std::byte *at(int64_t image, int64_t pixel = 0) const {
    return operand->at((image * pixels + pixel) * step + first);
  }
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
  // The images that forward and input_grad read, and those written.
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
  /// Slices of one part follow each other.
  int64_t partOf(int64_t slice) const { return slice / slices; }
  Images imagesOf(int64_t slice) const {
    int64_t first = slice % slices * imagesPerSlice;
    return {first, std::min(imagesPerSlice, step.batch - first)};
  }
  /// The channels of a part, of an image of `pixels` pixels.
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

  const ConvStep step; ///< of one part
  const int64_t parts; ///< of the groups
  Operand x, w, y;
  EpilogueCall epilogue;
  const OneDNNConfig config;
  const Geometry geometry;

  Types types = {DType::F32, DType::F32, DType::F32};
  bool direct = false;    ///< the primitive writes the images itself
  int64_t imageBlock = 0; ///< channels of a block of copied images, if any
  int64_t imagesPerSlice = 1, slices = 1;
  std::string implementation;    ///< the library's name of what it does
  WorkerPrimitive primitives[2]; ///< full slices; the last if it has fewer
  dnnl::memory::desc weights;    ///< in the library's order, once known
  SlicedReorder reorder;         ///< between OIHW and the library's order
  size_t weightsBytes = 0;       ///< in the library's order, aligned
  // A worker's scratch: widened images, fp32 result, the primitive's own.
  size_t secondOffset = 0, resultOffset = 0, padOffset = 0;
};

} // namespace

Geometry::Geometry(const ConvStep &step)
    : strides(step.strides), padsBegin(step.padsBegin), padsEnd(step.padsEnd) {
  static const Tag imageTags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  static const Tag eights[] = {Tag::nCw8c, Tag::nChw8c, Tag::nCdhw8c};
  static const Tag sixteens[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c};
  static const Tag tags[2][3] = {{Tag::oiw, Tag::oihw, Tag::oidhw},
                                 {Tag::goiw, Tag::goihw, Tag::goidhw}};
  static const Tag lastTags[2][3] = {{Tag::wio, Tag::hwio, Tag::dhwio},
                                     {Tag::wigo, Tag::hwigo, Tag::dhwigo}};
  size_t rank = step.kernel.size();
  bool grouped = step.groups > 1;
  imageTag = imageTags[rank - 1];
  blockedTags[0] = eights[rank - 1];
  blockedTags[1] = sixteens[rank - 1];
  weightsTag = tags[grouped][rank - 1];
  channelsLastTag = lastTags[grouped][rank - 1];
  if (grouped)
    weights.push_back(step.groups);
  weights.push_back(step.outChannels / step.groups);
  weights.push_back(step.inChannels / step.groups);
  weights.insert(weights.end(), step.kernel.begin(), step.kernel.end());
  for (int64_t dilation : step.dilations)
    dilations.push_back(dilation - 1); // the library counts the gaps
  xPixels = numElements(step.inSpatial);
  yPixels = numElements(step.outSpatial);
  xElements = xPixels * step.inChannels;
  yElements = yPixels * step.outChannels;
  wElements = numElements(weights);
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// Keeps the operands in bf16 if both are bf16 and the CPU multiplies bf16;
/// else widens both to f32. With `direct`, oneDNN writes the result without
/// scratch.
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

/// The forward convolution a gradient belongs to, which the library wants to
/// know. It has one type throughout, that of the gradient read.
static dnnl::convolution_forward::primitive_desc
forwardHint(const dnnl::memory::desc &x, const Geometry &geometry,
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
  // The description refers to it when it goes on to the next routine.
  const dnnl::convolution_forward::primitive_desc hint =
      forwardHint(xDesc(count), geometry, yDesc(count));
  dnnl::convolution_backward_data::primitive_desc desc(
      dnnlEngine(), dnnl::algorithm::convolution_direct, xDesc(count), weights,
      yDesc(count), geometry.strides, geometry.dilations, geometry.padsBegin,
      geometry.padsEnd, hint, dnnlAttributes());
  // By many small products of one channel each, where the library has a routine
  // for depthwise images behind it, it takes 90 times as long.
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
  // Memory that all workers share: the weights in the library's order, and as
  // floats where they have another type.
  weightsBytes = alignScratch(weights.get_size());
  size_t plainBytes =
      w.type == types.w ? 0 : floats(parts * geometry.wElements);
  sharedSize =
      (isWeightGrad() ? slices : 1) * parts * weightsBytes + plainBytes;

  // Memory of each worker: its inputs as floats, its sums, and the library's
  // scratch memory.
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
  // Reorder and primitives share scratch memory, behind inputs and sums.
  size_t padBytes = reorder.scratchBytes();
  for (const WorkerPrimitive &primitive : primitives)
    padBytes = std::max(padBytes, primitive.scratchBytes());
  scratchSize = padOffset + padBytes;
}

void OneDNNConv::makePrimitives() {
  weights = {geometry.weights, dnnlType(types.w),
             isSafe() ? Tag::any : geometry.channelsLastTag};
  // The last, shorter slice takes the weights in the order of the others.
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

/// Gives f32 routines for gradients of filters large images in blocks of
/// channels. In NHWC, vectors of channels lie far apart, and a routine reads
/// the image again for each block of filters.
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
  // Types and slices first: the library's descriptions depend on both.
  chooseTypes();
  chooseSlices();
  Status status = catchDNNL("prepare a convolution", [&] {
    makePrimitives();
    if (isWeightGrad())
      blockImages();
    makeReorder();
    layOutMemory();
  });
  // Slices of a weight gradient each have sums of their own, which a second
  // phase adds in a fixed order.
  int64_t blocks = (parts * weightsBytes / 4 + kSumBlock - 1) / kSumBlock;
  if (isWeightGrad())
    phaseSlices = {parts * slices, slices > 1 ? blocks : 0,
                   parts * reorder.slices()};
  else
    phaseSlices = {parts * reorder.slices(), parts * slices};
  return status;
}

/// True where the library has nothing better than loops over single elements or
/// products of copies of the image for each tap. Wide filters, gradients
/// between strides and dilations, and some depthwise filters are of this kind.
/// The library makes gradients of small groups' filters group by group, or in
/// bf16 by pairs that are mostly zeros.
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

/// Images of `part` as `type`: in place, or copied or widened into `room`.
static const void *load(const ImagePart &part, DType type, int64_t first,
                        int64_t count, std::byte *room) {
  const DType from = part.operand->type;
  const bool isWhole = part.channels == part.step;
  if (isWhole && from == type)
    return part.at(first);
  const PixelChannels channels = {count * part.pixels, part.channels,
                                  part.step};
  if (from == type && type != DType::F32)
    copyPixels(reinterpret_cast<const uint16_t *>(part.at(first)), channels,
               reinterpret_cast<uint16_t *>(room), part.channels);
  else
    widenPixels(from, part.at(first), channels, reinterpret_cast<float *>(room),
                part.channels);
  return room;
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
  // A slice is some images; the last one may have fewer.
  const int64_t part = partOf(slice);
  const Images images = imagesOf(slice);
  const void *in = load(inputPart(part), inputType(), images.first,
                        images.count, context.scratch);
  std::byte *out = direct ? output().at(images.first * outputElements())
                          : context.scratch + resultOffset;
  Status status = primitives[images.count != imagesPerSlice].run(
      context.worker, {in, context.shared + part * weightsBytes, out},
      context.scratch + padOffset);
  if (!status.ok() || direct)
    return status;

  // Sums in f32 are finished here: by the epilogue, or by rounding.
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

/// Images of `part` as f32, in blocks of `width` channels.
static const void *loadBlocked(const ImagePart &part, int64_t first,
                               int64_t count, int64_t width, std::byte *room) {
  constexpr int64_t kPixels = 64; // as the first cache holds
  const int64_t blocks = part.channels / width;
  auto *to = reinterpret_cast<float *>(room);
  for (int64_t image = first; image < first + count; ++image) {
    for (int64_t pixel = 0; pixel < part.pixels; pixel += kPixels)
      for (int64_t block = 0; block < blocks; ++block) {
        ImagePart channels = part;
        channels.first += block * width;
        widenPixels(part.operand->type, channels.at(image, pixel),
                    {std::min(kPixels, part.pixels - pixel), width, part.step},
                    to + (block * part.pixels + pixel) * width, width);
      }
    to += blocks * part.pixels * width;
  }
  return room;
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
    in = load(xPart, types.x, images.first, images.count, context.scratch);
    gradient = load(yPart, types.y, images.first, images.count, second);
  }
  // Sums of all parts follow each other, then those of the next images.
  std::byte *sums =
      context.shared + (slice % slices * parts + part) * weightsBytes;
  return primitives[images.count != imagesPerSlice].run(
      context.worker, {in, gradient, sums}, context.scratch + padOffset);
}

/// Adds the partial sums, slice by slice, into the first.
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
  if (!hasWholeWindows(step))
    if (auto direct = prepareDirectWeightGrad(step, operands))
      return direct;
  if (auto direct = prepareFasterDirectConv(step, operands, config))
    return direct;
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
