// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Preparation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

static Status usage(const std::string &flag, const std::string &text,
                    const std::string &expected) {
  return Status(StatusCode::Usage,
                flag + " " + text + ": expected " + expected);
}

template <typename T>
static std::optional<T> parse(std::string_view text) {
  T value{};
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end)
    return std::nullopt;
  return value;
}

static std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = std::min(text.find(by), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size())
      return parts;
    text.remove_prefix(end + 1);
  }
}

/// Removes "NAME=" from the front of a flag's value and returns NAME. Empty if
/// there is no "NAME=".
static std::string takeName(std::string_view &text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos)
    return "";
  const std::string name(text.substr(0, equals));
  text.remove_prefix(equals + 1);
  return name;
}

/// Parses numbers with commas between them. Empty if one of them is no finite
/// number.
static std::vector<double> parseList(std::string_view text) {
  std::vector<double> numbers;
  for (std::string_view part : split(text, ',')) {
    const std::optional<double> number = parse<double>(part);
    if (!number || !std::isfinite(*number))
      return {};
    numbers.push_back(*number);
  }
  return numbers;
}

static StatusOr<Normalization> parseNormalization(const std::string &text) {
  std::string_view rest = text;
  Normalization result;
  result.input = takeName(rest);
  // MEAN and STD each have one number, or one number per channel.
  const std::vector<std::string_view> halves = split(rest, ':');
  if (halves.size() == 2) {
    result.mean = parseList(halves[0]);
    result.deviation = parseList(halves[1]);
  }
  const auto isPositive = [](double value) { return value > 0; };
  if (result.mean.empty() || result.deviation.empty() ||
      !std::all_of(result.deviation.begin(), result.deviation.end(),
                   isPositive))
    return usage("--normalize", text,
                 "[NAME=]MEAN:STD, numbers or one for each channel with commas "
                 "between them, and STD above 0, such as 0.1307:0.3081; or "
                 "imagenet");
  if (result.mean.size() != result.deviation.size() &&
      result.mean.size() != 1 && result.deviation.size() != 1)
    return usage("--normalize", text, "as many means as deviations, or one");
  return result;
}

static StatusOr<InputLayout> parseLayout(const std::string &text) {
  std::string_view rest = text;
  InputLayout result;
  result.input = takeName(rest);
  result.channelsLast = rest == "channels-last";
  if (!result.channelsLast && rest != "channels-first")
    return usage("--input-layout", text,
                 "[NAME=]channels-first or [NAME=]channels-last");
  return result;
}

static StatusOr<Augmentation> parseAugmentation(const std::string &text) {
  Augmentation result;
  for (std::string_view part : split(text, ',')) {
    // Each change may be given only once. A crop needs a padding.
    Augmentation::Step step;
    if (part.substr(0, 5) == "crop:") {
      step.kind = Augmentation::Step::Crop;
      step.padding = parse<int64_t>(part.substr(5)).value_or(0);
    }
    if (part != "flip" && step.padding <= 0)
      return usage("--augment", text,
                   "flip, crop:PADDING or both with a comma between them");
    const auto isSame = [&](const Augmentation::Step &other) {
      return other.kind == step.kind;
    };
    if (std::any_of(result.steps.begin(), result.steps.end(), isSame))
      return usage("--augment", text, "each change once");
    result.steps.push_back(step);
  }
  return result;
}

/// Parses all values of a flag. The flag may be repeated for several inputs,
/// but not for the same one.
template <typename T>
static Status parseAll(const char *flag, const std::vector<std::string> &values,
                       StatusOr<T> (*parseOne)(const std::string &),
                       std::vector<T> &results, std::string &text) {
  for (const std::string &value : values) {
    StatusOr<T> result = parseOne(value);
    if (!result.ok())
      return result.status();
    for (const T &other : results)
      if (other.input == result->input)
        return usage(flag, value, "each input once");
    results.push_back(std::move(*result));
    text += std::string("; ") + flag + " " + value;
  }
  return Status();
}

/// Replaces "imagenet" by the means and deviations of ImageNet's channels, as
/// torchvision's models expect. The text of a preparation has the numbers.
static std::vector<std::string> spellOut(std::vector<std::string> normalize) {
  constexpr std::string_view name = "imagenet";
  for (std::string &text : normalize) {
    const size_t begin = text.find('=') + 1; // 0 without an input's name
    if (text.compare(begin, text.npos, name) == 0)
      text.replace(begin, name.size(), "0.485,0.456,0.406:0.229,0.224,0.225");
  }
  return normalize;
}

StatusOr<Preparation>
parsePreparation(const std::vector<std::string> &normalize,
                 const std::vector<std::string> &layouts,
                 const std::string &augment, uint64_t seed) {
  // `text` collects all flags, so comparing texts tells if two data sets are
  // prepared in the same way.
  Preparation result;
  Status status = parseAll("--normalize", spellOut(normalize),
                           parseNormalization, result.normalize, result.text);
  if (status.ok())
    status = parseAll("--input-layout", layouts, parseLayout, result.layouts,
                      result.text);
  if (!status.ok())
    return status;
  if (augment.empty())
    return result;
  // Augmentation draws random numbers from the run's seed.
  StatusOr<Augmentation> augmentation = parseAugmentation(augment);
  if (!augmentation.ok())
    return augmentation.status();
  result.augment = std::move(*augmentation);
  result.augment.seed = seed;
  result.text += "; --augment " + augment;
  return result;
}

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

void turnChannels(const std::byte *from, const Shape &sample, int64_t width,
                  std::byte *to) {
  const int64_t channels = sample[0];
  const int64_t pixels = numElements(Shape(sample.begin() + 1, sample.end()));
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < pixels; ++i, to += width)
      std::memcpy(to, from + (i * channels + c) * width, size_t(width));
}

/// Replaces each pixel of `image` by the pixel whose row and column `sourceOf`
/// returns, or by zero if this position is outside the image.
template <typename SourceOf>
static void movePixels(std::byte *image, const ImageLayout &layout,
                       int64_t width, SourceOf sourceOf) {
  // With channels last, a pixel has all its channels side by side. With
  // channels first, each channel is a plane of its own.
  const int64_t planes = layout.channelsLast ? 1 : layout.channels;
  const int64_t pixel = width * (layout.channelsLast ? layout.channels : 1);
  const int64_t plane = layout.height * layout.width * pixel;
  const std::vector<std::byte> from(image, image + planes * plane);
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t y = 0; y < layout.height; ++y)
      for (int64_t x = 0; x < layout.width; ++x) {
        const auto [fromY, fromX] = sourceOf(y, x);
        std::byte *to = image + p * plane + (y * layout.width + x) * pixel;
        // Pixels from outside the image are black.
        if (fromY < 0 || fromY >= layout.height || fromX < 0 ||
            fromX >= layout.width)
          std::memset(to, 0, size_t(pixel));
        else
          std::memcpy(to,
                      from.data() + p * plane +
                          (fromY * layout.width + fromX) * pixel,
                      size_t(pixel));
      }
}

void augmentImage(std::byte *image, const ImageLayout &layout, int64_t width,
                  const Augmentation &augmentation, Generator random) {
  for (const Augmentation::Step &step : augmentation.steps) {
    if (step.kind == Augmentation::Step::Flip) {
      if (random.below(2))
        movePixels(image, layout, width, [&](int64_t y, int64_t x) {
          return std::pair(y, layout.width - 1 - x);
        });
      continue;
    }
    const uint64_t places = uint64_t(2 * step.padding + 1);
    const int64_t down = int64_t(random.below(places)) - step.padding;
    const int64_t right = int64_t(random.below(places)) - step.padding;
    movePixels(image, layout, width, [&](int64_t y, int64_t x) {
      return std::pair(y + down, x + right);
    });
  }
}

template <typename T>
static void normalize(T *sample, const Shape &shape, size_t channelAxis,
                      bool isU8, const Normalization &normalization) {
  const std::vector<double> &means = normalization.mean;
  const std::vector<double> &deviations = normalization.deviation;
  const size_t channels = std::max(means.size(), deviations.size());
  // The elements of one channel are contiguous, in runs of `run` elements.
  int64_t run = 1;
  for (size_t axis = channelAxis + 1; axis < shape.size(); ++axis)
    run *= shape[axis];
  const int64_t count = numElements(shape);
  if (channels == 1)
    run = count;
  for (int64_t begin = 0; begin < count; begin += run) {
    const size_t channel = size_t(begin / run) % channels;
    const T mean = T(means[means.size() == 1 ? 0 : channel]);
    const T deviation = T(deviations[deviations.size() == 1 ? 0 : channel]);
    for (int64_t i = begin; i < begin + run; ++i)
      sample[i] = ((isU8 ? sample[i] / T(255) : sample[i]) - mean) / deviation;
  }
}

void normalizeSample(float *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization) {
  normalize(sample, shape, channelAxis, isU8, normalization);
}

void normalizeSample(double *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization) {
  normalize(sample, shape, channelAxis, isU8, normalization);
}

std::optional<size_t> findChannelAxis(const Shape &sample, size_t channels) {
  if (channels == 1)
    return 0;
  for (size_t axis : {size_t(0), sample.size() - 1})
    if (axis < sample.size() && sample[axis] == int64_t(channels))
      return axis;
  return std::nullopt;
}

} // namespace mpc::runtime::train
