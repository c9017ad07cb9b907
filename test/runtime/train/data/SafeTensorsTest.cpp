// Tests the rules of safetensors, each with a file that breaks the rule.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/SafeTensors.h"

#include <chrono>

namespace mpc::runtime::train {
namespace {

std::string file(const std::string &header, const std::string &bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += char(uint64_t(header.size()) >> (8 * i));
  return text + header + bytes;
}

StatusOr<std::vector<Array>> parseTensors(const std::string &bytes) {
  return parseSafeTensors(bytesOf(bytes), bytes.size(), nullptr, "a");
}

/// {"NAME":{"dtype":"U8","shape":[SIZE],"data_offsets":[BEGIN,END]}
std::string u8(const std::string &name, int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" +
         std::to_string(end - begin) + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

void expectInvalidTensors(const std::string &bytes, const std::string &text) {
  expectFailure(parseTensors(bytes).status(), StatusCode::InvalidInput, text);
}

TEST(SafeTensors, WritesWhatItReads) {
  TemporaryDirectory directory;
  const std::vector<Array> arrays{
      makeArray<uint8_t>("b", ElementType::U8, {3}, {1, 2, 3}),
      makeArray<uint16_t>("w", ElementType::BF16, {1, 2}, {0x3f80, 0xbf80}),
      makeArray<double>("a", ElementType::F64, {}, {2.5}),
      makeArray<float>("none", ElementType::F32, {0, 2}, {}),
  };
  const std::string path = directory / "m.safetensors";
  ASSERT_TRUE(writeArrays(path, arrays).ok());
  StatusOr<std::vector<Array>> read = readArrays(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), arrays.size());
  for (const Array &array : *read)
    for (const Array &original : arrays) {
      if (array.name != original.name)
        continue;
      EXPECT_EQ(array.type, original.type);
      EXPECT_EQ(array.shape, original.shape);
      EXPECT_EQ(toTensor(array)->bytes, toTensor(original)->bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data) %
                    size_t(sizeOf(array.type)),
                0u);
    }
}

TEST(SafeTensors, AcceptsMetadataAndPadding) {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"}," + u8("a", 0, 2) + "}   ";
  EXPECT_EQ(parseTensors(file(header, "xy"))->size(), 1u);
}

TEST(SafeTensors, RefusesDuplicateKeys) {
  expectInvalidTensors(
      file("{" + u8("a", 0, 1) + "," + u8("a", 1, 2) + "}", "xy"),
      "'a' occurs twice");
  expectInvalidTensors(
      file("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],"
           "\"data_offsets\":[0,1]}}",
           "x"),
      "'dtype' occurs twice");
}

TEST(SafeTensors, RefusesOverlapsHolesAndRests) {
  expectInvalidTensors(
      file("{" + u8("a", 0, 2) + "," + u8("b", 1, 3) + "}", "xyz"),
      "inside the one before");
  expectInvalidTensors(
      file("{" + u8("a", 0, 1) + "," + u8("b", 2, 3) + "}", "xyz"),
      "after a hole");
  expectInvalidTensors(file("{" + u8("a", 1, 3) + "}", "xyz"), "after a hole");
  expectInvalidTensors(file("{" + u8("a", 0, 2) + "}", "xyz"),
                       "the file has 3");
  expectInvalidTensors(file("{" + u8("a", 0, 4) + "}", "xyz"),
                       "the file has 3");
}

TEST(SafeTensors, RefusesSizesThatAreNotShapeTimesType) {
  expectInvalidTensors(file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
                            "\"data_offsets\":[0,4]}}",
                            "1234"),
                       "takes 8 bytes");
  expectInvalidTensors(
      file("{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,"
           "4],\"data_offsets\":[0,0]}}",
           ""),
      "impossible shape");
  expectInvalidTensors(file("{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],"
                            "\"data_offsets\":[0,1]}}",
                            "x"),
                       "impossible shape");
  expectInvalidTensors(file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                            "\"data_offsets\":[1,0]}}",
                            "x"),
                       "impossible data_offsets");
  expectInvalidTensors(file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                            "\"data_offsets\":[0,18446744073709551616]}}",
                            "x"),
                       "impossible data_offsets");
}

TEST(SafeTensors, RefusesBadHeaders) {
  expectInvalidTensors(file("[1]", ""), "'{'");
  expectInvalidTensors(file(" {}", ""), "'{'");
  expectInvalidTensors(file("{", ""), "not a JSON object");
  expectInvalidTensors(file("{\"a\":1}", ""), "lacks dtype");
  expectInvalidTensors(file("{\"__metadata__\":{\"a\":1}}", ""),
                       "map of strings");
  expectInvalidTensors(
      file("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}",
           ""),
      "nested");
  expectInvalidTensors(std::string(8, '\xff') + "{}", "18446744073709551615");
  expectInvalidTensors(std::string("\x10\0\0\0\0\0\0\0{}", 10), "truncated");
}

TEST(SafeTensors, ReadsLongHeadersInLinearTime) {
  // Adapters and mixtures of experts have this many tensors. A quadratic
  // algorithm took 24 s.
  std::string header = "{";
  for (int i = 0; i < 40000; ++i)
    header += (i ? "," : "") + u8("e" + std::to_string(i), i, i + 1);
  const std::string bytes = file(header + "}", std::string(40000, 'x'));
  const auto begin = std::chrono::steady_clock::now();
  StatusOr<std::vector<Array>> arrays = parseTensors(bytes);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  EXPECT_EQ(arrays->size(), 40000u);
  EXPECT_LT(took.count(), 6);
}

TEST(SafeTensors, DoesNotKnowEveryType) {
  expectFailure(parseTensors(file("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],"
                                  "\"data_offsets\":[0,1]}}",
                                  "x"))
                    .status(),
                StatusCode::Unsupported, "F8_E4M3");
}

TEST(SafeTensors, RefusesEveryTruncation) {
  const std::string whole =
      file("{" + u8("a", 0, 2) + "," + u8("b", 2, 3) + "}", "xyz");
  ASSERT_TRUE(parseTensors(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(parseTensors(whole.substr(0, size)).status().getCode(),
              StatusCode::InvalidInput)
        << size;
}

TEST(SafeTensors, SurvivesEveryBitFlip) {
  const std::string whole = file("{" + u8("a", 0, 2) + "}", "xy");
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    StatusOr<std::vector<Array>> arrays = parseTensors(flipped);
    if (!arrays.ok())
      continue;
    for (const Array &array : *arrays)
      EXPECT_LE(array.data + array.bytes(), bytesOf(flipped) + flipped.size());
  }
}

TEST(SafeTensors, CannotHoldTwoTensorsOfOneName) {
  const Array array = makeArray<uint8_t>("a", ElementType::U8, {1}, {1});
  expectFailure(layOutSafeTensors({array, array}).status(), StatusCode::Usage,
                "'a'");
}

} // namespace
} // namespace mpc::runtime::train
