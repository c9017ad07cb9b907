// Decodes images with libjpeg and libpng. Both report errors with longjmp,
// which skips destructors. So functions that longjmp may leave own nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Image.h"

#include "runtime/train/data/Array.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

#include <jpeglib.h>

#include <jerror.h>
#include <png.h>

namespace mpc::runtime::train {

/// Returns the reason for refusing an image of `width` x `height` pixels; empty
/// if the size is accepted.
static std::string refuseSize(uint64_t width, uint64_t height) {
  if (width == 0 || height == 0)
    return "an image without pixels";
  if (width > uint64_t(kMaxPixels) / height)
    return std::to_string(width) + "x" + std::to_string(height) +
           " pixels, at most " + std::to_string(kMaxPixels) + " are read";
  return "";
}

namespace {
/// The input and the result of decoding one file: pixels, or the reason for a
/// failure.
struct Decoding {
  std::string_view bytes;
  /// True to stop after the header, without decoding pixels.
  bool headerOnly = false;
  /// True to decode numbers of classes instead of colours.
  bool isMask = false;
  Image image;
  char reason[JMSG_LENGTH_MAX] = "";
  jmp_buf fail;

  void setReason(const std::string &text) {
    std::snprintf(reason, sizeof(reason), "%s", text.c_str());
  }
  /// Allocates the pixels. False on failure, with the reason in `reason`.
  bool allocate(uint64_t width, uint64_t height) {
    const std::string refused = refuseSize(width, height);
    setReason(refused);
    if (!refused.empty())
      return false;
    image.width = int64_t(width);
    image.height = int64_t(height);
    image.channels = isMask ? 1 : 3;
    try {
      image.pixels.resize(
          headerOnly ? 0 : size_t(width * height * uint64_t(image.channels)));
    } catch (const std::bad_alloc &) {
      setReason("does not fit in memory");
      return false;
    }
    return true;
  }
  uint8_t *row(uint64_t index) {
    return image.pixels.data() + index * uint64_t(image.width * image.channels);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// JPEG
//===----------------------------------------------------------------------===//

[[noreturn]] static void failJPEG(j_common_ptr info) {
  auto *decoding = static_cast<Decoding *>(info->client_data);
  info->err->format_message(info, decoding->reason);
  longjmp(decoding->fail, 1);
}

/// Treats warnings about missing data as errors, since libjpeg would invent the
/// data.
static void warnJPEG(j_common_ptr info, int level) {
  if (level < 0 && (info->err->msg_code == JWRN_JPEG_EOF ||
                    info->err->msg_code == JWRN_HIT_MARKER))
    failJPEG(info);
}

/// Refuses a file with too many scans, which would take very long to decode.
static void limitScans(j_common_ptr info) {
  constexpr int most = 500;
  const auto *decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= most)
    return;
  auto *decoding = static_cast<Decoding *>(info->client_data);
  std::snprintf(decoding->reason, sizeof(decoding->reason),
                "more than %d scans", most);
  longjmp(decoding->fail, 1);
}

/// Decodes a JPEG file. False on failure, with the reason in `decoding`.
static bool readJPEG(Decoding &decoding) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  info.err = jpeg_std_error(&errors);
  errors.error_exit = failJPEG;
  errors.emit_message = warnJPEG;
  info.client_data = &decoding;
  if (setjmp(decoding.fail)) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  // Only a limit on scans bounds the time: progressive files can have any
  // number.
  jpeg_create_decompress(&info);
  std::memset(&progress, 0, sizeof(progress));
  progress.progress_monitor = limitScans;
  info.progress = &progress;
  jpeg_mem_src(&info,
               reinterpret_cast<const unsigned char *>(decoding.bytes.data()),
               static_cast<unsigned long>(decoding.bytes.size()));
  // Check the size in the header before anything is allocated.
  jpeg_read_header(&info, TRUE);
  bool isRead = decoding.allocate(info.image_width, info.image_height);
  if (isRead && (info.jpeg_color_space == JCS_CMYK ||
                 info.jpeg_color_space == JCS_YCCK)) {
    decoding.setReason("its colours are CMYK; convert it to RGB");
    isRead = false;
  }
  // Rows are decoded directly into the image, as RGB.
  if (isRead && !decoding.headerOnly) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = decoding.row(info.output_scanline);
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return isRead;
}

//===----------------------------------------------------------------------===//
// PNG
//===----------------------------------------------------------------------===//

[[noreturn]] static void failPNG(png_structp png, png_const_charp reason) {
  auto *decoding = static_cast<Decoding *>(png_get_error_ptr(png));
  std::snprintf(decoding->reason, sizeof(decoding->reason), "%s", reason);
  longjmp(decoding->fail, 1);
}

static void ignorePNG(png_structp, png_const_charp) {}

static void readPNGBytes(png_structp png, png_bytep to, size_t count) {
  auto *decoding = static_cast<Decoding *>(png_get_io_ptr(png));
  if (count > decoding->bytes.size())
    png_error(png, "the file ends too early");
  std::memcpy(to, decoding->bytes.data(), count);
  decoding->bytes.remove_prefix(count);
}

/// Makes libpng convert all colours to 8-bit RGB.
static void askForRGB(png_structp png) {
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
}

/// Makes libpng return palette indices or grey values unchanged, one byte per
/// pixel. False, with the reason in `decoding`, if the file has other colours.
static bool askForNumbers(png_structp png, png_infop info, Decoding &decoding) {
  const int color = png_get_color_type(png, info);
  if (color != PNG_COLOR_TYPE_PALETTE && color != PNG_COLOR_TYPE_GRAY) {
    decoding.setReason("a mask in colours; expected the number of a class for "
                       "each pixel, in grey or with a palette");
    return false;
  }
  if (png_get_bit_depth(png, info) > 8) {
    decoding.setReason("a mask of 16 bits; at most 8 are read");
    return false;
  }
  png_set_packing(png);
  return true;
}

/// Reads all rows. An interlaced file has several passes over the rows.
static void readRows(png_structp png, Decoding &decoding) {
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass)
    for (int64_t row = 0; row < decoding.image.height; ++row)
      png_read_row(png, decoding.row(uint64_t(row)), nullptr);
  png_read_end(png, nullptr);
}

/// Decodes a PNG file. False on failure, with the reason in `decoding`.
static bool readPNG(Decoding &decoding) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoding,
                                           failPNG, ignorePNG);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  if (!info) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    decoding.setReason("out of memory");
    return false;
  }
  if (setjmp(decoding.fail)) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  // Limit the memory for text and colour profiles, which mpc does not read.
  png_set_chunk_malloc_max(png, 1 << 20);
  png_set_chunk_cache_max(png, 16);
  png_set_read_fn(png, &decoding, readPNGBytes);
  png_read_info(png, info);
  const bool isRead = decoding.allocate(png_get_image_width(png, info),
                                        png_get_image_height(png, info)) &&
                      (!decoding.isMask || askForNumbers(png, info, decoding));
  if (isRead && !decoding.headerOnly) {
    if (!decoding.isMask)
      askForRGB(png);
    readRows(png, decoding);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  return isRead;
}

//===----------------------------------------------------------------------===//
// Either
//===----------------------------------------------------------------------===//

static Status read(Decoding &decoding) {
  const auto begins = [&](std::string_view prefix) {
    return decoding.bytes.substr(0, prefix.size()) == prefix;
  };
  bool isRead = false;
  if (begins("\xff\xd8\xff") && decoding.isMask)
    decoding.setReason("a JPEG image, which does not keep the numbers of a "
                       "mask; expected PNG");
  else if (begins("\xff\xd8\xff"))
    isRead = readJPEG(decoding);
  else if (begins("\x89PNG\r\n\x1a\n"))
    isRead = readPNG(decoding);
  else
    decoding.setReason(decoding.bytes.empty()
                           ? "the file is empty"
                           : "neither a JPEG nor a PNG image");
  return isRead ? Status() : invalid(decoding.reason);
}

StatusOr<Image> decodeImage(std::string_view bytes) {
  Decoding decoding;
  decoding.bytes = bytes;
  if (Status status = read(decoding); !status.ok())
    return status;
  return std::move(decoding.image);
}

StatusOr<Image> decodeMask(std::string_view bytes) {
  Decoding decoding;
  decoding.bytes = bytes;
  decoding.isMask = true;
  if (Status status = read(decoding); !status.ok())
    return status;
  return std::move(decoding.image);
}

Status checkImage(std::string_view bytes) {
  Decoding decoding;
  decoding.bytes = bytes;
  decoding.headerOnly = true;
  return read(decoding);
}

Image toGrey(const Image &image) {
  Image grey;
  grey.width = image.width;
  grey.height = image.height;
  grey.channels = 1;
  grey.pixels.resize(size_t(image.width * image.height));
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    const uint8_t *rgb = image.pixels.data() + 3 * i;
    grey.pixels[i] = uint8_t(
        (rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
  }
  return grey;
}

//===----------------------------------------------------------------------===//
// Size
//===----------------------------------------------------------------------===//

namespace {
/// For each new pixel of a line: the consecutive old pixels that it is made of,
/// and their weights as integers in units of 2^-22.
struct FilterWeights {
  static constexpr int kPlaces = 22;
  int64_t width = 0; ///< elements per row of `weights`
  std::vector<int64_t> first, count;
  std::vector<int32_t> weights;
};
} // namespace

/// Returns the weights for resizing a line of `from` pixels to `to` pixels.
/// Each new pixel has a triangle filter, as wide as two new or two old pixels,
/// whichever are larger.
static FilterWeights makeWeights(int64_t from, int64_t to) {
  // If the line shrinks, a new pixel covers `scale` old pixels.
  const double scale = double(from) / double(to);
  const double spread = std::max(scale, 1.0);
  FilterWeights result;
  result.width = int64_t(std::ceil(spread)) * 2 + 1;
  result.weights.resize(size_t(to * result.width));
  std::vector<double> row(static_cast<size_t>(result.width));
  // Normalize the weights of a new pixel so that they add up to 1.
  for (int64_t i = 0; i < to; ++i) {
    const double center = (double(i) + 0.5) * scale;
    const int64_t first = std::max(int64_t(center - spread + 0.5), int64_t(0));
    const int64_t end = std::min(int64_t(center + spread + 0.5), from);
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      const double distance =
          std::abs((double(x) - center + 0.5) * (1.0 / spread));
      row[size_t(x - first)] = distance < 1 ? 1 - distance : 0;
      sum += row[size_t(x - first)];
    }
    // Integer weights give the same pixels on every computer.
    result.first.push_back(first);
    result.count.push_back(end - first);
    for (int64_t x = 0; x < end - first; ++x)
      result.weights[size_t(i * result.width + x)] =
          int32_t(0.5 + row[size_t(x)] / (sum != 0 ? sum : 1) *
                            (1 << FilterWeights::kPlaces));
  }
  return result;
}

/// Returns the weighted sum of `count` elements that are `stride` apart.
static uint8_t weigh(const uint8_t *from, int64_t stride,
                     const int32_t *weights, int64_t count) {
  int64_t sum = 1 << (FilterWeights::kPlaces - 1);
  for (int64_t i = 0; i < count; ++i)
    sum += int64_t(from[i * stride]) * weights[i];
  return uint8_t(std::min(sum >> FilterWeights::kPlaces, int64_t(UINT8_MAX)));
}

/// Resizes each line to `width`.
static Image resizeLines(const Image &image, int64_t width) {
  const FilterWeights weights = makeWeights(image.width, width);
  Image result{width, image.height, image.channels, {}};
  result.pixels.resize(size_t(width * image.height * image.channels));
  uint8_t *to = result.pixels.data();
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < image.channels; ++c)
        *to++ = weigh(
            image.pixels.data() +
                (y * image.width + weights.first[size_t(x)]) * image.channels +
                c,
            image.channels, weights.weights.data() + x * weights.width,
            weights.count[size_t(x)]);
  return result;
}

/// Resizes each column to `height`.
static Image resizeColumns(const Image &image, int64_t height) {
  const FilterWeights weights = makeWeights(image.height, height);
  const int64_t line = image.width * image.channels;
  Image result{image.width, height, image.channels, {}};
  result.pixels.resize(size_t(line * height));
  uint8_t *to = result.pixels.data();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < line; ++x)
      *to++ = weigh(image.pixels.data() + weights.first[size_t(y)] * line + x,
                    line, weights.weights.data() + y * weights.width,
                    weights.count[size_t(y)]);
  return result;
}

Image resize(const Image &image, int64_t width, int64_t height) {
  Image result = image;
  if (width != image.width)
    result = resizeLines(result, width);
  if (height != image.height)
    result = resizeColumns(result, height);
  return result;
}

Image resizeNearest(const Image &image, int64_t width, int64_t height) {
  // Returns the old pixel that contains the middle of the new pixel.
  const auto place = [](int64_t at, int64_t from, int64_t to) {
    return (2 * at + 1) * from / (2 * to);
  };
  Image result{width, height, image.channels, {}};
  result.pixels.reserve(size_t(width * height * image.channels));
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const auto pixel =
          image.pixels.begin() + (place(y, image.height, height) * image.width +
                                  place(x, image.width, width)) *
                                     image.channels;
      result.pixels.insert(result.pixels.end(), pixel, pixel + image.channels);
    }
  return result;
}

} // namespace mpc::runtime::train
