// Tests valid and hostile idx files, also compressed by gzip.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/DataFiles.h"
#include "runtime/train/data/Idx.h"
#include "runtime/train/support/Gzip.h"

#include <zlib.h>

namespace mpc::runtime::train {
namespace {

using namespace std::string_literals;

/// Two images of 2 x 3 bytes.
const std::string kImages = "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"
                            "abcdefABCDEF"s;

template <typename T>
void expectRefused(const StatusOr<T> &result, const std::string &text) {
  expectFailure(result.status(), StatusCode::InvalidInput, text);
}

StatusOr<Array> parseIdxText(const std::string &bytes) {
  return parseIdx(bytesOf(bytes), bytes.size(), nullptr, "t.idx");
}

std::string compress(const std::string &text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string bytes(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef *>(bytes.data());
  stream.avail_out = uInt(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

TEST(Idx, ReadsBytesInPlace) {
  StatusOr<Array> array = parseIdxText(kImages);
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->type, ElementType::U8);
  EXPECT_EQ(array->shape, (Shape{2, 2, 3}));
  EXPECT_EQ(array->data, bytesOf(kImages) + 16);
}

TEST(Idx, ReadsBigEndianNumbers) {
  StatusOr<Array> halves =
      parseIdxText("\0\0\x0b\x01\0\0\0\x02\x01\x02\xff\xfe"s);
  ASSERT_TRUE(halves.ok()) << halves.status().message();
  const Tensor wide = *toTensor(*halves, DType::I32);
  EXPECT_EQ(wide.as<int32_t>()[0], 258);
  EXPECT_EQ(wide.as<int32_t>()[1], -2);
  StatusOr<Array> floats = parseIdxText("\0\0\x0d\x01\0\0\0\x01\x3f\xc0\0\0"s);
  ASSERT_TRUE(floats.ok()) << floats.status().message();
  EXPECT_EQ(toTensor(*floats)->as<float>()[0], 1.5f);
}

TEST(Idx, RefusesDamage) {
  const std::vector<std::pair<std::string, const char *>> cases{
      {"\0\0\x0a\x01\0\0\0\x01x"s,
       "t.idx: unknown idx type 0x0a, expected 0x08 (u8)"},
      {kImages.substr(0, 11),
       "t.idx: truncated idx header: 3 axes take 16 bytes, the file has 11"},
      {kImages.substr(0, 20),
       "t.idx: shape 2x2x3 of u8 takes 12 bytes, the file has 4"},
      {kImages + "z",
       "t.idx: shape 2x2x3 of u8 takes 12 bytes, the file has 13"},
      {"\0\0\x0e\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s,
       "takes over 2^63 bytes, the file has 0"},
      // A rank of 0, and one above 32.
      {"\0\0\x08\0x"s, "t.idx: not an idx file"},
      {"\0\0\x08\x21x"s, "t.idx: not an idx file"},
  };
  for (const auto &[bytes, message] : cases)
    expectRefused(parseIdxText(bytes), message);
  StatusOr<Array> empty = parseIdxText("\0\0\x0e\x02\0\0\0\0\xff\xff\xff\xff"s);
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(empty->size(), 0);
}

TEST(Gzip, UnpacksMembersOneAfterAnother) {
  const std::string file = compress("first,") + compress("") + compress("last");
  auto contents = unpackGzip(bytesOf(file), file.size(), 100, "t.gz");
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_EQ(std::string(reinterpret_cast<const char *>((*contents)->data()),
                        (*contents)->size()),
            "first,last");
}

TEST(Gzip, UnpacksMoreThanItsFirstGuess) {
  const std::string text(size_t(300000), 'a'), file = compress(text);
  EXPECT_LT(file.size(), text.size() / 100);
  auto contents = unpackGzip(bytesOf(file), file.size(), text.size(), "t.gz");
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_EQ((*contents)->size(), text.size());
}

TEST(Gzip, RefusesDamage) {
  const std::string text(size_t(5000), 'a'), file = compress(text);
  const auto unpack = [](const std::string &bytes, uint64_t most = 1 << 20) {
    return unpackGzip(bytesOf(bytes), bytes.size(), most, "t.gz");
  };
  for (size_t size : {size_t(2), size_t(10), file.size() - 1})
    expectRefused(unpack(file.substr(0, size)), "t.gz: truncated gzip file");
  expectRefused(unpack(file + "tail"),
                "t.gz: corrupt gzip file: 4 bytes follow its end");
  std::string damaged = file;
  damaged[damaged.size() - 6] ^= 1; // the checksum
  expectRefused(unpack(damaged),
                "t.gz: corrupt gzip file: incorrect data check");
  expectRefused(unpack(file, 4999), "t.gz: has more than 4999 bytes");
  EXPECT_TRUE(unpack(file, 5000).ok());
}

/// MNIST's layout: compressed images without a channel, and labels.
TEST(DataFiles, ReadsCompressedIdxFiles) {
  TemporaryDirectory directory;
  const std::string images = directory / "t10k-images-idx3-ubyte.gz";
  const std::string labels = directory / "t10k-labels-idx1-ubyte.gz";
  writeFile(images, compress(kImages));
  writeFile(labels, compress("\0\0\x08\x01\0\0\0\x02\x03\x09"s));
  const FunctionPorts ports{{{"x", Role::Data, DType::F32, {2, 1, 2, 3}},
                             {"label", Role::Label, DType::I64, {2}}},
                            {}};
  StatusOr<std::vector<Array>> arrays =
      readDataFiles({"x=" + images, "target=" + labels});
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  StatusOr<Dataset> data = Dataset::create(*arrays, ports);
  ASSERT_TRUE(data.ok()) << data.status().message();
  const int64_t positions[] = {1, 0};
  EXPECT_EQ(data->labels(positions, 2, "label"), (std::vector<int64_t>{9, 3}));
  // Without a name in front, the array is named after the file.
  arrays = readDataFiles({images});
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  EXPECT_EQ((*arrays)[0].name, "t10k-images-idx3-ubyte");
  writeFile(images, "\x1f\x8b");
  expectRefused(readDataFiles({images}), "truncated gzip file");
}

TEST(DataFiles, ReadsCompressedTables) {
  TemporaryDirectory directory;
  writeFile(directory / "t.csv.gz", compress("a,b\n1,2\n3,4\n"));
  StatusOr<std::vector<Array>> arrays =
      readDataFiles({directory / "t.csv.gz"}, {{"x=a,b"}});
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  EXPECT_EQ((*arrays)[0].shape, (Shape{2, 2}));
}

TEST(DataFiles, AnArrayOfAFileIsNamedBehindAColon) {
  TemporaryDirectory directory;
  const std::string path = directory / "img.npz";
  ASSERT_TRUE(
      writeArrays(path,
                  {makeArray<float>("images", ElementType::F32, {1}, {1}),
                   makeArray<float>("labels", ElementType::F32, {1}, {2})})
          .ok());
  StatusOr<std::vector<Array>> arrays =
      readDataFiles({"x=" + path + ":images", path + ":labels",
                     "y=" + (directory / "i*.npz") + ":images"});
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 3u);
  EXPECT_EQ((*arrays)[0].name, "x");
  EXPECT_EQ((*arrays)[1].name, "labels");
  EXPECT_EQ((*arrays)[2].name, "y");
  expectRefused(readDataFiles({"x=" + path + ":pixels"}),
                "img.npz: has no array 'pixels'; there are 'images', 'labels'");
  expectRefused(readDataFiles({"x=" + path}),
                "choose one: x=" + path + ":ARRAY");
  expectRefused(readDataFiles({directory / "." + ":images"}),
                "a folder, which has no array 'images'");
  // A file of exactly this name takes precedence.
  ASSERT_TRUE(writeArrays(directory / "a.npy:b.npy",
                          {makeArray<float>("b", ElementType::F32, {1}, {1})})
                  .ok());
  EXPECT_TRUE(readDataFiles({directory / "a.npy:b.npy"}).ok());
}

} // namespace
} // namespace mpc::runtime::train
