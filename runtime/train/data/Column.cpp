// Matches arrays of files to an input, and gathers samples.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Column.h"

#include "runtime/train/data/ArrayFolder.h"
#include "runtime/train/support/Threads.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <new>
#include <xxhash.h>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// Formats a shape and a type: "[N,1,28,28] f32". N stands for the axis
/// `batchAxis`; -1 if there is no such axis.
static std::string brackets(const Shape &shape, int64_t batchAxis,
                            std::string_view type) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") +
            (int64_t(i) == batchAxis ? "N" : std::to_string(shape[i]));
  return text + "]" + (type.empty() ? "" : " ") + std::string(type);
}

static int64_t rowSize(const Shape &shape) {
  assert(!shape.empty() && "rows lie along an axis");
  return numElements(Shape(shape.begin() + 1, shape.end()));
}

static bool isInteger(DType type) { return !runtime::isFloat(type); }

static bool fits(const Port &port, const Shape &shape) {
  bool result = shape.size() == port.shape.size();
  for (size_t i = 0; result && i < shape.size(); ++i)
    result = int64_t(i) == port.batchAxis || shape[i] == port.shape[i];
  return result;
}

/// Moves the last axis to the second place: [N,H,W,C] becomes [N,C,H,W].
static Shape channelsFirst(Shape shape) {
  if (shape.size() > 2)
    std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

/// True if the array fits the port once its last axis is moved to the second
/// place.
static bool isChannelsLast(const Port &port, const Array &array) {
  return port.batchAxis == 0 && array.shape.size() >= 3 &&
         fits(port, channelsFirst(array.shape));
}

/// True if the channels must move from the last axis to the second: because
/// --input-layout says so, or because an image fits the input in no other way.
static bool isTurned(const Port &port, const Array &array,
                     const ColumnPreparation &prepared) {
  if (!isChannelsLast(port, array))
    return false;
  if (prepared.layout)
    return prepared.layout->channelsLast;
  const bool isInput = port.role == Role::Data || prepared.isInput;
  return isInput && array.shape.size() >= 4 && !fits(port, array.shape);
}

/// Returns a hint for images that fit the input except for their number of
/// channels. Empty for other arrays.
static std::string channelHelp(const Port &port, const Array &array) {
  if (port.role != Role::Data || port.shape.size() != 4)
    return "";
  for (const Shape &found : {array.shape, channelsFirst(array.shape)})
    if (found[2] == port.shape[2] && found[3] == port.shape[3])
      return "; help: these are images of " + std::to_string(found[1]) +
             " channels, and the model takes " + std::to_string(port.shape[1]) +
             (found == array.shape ? "" : ", before height and width");
  return "";
}

/// Returns a hint to repair an array whose shape does not fit; empty if there
/// is none.
static std::string shapeHelp(const Port &port, const Array &array) {
  if (port.batchAxis != 0)
    return "";
  if (isChannelsLast(port, array))
    return "; help: channels come before space in ONNX, save numpy.moveaxis(" +
           array.name + ", -1, 1)" +
           (port.role == Role::Data
                ? " or say --input-layout " + port.name + "=channels-last"
                : "");
  const bool isClass = port.role == Role::Label && isInteger(port.type);
  if (isClass && array.shape.size() == port.shape.size() + 1 &&
      array.shape.back() > 1)
    return "; help: labels are class numbers, save " + array.name +
           ".argmax(-1)";
  // The user has one class number per sample, but the loss compares every
  // output with a target.
  const int64_t rows = array.shape.empty() ? 0 : array.shape[0];
  if (port.role == Role::Label && !isInteger(port.type) &&
      (array.isColumn || !isFloat(array.type)) && array.size() == rows &&
      rows > 0 && rowSize(port.shape) > 1)
    return "; help: labels that are class numbers are for --loss cross_entropy";
  // The user has one long row of tokens, as tokenizers return.
  if (array.shape.size() == 1 && port.shape.size() == 2 && !isFloat(array.type))
    return "; help: a row of " + std::to_string(array.size()) +
           " numbers is cut into samples of " + std::to_string(port.shape[1]) +
           " first, such as " + array.name + "[:len(" + array.name + ") // " +
           std::to_string(port.shape[1]) + " * " +
           std::to_string(port.shape[1]) + "].reshape(-1, " +
           std::to_string(port.shape[1]) +
           "); docs/data.md shows it for "
           "inputs and labels";
  // With equal ranks, suggest no reshape: it would mix up the meaning of axes.
  if (array.shape.size() == port.shape.size())
    return channelHelp(port, array);
  const int64_t wanted = rowSize(port.shape);
  if (array.shape.empty() || array.shape[0] == 0 || wanted == 0 ||
      array.size() / array.shape[0] != wanted)
    return "";
  std::string text =
      "; help: the elements fit, save " + array.name + ".reshape(-1";
  for (size_t i = 1; i < port.shape.size(); ++i)
    text += "," + std::to_string(port.shape[i]);
  return text + ")";
}

Status wrongShape(const Port &port, const Array &array) {
  return invalid(
      locate(array) + ": got " + brackets(array.shape, -1, nameOf(array.type)) +
      ", the model wants " +
      brackets(port.shape, port.batchAxis, runtime::nameOf(port.type)) +
      " for its input '" + port.name + "'" + shapeHelp(port, array));
}

/// Gives columns of a table the input's shape if the number of elements per
/// sample is equal, since columns have no shape of their own.
static void shapeColumns(const Port &port, Array &array) {
  if (port.batchAxis != 0 || array.shape.empty() ||
      rowSize(array.shape) != rowSize(port.shape))
    return;
  const int64_t rows = array.shape[0];
  array.shape = port.shape;
  array.shape[0] = rows;
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

Shape Column::sampleShape() const {
  assert(input.batchAxis == 0 && "samples lie along the first axis");
  return Shape(input.shape.begin() + 1, input.shape.end());
}

/// True if files of these two types may be joined to one array. Each file is
/// converted by itself: f32 joins f64, and labels of i32 join i64. False if a
/// conversion would change the meaning of values: floats with integers, or
/// images of u8 (up to 255) with images of u16 (up to 65535).
static bool isJoined(ElementType first, ElementType second, const Port &port) {
  if (first == second)
    return true;
  const auto isPixel = [](ElementType type) {
    return type == ElementType::U8 || type == ElementType::U16;
  };
  const bool arePixels = port.role == Role::Data &&
                         runtime::isFloat(port.type) &&
                         (isPixel(first) || isPixel(second));
  return isFloat(first) == isFloat(second) && !arePixels;
}

Status Column::addPart(Array part) {
  if (!part.fault.empty())
    return invalid(part.fault);
  if (part.isColumn)
    shapeColumns(input, part);
  // Axes of extent 1 do not matter if each file is one sample, or in labels:
  // labels of one number are as often [N] as [N,1].
  const bool mayLackOnes = part.isOfSamples || input.role == Role::Label;
  if (mayLackOnes && input.batchAxis == 0 && !part.shape.empty())
    addOnes(input.shape, part.shape);
  // The first file tells if channels are last. All other files must agree.
  if (parts.empty())
    turned = isTurned(input, part, prepared);
  const Shape shape = turned ? channelsFirst(part.shape) : part.shape;
  if (!fits(input, shape))
    return wrongShape(input, part);
  if (!parts.empty() && !isJoined(part.type, parts[0].type, input))
    return invalid(locate(part), "is " + std::string(nameOf(part.type)) +
                                     ", in " + parts[0].source + " it is " +
                                     std::string(nameOf(parts[0].type)));
  // Add the position at which the next file's samples begin.
  if (isBatched()) {
    const size_t axis = size_t(input.batchAxis);
    if (shape[axis] == 0)
      return invalid(locate(part),
                     "has no samples, found " +
                         brackets(part.shape, -1, nameOf(part.type)));
    outer = numElements(Shape(shape.begin(), shape.begin() + axis));
    rowElements = numElements(Shape(shape.begin() + axis + 1, shape.end()));
    starts.push_back(starts.back() + shape[axis]);
  }
  parts.push_back(std::move(part));
  return Status();
}

Status Column::addImages(Array part) {
  // Images need an input with samples along axis 0, and an image in its other
  // axes.
  if (input.batchAxis == 0)
    layout = isMasks() ? ImageLayout::ofMask(sampleShape())
                       : ImageLayout::of(sampleShape());
  if (!layout && isMasks())
    return invalid(part.source, "masks are for labels [N,H,W] or [N,1,H,W]; "
                                "the model's are " +
                                    brackets(input.shape, input.batchAxis,
                                             runtime::nameOf(input.type)));
  if (!layout)
    return invalid(part.source,
                   "images are for inputs [N,1,H,W] or [N,3,H,W]; the model's "
                   "'" +
                       input.name + "' is " +
                       brackets(input.shape, input.batchAxis,
                                runtime::nameOf(input.type)));
  // Folders of all parts must have the same names, so that label 3 is the same
  // folder in each.
  if (!parts.empty() && part.images->classes() != parts[0].images->classes())
    return invalid(part.source, "has other labels than " + parts[0].source +
                                    "; every label needs a folder in both, "
                                    "which may be empty with --allow-empty");
  // Only count the images here; decodeImages decodes them.
  rowElements = layout->elements();
  starts.push_back(starts.back() + part.images->size());
  parts.push_back(std::move(part));
  return Status();
}

/// Decodes all images into memory if they fit within `decodedBytes`. Otherwise
/// only checks the headers of the files.
Status Column::decodeImages() {
  // Decode masks in any case: countMasks and the label check need all their
  // values.
  if (!isMasks() && samples() > prepared.decodedBytes / rowElements) {
    for (const Array &part : parts)
      if (Status status = part.images->checkHeaders(); !status.ok())
        return status;
    return Status();
  }
  for (Array &part : parts) {
    assert(part.images && layout && "images are decoded once, to a known size");
    const int64_t count = part.images->size();
    std::shared_ptr<std::byte[]> pixels(
        new (std::nothrow) std::byte[size_t(count * rowElements)]);
    if (!pixels)
      return Status(StatusCode::IO, part.source + ": does not fit in memory");
    std::vector<ImageRequest> requests;
    for (int64_t row = 0; row < count; ++row)
      requests.push_back(
          {part.images.get(), row,
           reinterpret_cast<uint8_t *>(pixels.get() + row * rowElements),
           isMasks()});
    if (Status status = readImages(requests, *layout); !status.ok())
      return status;
    // From here on, the part is an ordinary array.
    part.shape = input.shape;
    part.shape[0] = count;
    part.data = pixels.get();
    part.owner = std::move(pixels);
    folders.push_back(std::move(part.images));
    part.images = nullptr;
  }
  return Status();
}

/// Lists the numbers that occur in the masks: "0, 1, 2". If only 0 and 255
/// occur, which editors show as black and white, changes them to 0 and 1.
std::string Column::countMasks() {
  std::array<bool, 256> found{};
  for (const Array &part : parts)
    for (int64_t i = 0; i < part.size(); ++i)
      found[size_t(part.data[i])] = true;
  std::string text;
  for (size_t value = 0; value < found.size(); ++value)
    if (found[value])
      text += (text.empty() ? "" : ", ") + std::to_string(value);
  const int64_t values = std::count(found.begin(), found.end(), true);
  // 255 means foreground if no other number but 0 occurs, and if 255 is not the
  // label to ignore.
  const bool isBlackAndWhite =
      found[255] && values == (found[0] ? 2 : 1) && prepared.ignored != 255;
  if (!isBlackAndWhite)
    return text;
  // Writing is safe: decodeImages allocated this memory, and no other array
  // shares it.
  for (Array &part : parts) {
    auto *numbers = const_cast<std::byte *>(part.data);
    std::transform(
        numbers, numbers + part.size(), numbers,
        [](std::byte value) { return std::byte(value != std::byte(0)); });
  }
  return text + ", which become 0 and 1";
}

Status Column::setPreparation() {
  const auto usage = [&](const std::string &flag, const std::string &text) {
    return Status(StatusCode::Usage, flag + ": input '" + input.name + "' is " +
                                         brackets(input.shape, input.batchAxis,
                                                  runtime::nameOf(input.type)) +
                                         "; " + text);
  };
  // Only inputs with axes after the channels have a layout; a row of features
  // has none.
  if (prepared.layout && (input.batchAxis != 0 || input.shape.size() < 3))
    return usage("--input-layout", "it is for inputs [N,C,...] with axes after "
                                   "the channels, and has no effect");
  if (prepared.normalization) {
    const size_t channels = std::max(prepared.normalization->mean.size(),
                                     prepared.normalization->deviation.size());
    if (isInteger(input.type) || input.batchAxis != 0)
      return usage("--normalize", "it is for inputs of floating point with "
                                  "samples along the first axis");
    const std::optional<size_t> axis = findChannelAxis(sampleShape(), channels);
    if (!axis)
      return usage("--normalize", std::to_string(channels) +
                                      " numbers are not one for each channel");
    channelAxis = *axis;
  }
  // Augmentation moves pixels, so it must know the axes of the image.
  if (prepared.augmentation.steps.empty())
    return Status();
  const Shape sample = sampleShape();
  layout = ImageLayout::of(sample).value_or(
      ImageLayout{sample[0], sample[1], sample[2], false});
  for (const Augmentation::Step &step : prepared.augmentation.steps)
    if (step.padding >= std::min(layout->height, layout->width))
      return usage("--augment", "a padding of " + std::to_string(step.padding) +
                                    " is as large as the image");
  return Status();
}

/// Adds remarks about facts that might surprise the user.
void Column::addNotes(std::vector<std::string> &notes) const {
  assert(!parts.empty() && "a column has a part");
  const Array &array = parts[0];
  // Tell the user which folder has which label.
  if (!array.classes.empty() && !array.areClassesNoted) {
    std::vector<bool> isUsed(array.classes.size());
    const auto *labels = reinterpret_cast<const int64_t *>(array.data);
    for (int64_t row = 0; row < array.size(); ++row)
      isUsed[size_t(labels[row])] = true;
    notes.push_back(array.source + ": " + std::to_string(array.shape[0]) +
                    " samples of " + describeLabels(array.classes, isUsed));
  }
  if (turned)
    notes.push_back(locate(array) + ": converted from channels last " +
                    brackets(array.shape, 0, "") + " to the model's " +
                    brackets(input.shape, 0, ""));
  // Warn about u8 values that are not normalized: most models expect them
  // divided by 255.
  if (array.type == ElementType::U8 && input.role == Role::Data &&
      !isInteger(input.type) && !prepared.normalization)
    notes.push_back(locate(array) +
                    ": u8 is taken as it is, 0..255; --normalize 0:1 divides "
                    "it by 255, as torchvision's ToTensor does");
  // Warn about u16 values: unlike u8, they are not divided before normalizing.
  if (array.type == ElementType::U16 && prepared.normalization)
    notes.push_back(locate(array) +
                    ": u16 is not divided first, unlike u8; --normalize "
                    "0:65535 makes it 0..1");
}

StatusOr<Column> Column::create(const Port &port, std::vector<Array> parts,
                                const ColumnPreparation &preparation,
                                std::vector<std::string> &notes) {
  assert(!parts.empty() && "an input takes at least one array");
  Column column;
  column.input = port;
  column.prepared = preparation;
  if (!column.isBatched() && parts.size() > 1)
    return invalid(locate(parts[1]), "must be given once, because it is the "
                                     "same for every batch, but is also in " +
                                         parts[0].source);
  const bool isImages = parts[0].images != nullptr;
  for (Array &part : parts) {
    if ((part.images != nullptr) != isImages)
      return invalid(locate(part), "images and arrays cannot be joined, and " +
                                       parts[0].source + " has " +
                                       (isImages ? "images" : "an array"));
    if (isImages && !column.isMasks())
      if (std::string text = part.images->description(); !text.empty())
        notes.push_back(part.source + ": " + text);
    Status status = isImages ? column.addImages(std::move(part))
                             : column.addPart(std::move(part));
    if (!status.ok())
      return status;
  }
  if (Status status = column.setPreparation(); !status.ok())
    return status;
  // `layout` is final from here on, and decodeImages depends on it.
  if (isImages)
    if (Status status = column.decodeImages(); !status.ok())
      return status;
  if (isImages && column.isMasks())
    notes.push_back(column.array().source + ": " +
                    std::to_string(column.samples()) +
                    " masks with the class numbers " + column.countMasks());
  column.addNotes(notes);
  return column;
}

//===----------------------------------------------------------------------===//
// Digests
//===----------------------------------------------------------------------===//

/// Returns a digest of name, type and shape, without the values.
uint64_t Column::digestOfForm(uint64_t seed) const {
  const Array &array = parts[0];
  Shape shape = array.shape;
  if (isBatched() && !isDecodedLater())
    shape[size_t(input.batchAxis)] = samples();
  std::string head = array.name + '\0' + std::string(nameOf(array.type));
  for (int64_t extent : shape)
    head += ',' + std::to_string(extent);
  uint64_t digest = XXH3_64bits_withSeed(head.data(), head.size(), seed);
  // If the files have several types, include each type in the digest.
  for (const Array &part : parts)
    if (part.type != array.type) {
      const std::string type(nameOf(part.type));
      digest = XXH3_64bits_withSeed(type.data(), type.size(), digest);
    }
  return digest;
}

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

Column::Place Column::placeOf(int64_t row) const {
  const auto next = std::upper_bound(starts.begin(), starts.end(), row);
  const size_t part = size_t(next - starts.begin()) - 1;
  return {&parts[part], row - starts[part]};
}

bool Column::isPlain() const {
  return !turned && !isDecodedLater() && !prepared.normalization &&
         prepared.augmentation.steps.empty();
}

Status Column::fill(const int64_t *rows, int64_t count, AugmentedEpoch epoch,
                    std::byte *to) const {
  if (isPlain())
    return fillPlain(rows, count, to);
  try {
    return fillPrepared(rows, count, epoch, to);
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO, "out of memory; try a smaller --batch-size");
  }
}

/// Copies or converts samples without any preparation.
Status Column::fillPlain(const int64_t *rows, int64_t count,
                         std::byte *to) const {
  const DType type = input.type;
  const auto convert = [&](const Array &part, int64_t element, int64_t size,
                           std::byte *place) {
    auto bad =
        convertElements(part, element, size, type, NonFinite::Allow, place);
    return bad ? invalid(describe(part, *bad, type)) : Status();
  };
  if (!isBatched())
    return convert(parts[0], 0, parts[0].size(), to);
  const int64_t bytes = rowElements * runtime::sizeOf(type);
  return onRows(outer * count, bytes, [&](int64_t begin, int64_t end) {
    Status status;
    for (int64_t i = begin; i < end && status.ok(); ++i) {
      const auto [part, row] = placeOf(rows[i % count]);
      const int64_t inPart = part->shape[size_t(input.batchAxis)];
      status = convert(*part, (i / count * inPart + row) * rowElements,
                       rowElements, to + i * bytes);
    }
    return status;
  });
}

Status Column::fillPrepared(const int64_t *rows, int64_t count,
                            AugmentedEpoch epoch, std::byte *to) const {
  Array images;
  std::vector<uint8_t> pixels;
  // Decode the images of this batch if images stay in files.
  if (isDecodedLater()) {
    pixels.resize(size_t(count * rowElements));
    std::vector<ImageRequest> requests;
    for (int64_t i = 0; i < count; ++i) {
      const auto [part, row] = placeOf(rows[i]);
      requests.push_back(
          {part->images.get(), row, pixels.data() + i * rowElements});
    }
    if (Status status = readImages(requests, *layout); !status.ok())
      return status;
    images.type = ElementType::U8;
    images.shape = {count, rowElements};
    images.data = reinterpret_cast<const std::byte *>(pixels.data());
  }
  const int64_t bytes = rowElements * runtime::sizeOf(input.type);
  return onRows(count, bytes, [&](int64_t begin, int64_t end) {
    Status status;
    for (int64_t i = begin; i < end && status.ok(); ++i) {
      const auto [part, row] = placeOf(rows[i]);
      status = isDecodedLater() ? prepare(images, i * rowElements, rows[i],
                                          epoch, to + i * bytes)
                                : prepare(*part, row * rowElements, rows[i],
                                          epoch, to + i * bytes);
    }
    return status;
  });
}

/// Prepares one sample and writes it to `to`. The sample begins at element
/// `begin` of `from`. `row` is its number in the column.
Status Column::prepare(const Array &from, int64_t begin, int64_t row,
                       AugmentedEpoch epoch, std::byte *to) const {
  const Shape shape = sampleShape();
  const std::optional<Normalization> &normalization = prepared.normalization;
  // Normalize in f32, as torchvision does, or in f64 for f64 inputs.
  const DType type = !normalization             ? input.type
                     : input.type == DType::F64 ? DType::F64
                                                : DType::F32;
  const int64_t width = runtime::sizeOf(type);
  std::vector<std::byte> sample(size_t(rowElements * width));
  if (auto bad = convertElements(from, begin, rowElements, type,
                                 NonFinite::Allow, sample.data()))
    return invalid(describe(from, *bad, type));
  if (turned) {
    std::vector<std::byte> ordered(sample.size());
    turnChannels(sample.data(), shape, width, ordered.data());
    sample.swap(ordered);
  }
  // Seed random changes by sample and epoch, so that the order does not matter.
  if (epoch && !prepared.augmentation.steps.empty())
    augmentImage(
        sample.data(), *layout, width, prepared.augmentation,
        Generator(prepared.augmentation.seed, Stream::Augmentation,
                  uint64_t(*epoch) * uint64_t(samples()) + uint64_t(row)));
  // --normalize is for values in 0..1, so it divides u8 by 255 first.
  const bool isU8 = from.type == ElementType::U8;
  if (normalization && type == DType::F64)
    normalizeSample(reinterpret_cast<double *>(sample.data()), shape,
                    channelAxis, isU8, *normalization);
  else if (normalization)
    normalizeSample(reinterpret_cast<float *>(sample.data()), shape,
                    channelAxis, isU8, *normalization);
  // Check this conversion too: a normalized number may be too large for the
  // input's type.
  Array ready;
  ready.name = from.name;
  ready.source = from.source;
  ready.type = toElementType(type);
  ready.shape = shape;
  ready.data = sample.data();
  auto bad =
      convertElements(ready, 0, rowElements, input.type, NonFinite::Allow, to);
  return bad ? invalid(describe(ready, *bad, input.type)) : Status();
}

void Column::read(const int64_t *rows, int64_t count, DType type,
                  void *to) const {
  // Return prepared labels if there is a preparation, as the loss gets them.
  if (!isPlain() && isBatched()) {
    std::vector<std::byte> bytes(
        size_t(count * rowElements * runtime::sizeOf(input.type)));
    if (!fill(rows, count, std::nullopt, bytes.data()).ok())
      return;
    Array ready;
    ready.type = toElementType(input.type);
    ready.shape = {count, rowElements};
    ready.data = bytes.data();
    convertElements(ready, 0, ready.size(), type, NonFinite::Allow, to);
    return;
  }
  auto *out = static_cast<std::byte *>(to);
  const int64_t bytes = rowElements * runtime::sizeOf(type);
  for (int64_t i = 0; i < count; ++i, out += bytes) {
    const auto [part, row] = placeOf(rows[i]);
    convertElements(*part, row * rowElements, rowElements, type,
                    NonFinite::Reject, out);
  }
}

} // namespace mpc::runtime::train
