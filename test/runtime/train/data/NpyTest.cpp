// Tests strict reading of .npy files.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/Npy.h"

namespace mpc::runtime::train {
namespace {

/// A version 1.0 file with the header literal `literal`.
std::string npy(const std::string &literal, const std::string &bytes) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += char((literal.size() + 1) & 0xff);
  text += char((literal.size() + 1) >> 8);
  return text + literal + "\n" + bytes;
}

std::string header(const std::string &descr, const std::string &order,
                   const std::string &shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }";
}

StatusOr<Array> parseFile(const std::string &file) {
  return parseNpy(bytesOf(file), file.size(), nullptr, "a.npy");
}

/// Expects an InvalidInput error that names the file and contains `text`.
void expectInvalidFile(const std::string &file, const std::string &text) {
  StatusOr<Array> array = parseFile(file);
  expectFailure(array.status(), StatusCode::InvalidInput, text);
  EXPECT_EQ(array.status().message().find("a.npy: "), 0u);
}

TEST(Npy, ReadsAMatrixInPlace) {
  const std::string file = npy(header("<u2", "False", "(2, 3)"),
                               std::string("\1\0\2\0\3\0\4\0\5\0\6\0", 12));
  StatusOr<Array> array = parseFile(file);
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->type, ElementType::U16);
  EXPECT_EQ(array->shape, (Shape{2, 3}));
  EXPECT_EQ(array->data, bytesOf(file) + file.size() - 12);
}

TEST(Npy, ReadsScalarsVectorsAndEmptyArrays) {
  EXPECT_EQ(parseFile(npy(header("|u1", "False", "()"), "a"))->shape, Shape{});
  EXPECT_EQ(parseFile(npy(header("|b1", "False", "(2,)"), "ab"))->shape,
            Shape{2});
  EXPECT_EQ(parseFile(npy(header("<f8", "False", "(0, 7)"), ""))->shape,
            (Shape{0, 7}));
}

TEST(Npy, ReadsHeadersWithKeysInAnyOrderAndEitherQuote) {
  const std::string file = npy("{\"shape\":(1,),\"descr\":\"|i1\","
                               "\"fortran_order\":False}   ",
                               "x");
  EXPECT_EQ(parseFile(file)->type, ElementType::I8);
}

TEST(Npy, ReadsVersionTwoHeaders) {
  const std::string literal = header("|u1", "False", "(1,)");
  std::string file("\x93NUMPY\x02\x00", 8);
  file += char(literal.size());
  file += std::string(3, '\0') + literal + "x";
  EXPECT_EQ(parseFile(file)->shape, Shape{1});
}

TEST(Npy, ConvertsBigEndian) {
  StatusOr<Array> array =
      parseFile(npy(header(">i4", "False", "(2,)"),
                    std::string("\0\0\0\1\xff\xff\xff\xfe", 8)));
  StatusOr<Tensor> tensor = toTensor(*array, DType::I64);
  EXPECT_EQ(tensor->as<int64_t>()[0], 1);
  EXPECT_EQ(tensor->as<int64_t>()[1], -2);
}

TEST(Npy, ConvertsFortranOrder) {
  // Column-major: (0,0) (1,0) (0,1) (1,1) (0,2) (1,2).
  StatusOr<Array> array =
      parseFile(npy(header("|u1", "True", "(2, 3)"), "adbecf"));
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(array->data), 6),
            "abcdef");
}

TEST(Npy, ConvertsFortranOrderOfThreeDimensions) {
  std::string bytes;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i)
        bytes += char(i * 12 + j * 4 + k);
  StatusOr<Array> array =
      parseFile(npy(header("|u1", "True", "(2, 3, 4)"), bytes));
  for (int i = 0; i < 24; ++i)
    EXPECT_EQ(int(array->data[i]), i);
}

/// Expects an array without values, whose fault contains `text`.
void expectUnread(const std::string &file, const std::string &type,
                  const std::string &text) {
  StatusOr<Array> array = parseFile(file);
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(typeNameOf(*array), type);
  EXPECT_EQ(array->shape, Shape{2});
  EXPECT_EQ(array->data, nullptr);
  expectFailure(unpack(*array), StatusCode::InvalidInput, text);
  expectFailure(toTensor(*array, DType::F32).status(), StatusCode::InvalidInput,
                text);
}

TEST(Npy, KnowsTypesWhoseValuesItDoesNotRead) {
  expectUnread(npy(header("<U3", "False", "(2,)"), std::string(24, 'x')),
               "text", "a.npy: element type '<U3' is not one of bool");
  expectUnread(npy(header("|S3", "False", "(2,)"), "abcdef"), "text",
               "this is text");
  expectUnread(npy(header("<U0", "False", "(2,)"), ""), "text", "'<U0'");
  expectUnread(npy(header("|O", "False", "(2,)"), "pickle"), "object",
               "object arrays (pickled Python) are not read");
  expectUnread(npy("{'descr': [('a', '<f4'), ('b ]', [('c', '|u1')], (2,))], "
                   "'fortran_order': False, 'shape': (2,)}",
                   "xxxx"),
               "structure", "structured");
  expectUnread(npy(header("<c4", "False", "(2,)"), "12345678"), "complex",
               "'<c4'");
  expectUnread(npy(header("<M8[ns]", "False", "(2,)"), std::string(16, 'x')),
               "time", "'<M8[ns]'");
  expectUnread(npy(header("|V2", "False", "(2,)"), "1234"), "bytes", "'|V2'");
  expectUnread(npy(header("<f16", "False", "(2,)"), std::string(32, 'x')),
               "f128", "'<f16'");
}

TEST(Npy, ChecksTheSizeOfValuesThatItDoesNotRead) {
  expectInvalidFile(npy(header("<U3", "False", "(2,)"), "abcdef"),
                    "shape 2 of text takes 24 bytes, the file has 6");
  expectInvalidFile(
      npy(header("<U9223372036854775807", "False", "(2,)"), "abcdef"),
      "'<U9223372036854775807'");
  expectInvalidFile(npy(header("|S-1", "False", "(2,)"), ""), "'|S-1'");
  for (const char *type : {"", "<", "x4", "<U", "<U3x", "O4", "f", "<q8"})
    expectInvalidFile(npy(header(type, "False", "(2,)"), "12345678"),
                      "element type '" + std::string(type) + "' is not one");
  expectInvalidFile(npy("{'descr': [('a', '<f4'), 'fortran_order'", "xxxx"),
                    "neither a string nor a list of fields");
}

TEST(Npy, RefusesEveryTruncation) {
  const std::string file =
      npy(header("<f4", "False", "(2, 2)"), std::string(16, 'x'));
  ASSERT_TRUE(parseFile(file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    // A copy of exactly that size lets a sanitizer find reads beyond it.
    const std::vector<char> part(file.begin(), file.begin() + long(size));
    StatusOr<Array> array =
        parseNpy(reinterpret_cast<const std::byte *>(part.data()), size,
                 nullptr, "a.npy");
    EXPECT_EQ(array.status().getCode(), StatusCode::InvalidInput) << size;
  }
}

TEST(Npy, RefusesBytesBeyondTheArray) {
  expectInvalidFile(npy(header("<f4", "False", "(1,)"), "12345"), "has 5");
}

TEST(Npy, RefusesShapesThatOverflow) {
  expectInvalidFile(
      npy(header("<f8", "False", "(4611686018427387904, 4)"), "12345678"),
      "over 2^63");
  expectInvalidFile(npy(header("<f8", "False", "(99999999999999999999,)"), ""),
                    "shape");
  expectInvalidFile(npy(header("<f8", "False", "(-1,)"), ""), "shape");
}

TEST(Npy, RefusesHeadersThatAreNotTheDictionary) {
  expectInvalidFile(npy("__import__('os').system('true')", ""), "'{'");
  expectInvalidFile(npy("{'descr': '<f4', 'descr': '<f4'}", ""), "twice");
  expectInvalidFile(npy("{'descr': '<f4', 'shape': (1,)}", "1234"),
                    "expected the keys");
  expectInvalidFile(
      npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", ""),
      "neither True nor False");
  expectInvalidFile(npy("{'descr': '<f4', 'x': 1}", ""), "unknown key 'x'");
  expectInvalidFile(npy(header("|u1", "False", "(1,)") + "garbage", "x"),
                    "after the dictionary");
  expectInvalidFile(npy(header("|u1", "False", "(1)"), "x"), "not a tuple");
  expectInvalidFile(npy(header("|u1", "False", "(1 1)"), "x"), "tuple");
}

TEST(Npy, RefusesAGiganticHeader) {
  std::string file("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  expectInvalidFile(file + std::string(100, ' '), "4294967295");
}

TEST(Npy, RefusesOtherFilesAndVersions) {
  expectInvalidFile("PK\3\4", "\\x93NUMPY");
  expectInvalidFile(std::string("\x93NUMPY\x09\x00\0\0", 10), "version 9");
}

TEST(Npy, SurvivesEveryBitFlip) {
  const std::string file =
      npy(header("<f4", "False", "(2, 2)"), std::string(16, 'x'));
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    StatusOr<Array> array = parseFile(flipped);
    // Accepted data lies inside the file.
    if (array.ok() && !array->owner) {
      EXPECT_LE(array->data + array->bytes(),
                bytesOf(flipped) + flipped.size());
    }
  }
}

TEST(Npy, WritesWhatItReads) {
  TemporaryDirectory directory;
  const Array array =
      makeArray<double>("d", ElementType::F64, {1, 3}, {1.5, -2.25, 1e300});
  ASSERT_TRUE(writeArrays(directory / "d.npy", {array}).ok());
  StatusOr<std::vector<Array>> read = readArrays(directory / "d.npy");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ((*read)[0].name, "d");
  EXPECT_EQ((*read)[0].shape, (Shape{1, 3}));
  EXPECT_EQ(toTensor((*read)[0])->bytes, toTensor(array)->bytes);
  // NumPy maps files whose data begin at a multiple of 64.
  EXPECT_EQ(readFile(directory / "d.npy").size() % 64, 24u);
}

TEST(Npy, CannotBeWrittenInBF16) {
  TemporaryDirectory directory;
  const Array array =
      makeArray<uint16_t>("b", ElementType::BF16, {1}, {0x3f80});
  expectFailure(writeArrays(directory / "b.npy", {array}),
                StatusCode::Unsupported, ".safetensors");
}

TEST(ArrayFile, SaysWhatAFileIsNot) {
  TemporaryDirectory directory;
  writeFile(directory / "a", "version https://git-lfs.github.com/spec/v1\n");
  writeFile(directory / "b", "");
  expectFailure(readArrays(directory / "a").status(), StatusCode::InvalidInput,
                "Git LFS");
  expectFailure(readArrays(directory / "b").status(), StatusCode::InvalidInput,
                "empty");
  expectFailure(readArrays(directory / "c").status(), StatusCode::IO,
                "cannot open");
  expectFailure(readArrays(directory.path).status(), StatusCode::IO,
                "not a regular file");
}

} // namespace
} // namespace mpc::runtime::train
