// Tests valid and broken images. test/e2e/commands/test_data.py compares real
// files with Pillow.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/Image.h"
#include "runtime/train/data/ImageFolder.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

namespace mpc::runtime::train {
namespace {

std::vector<uint8_t> noise(int64_t count) {
  std::mt19937 random(1);
  std::vector<uint8_t> values(static_cast<size_t>(count));
  for (uint8_t &value : values)
    value = uint8_t(random());
  return values;
}

/// A PNG file of noise.
std::string makeNoisyPNG(uint32_t width, uint32_t height,
                         uint32_t format = PNG_FORMAT_RGB) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  const std::vector<uint8_t> pixels = noise(PNG_IMAGE_SIZE(image));
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  EXPECT_TRUE(png_image_write_to_memory(&image, bytes.data(), &size, 0,
                                        pixels.data(), 0, nullptr));
  bytes.resize(size);
  return bytes;
}

/// A JPEG file of noise.
std::string makeJPEG(uint32_t width, uint32_t height, bool progressive = false,
                     J_COLOR_SPACE space = JCS_RGB, int channels = 3) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char *buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = channels;
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  if (progressive)
    jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row = noise(int64_t(width) * channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  const std::string bytes(reinterpret_cast<char *>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return bytes;
}

void expectInvalidImage(const std::string &bytes, const std::string &text) {
  expectFailure(decodeImage(bytes).status(), StatusCode::InvalidInput, text);
}

TEST(Image, ReadsRGBOfEveryKind) {
  for (const std::string &bytes :
       {makeNoisyPNG(7, 5), makeNoisyPNG(7, 5, PNG_FORMAT_GRAY),
        makeNoisyPNG(7, 5, PNG_FORMAT_RGBA), makeNoisyPNG(7, 5, PNG_FORMAT_GA),
        makeNoisyPNG(7, 5, PNG_FORMAT_LINEAR_RGB), makeJPEG(7, 5),
        makeJPEG(7, 5, true), makeJPEG(7, 5, false, JCS_GRAYSCALE, 1)}) {
    StatusOr<Image> image = decodeImage(bytes);
    ASSERT_TRUE(image.ok()) << image.status().message();
    EXPECT_EQ(image->width, 7);
    EXPECT_EQ(image->height, 5);
    EXPECT_EQ(image->pixels.size(), 7u * 5 * 3);
    EXPECT_TRUE(checkImage(bytes).ok());
  }
  EXPECT_EQ(decodeImage(makeNoisyPNG(7, 5))->pixels, noise(7 * 5 * 3));
}

TEST(Image, SaysWhatIsNoImage) {
  expectInvalidImage("", "the file is empty");
  expectInvalidImage("GIF89a", "neither a JPEG nor a PNG");
  expectInvalidImage(makeJPEG(5, 5, false, JCS_CMYK, 4), "CMYK");
  EXPECT_FALSE(checkImage("\xff\xd8\xff").ok());
}

TEST(Image, ATruncatedFileIsNeverAnImage) {
  for (const std::string &whole :
       {makeNoisyPNG(9, 8), makeJPEG(40, 30), makeJPEG(40, 30, true)})
    for (size_t size = 0; size < whole.size() - 2; ++size)
      EXPECT_FALSE(decodeImage(whole.substr(0, size)).ok()) << size;
}

TEST(Image, DamageIsAnErrorOrAnImageOfItsSize) {
  std::mt19937 random(2);
  for (const std::string &whole :
       {makeNoisyPNG(9, 8), makeJPEG(40, 30), makeJPEG(40, 30, true)})
    for (int i = 0; i < 3000; ++i) {
      std::string bytes = whole;
      for (int changes = 1 + int(random() % 4); changes > 0; --changes)
        bytes[random() % bytes.size()] = char(random());
      StatusOr<Image> image = decodeImage(bytes);
      if (image.ok()) {
        EXPECT_EQ(int64_t(image->pixels.size()),
                  image->width * image->height * 3);
      }
    }
}

TEST(Image, RefusesSizesThatTheFileOnlyClaims) {
  // Bytes 16 to 19 of a PNG file are the width. The height follows, and then a
  // checksum of both.
  std::string bytes = makeNoisyPNG(2, 2);
  for (size_t i : {16, 20})
    bytes.replace(i, 4, std::string("\x00\x00\xff\xff", 4));
  const uint32_t sum = uint32_t(
      crc32(0, reinterpret_cast<const Bytef *>(bytes.data()) + 12, 17));
  for (int i = 0; i < 4; ++i)
    bytes[size_t(29 + i)] = char(sum >> (24 - 8 * i));
  expectInvalidImage(bytes, "65535x65535 pixels, at most 134217728 are read");
}

TEST(Image, ResizesByTrianglesAsPillowDoes) {
  const Image row{6, 1, 1, {0, 50, 100, 150, 200, 250}};
  // A new pixel covers two old pixels in the middle and one on each side.
  EXPECT_EQ(resize(row, 3, 1).pixels, (std::vector<uint8_t>{36, 125, 214}));
  EXPECT_EQ(resize(row, 6, 1).pixels, row.pixels);
  const Image column{1, 2, 1, {0, 200}};
  EXPECT_EQ(resize(column, 1, 4).pixels,
            (std::vector<uint8_t>{0, 50, 150, 200}));
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

void write(const std::string &path, const std::string &bytes) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  writeFile(path, bytes);
}

TEST(ImageFolder, LabelsAreTheFoldersByName) {
  TemporaryDirectory directory;
  write(directory / "dog/2.png", makeNoisyPNG(4, 4));
  write(directory / "dog/deep/1.JPG", makeJPEG(4, 4));
  write(directory / "cat/b.png", makeNoisyPNG(4, 4));
  write(directory / "cat/a.jpeg", makeJPEG(4, 4));
  write(directory / "cat/.hidden.png", "");
  write(directory / "cat/notes.txt", "");
  write(directory / "loose.png", makeNoisyPNG(4, 4));
  auto folder = ImageFolder::open(directory.path);
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_EQ((*folder)->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ((*folder)->size(), 4);
  EXPECT_EQ((*folder)->pathOf(0), directory / "cat/a.jpeg");
  EXPECT_EQ((*folder)->pathOf(2), directory / "dog/2.png");
  EXPECT_EQ((*folder)->labelOf(1), 0);
  EXPECT_EQ((*folder)->labelOf(3), 1);
  EXPECT_EQ((*folder)->leftOut(), 1);
  const std::string text = (*folder)->description();
  EXPECT_NE(text.find("1 file that is no image is left out"), text.npos)
      << text;
  EXPECT_NE(text.find("1 image in no label's folder is left out"), text.npos);
  EXPECT_TRUE((*folder)->checkHeaders().ok());
}

TEST(ImageFolder, SaysWhatIsMissing) {
  TemporaryDirectory directory;
  expectFailure(ImageFolder::open(directory.path).status(),
                StatusCode::InvalidInput,
                "expected JPEG or PNG images, or a folder of them for each "
                "label");
  write(directory / "cat/notes.txt", "");
  expectFailure(ImageFolder::open(directory.path).status(),
                StatusCode::InvalidInput,
                "cat: the folder of a label has no JPEG or PNG images; remove "
                "the folder, or say --allow-empty if");
  expectFailure(
      ImageFolder::open(directory.path, /*allowsEmpty=*/true).status(),
      StatusCode::InvalidInput, "no folder of a label has JPEG");
  write(directory / "cat/a.webp", "");
  expectFailure(ImageFolder::open(directory.path).status(),
                StatusCode::Unsupported, "a.webp: only JPEG and PNG");
  std::filesystem::remove(directory / "cat/a.webp");
  write(directory / "cat/a.png", makeNoisyPNG(4, 4));
  std::filesystem::create_directory_symlink(directory.path,
                                            directory / "cat/more");
  expectFailure(ImageFolder::open(directory.path).status(),
                StatusCode::Unsupported, "cat/more: a link to a folder");
}

TEST(ImageFolder, ALabelMayHaveNoImages) {
  TemporaryDirectory directory;
  write(directory / "a/1.png", makeNoisyPNG(4, 4));
  write(directory / "c/1.png", makeNoisyPNG(4, 4));
  std::filesystem::create_directory(directory / "b");
  auto folder = ImageFolder::open(directory.path, /*allowsEmpty=*/true);
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_EQ((*folder)->classes(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ((*folder)->labelOf(1), 2);
  EXPECT_EQ((*folder)->description(),
            "2 images of 3 labels: 0 a, 1 b, 2 c; no sample of 1 b");
}

TEST(ImageFolder, ImagesWithoutFoldersHaveNoLabels) {
  TemporaryDirectory directory;
  write(directory / "b_mask.png", makeNoisyPNG(4, 4));
  write(directory / "a.jpg", makeJPEG(4, 4));
  write(directory / "b2.png", makeNoisyPNG(4, 4));
  auto folder = ImageFolder::open(directory.path);
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_FALSE((*folder)->isLabelled());
  ASSERT_EQ((*folder)->size(), 3);
  EXPECT_EQ((*folder)->stemOf(0), "a");
  EXPECT_EQ((*folder)->stemOf(1), "b");
  EXPECT_EQ((*folder)->stemOf(2), "b2");
  EXPECT_EQ((*folder)->description(), "3 images");
  EXPECT_EQ(toArrays(*folder, directory.path, "x", "target").size(), 1u);
}

TEST(Image, MasksAreNumbersAndNoColours) {
  auto mask = decodeMask(makeNoisyPNG(3, 2, PNG_FORMAT_GRAY));
  ASSERT_TRUE(mask.ok()) << mask.status().message();
  EXPECT_EQ(mask->pixels, noise(6));
  expectFailure(decodeMask(makeNoisyPNG(3, 2)).status(),
                StatusCode::InvalidInput, "a mask in colours");
  expectFailure(decodeMask(makeNoisyPNG(3, 2, PNG_FORMAT_LINEAR_Y)).status(),
                StatusCode::InvalidInput, "a mask of 16 bits");
  expectFailure(decodeMask(makeJPEG(3, 2)).status(), StatusCode::InvalidInput,
                "a JPEG image, which does not keep the numbers");
}

TEST(Image, TheNearestPixelMakesNoNewNumbers) {
  const Image mask{4, 2, 1, {0, 1, 2, 3, 4, 5, 6, 7}};
  EXPECT_EQ(resizeNearest(mask, 2, 1).pixels, (std::vector<uint8_t>{5, 7}));
  EXPECT_EQ(
      resizeNearest(mask, 8, 2).pixels,
      (std::vector<uint8_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}));
}

TEST(ImageFolder, NamesTheFirstFileThatIsDamaged) {
  TemporaryDirectory directory;
  for (int i = 10; i < 40; ++i)
    write(directory / ("cat/" + std::to_string(i) + ".png"),
          makeNoisyPNG(4, 4));
  write(directory / "cat/25.png", "no image");
  write(directory / "cat/31.png", "no image");
  auto folder = ImageFolder::open(directory.path);
  ASSERT_TRUE(folder.ok());
  expectFailure((*folder)->checkHeaders(), StatusCode::InvalidInput,
                "cat/25.png: neither a JPEG nor a PNG image");
  const ImageLayout layout{3, 2, 2, false};
  std::vector<uint8_t> pixels(30 * 12);
  std::vector<ImageRequest> requests;
  for (int64_t i = 0; i < 30; ++i)
    requests.push_back({folder->get(), i, pixels.data() + 12 * i});
  expectFailure(readImages(requests, layout), StatusCode::InvalidInput,
                "cat/25.png");
}

TEST(ImageFolder, OrdersPixelsAsTheInputHasThem) {
  EXPECT_FALSE(ImageLayout::of({3, 4}));
  EXPECT_FALSE(ImageLayout::of({2, 4, 4}));
  EXPECT_FALSE(ImageLayout::of({3, 4, 4})->channelsLast);
  EXPECT_TRUE(ImageLayout::of({8, 4, 3})->channelsLast);
  TemporaryDirectory directory;
  write(directory / "a/a.png", makeNoisyPNG(2, 1));
  auto folder = ImageFolder::open(directory.path);
  ASSERT_TRUE(folder.ok());
  std::vector<uint8_t> first(6), last(6);
  ASSERT_TRUE((*folder)->read(0, {3, 1, 2, false}, first.data()).ok());
  ASSERT_TRUE((*folder)->read(0, {3, 1, 2, true}, last.data()).ok());
  EXPECT_EQ(last, noise(6));
  EXPECT_EQ(first, (std::vector<uint8_t>{last[0], last[3], last[1], last[4],
                                         last[2], last[5]}));
}

} // namespace
} // namespace mpc::runtime::train
