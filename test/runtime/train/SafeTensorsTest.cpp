// The rules of safetensors, each with a file that breaks it.
//
// SPDX-License-Identifier: Apache-2.0
#include "Support.h"

#include "runtime/train/ArrayFile.h"
#include "runtime/train/SafeTensors.h"

namespace mpc::runtime::train {
namespace {

std::string file(const std::string &header, const std::string &bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += char(uint64_t(header.size()) >> (8 * i));
  return text + header + bytes;
}

StatusOr<std::vector<Array>> parse(const std::string &bytes) {
  return parseSafeTensors(bytesOf(bytes), bytes.size(), nullptr, "a");
}

/// {"NAME":{"dtype":"U8","shape":[SIZE],"data_offsets":[BEGIN,END]}
std::string u8(const std::string &name, int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" +
         std::to_string(end - begin) + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

void expectInvalid(const std::string &bytes, const std::string &text) {
  expectFailure(parse(bytes).status(), StatusCode::InvalidInput, text);
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
  EXPECT_EQ(parse(file(header, "xy"))->size(), 1u);
}

TEST(SafeTensors, RefusesDuplicateKeys) {
  expectInvalid(file("{" + u8("a", 0, 1) + "," + u8("a", 1, 2) + "}", "xy"),
                "'a' stands twice");
  expectInvalid(file("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],"
                     "\"data_offsets\":[0,1]}}",
                     "x"),
                "'dtype' stands twice");
}

TEST(SafeTensors, RefusesOverlapsHolesAndRests) {
  expectInvalid(file("{" + u8("a", 0, 2) + "," + u8("b", 1, 3) + "}", "xyz"),
                "inside the one before");
  expectInvalid(file("{" + u8("a", 0, 1) + "," + u8("b", 2, 3) + "}", "xyz"),
                "after a hole");
  expectInvalid(file("{" + u8("a", 1, 3) + "}", "xyz"), "after a hole");
  expectInvalid(file("{" + u8("a", 0, 2) + "}", "xyz"), "the file has 3");
  expectInvalid(file("{" + u8("a", 0, 4) + "}", "xyz"), "the file has 3");
}

TEST(SafeTensors, RefusesSizesThatAreNotShapeTimesType) {
  expectInvalid(file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
                     "\"data_offsets\":[0,4]}}",
                     "1234"),
                "takes 8 bytes");
  expectInvalid(file("{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,"
                     "4],\"data_offsets\":[0,0]}}",
                     ""),
                "impossible shape");
  expectInvalid(file("{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],"
                     "\"data_offsets\":[0,1]}}",
                     "x"),
                "impossible shape");
  expectInvalid(file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                     "\"data_offsets\":[1,0]}}",
                     "x"),
                "impossible data_offsets");
  expectInvalid(file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                     "\"data_offsets\":[0,18446744073709551616]}}",
                     "x"),
                "impossible data_offsets");
}

TEST(SafeTensors, RefusesBadHeaders) {
  expectInvalid(file("[1]", ""), "'{'");
  expectInvalid(file(" {}", ""), "'{'");
  expectInvalid(file("{", ""), "not a JSON object");
  expectInvalid(file("{\"a\":1}", ""), "lacks dtype");
  expectInvalid(file("{\"__metadata__\":{\"a\":1}}", ""), "map of strings");
  expectInvalid(
      file("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}",
           ""),
      "nested");
  expectInvalid(std::string(8, '\xff') + "{}", "18446744073709551615");
  expectInvalid(std::string("\x10\0\0\0\0\0\0\0{}", 10), "truncated");
}

TEST(SafeTensors, DoesNotKnowEveryType) {
  expectFailure(parse(file("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],"
                           "\"data_offsets\":[0,1]}}",
                           "x"))
                    .status(),
                StatusCode::Unsupported, "F8_E4M3");
}

TEST(SafeTensors, RefusesEveryTruncation) {
  const std::string whole =
      file("{" + u8("a", 0, 2) + "," + u8("b", 2, 3) + "}", "xyz");
  ASSERT_TRUE(parse(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(parse(whole.substr(0, size)).status().getCode(),
              StatusCode::InvalidInput)
        << size;
}

TEST(SafeTensors, SurvivesEveryBitFlip) {
  const std::string whole = file("{" + u8("a", 0, 2) + "}", "xy");
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    StatusOr<std::vector<Array>> arrays = parse(flipped);
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
