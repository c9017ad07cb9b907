// Tests valid and hostile archives of arrays.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/TemporaryFile.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/Npz.h"

#include <unistd.h>
#include <zip.h>

namespace mpc::runtime::train {
namespace {

const std::vector<Array> &twoArrays() {
  static const std::vector<Array> arrays{
      makeArray<float>("x", ElementType::F32, {2, 2}, {1, 2, 3, 4}),
      makeArray<int64_t>("target", ElementType::I64, {2}, {7, -8}),
  };
  return arrays;
}

StatusOr<std::vector<Array>> parseArchive(const std::string &bytes,
                                          uint64_t limit = 1 << 20) {
  StatusOr<std::vector<Array>> arrays =
      parseNpz(bytesOf(bytes), bytes.size(), nullptr, "a.npz", limit);
  for (size_t i = 0; arrays.ok() && i < arrays->size(); ++i)
    if (Status status = unpack((*arrays)[i]); !status.ok())
      return status;
  return arrays;
}

/// Writes an archive of raw members through libzip.
void writeZip(const std::string &path,
              const std::vector<std::pair<std::string, std::string>> &members) {
  zip_t *archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto &[name, bytes] : members)
    zip_file_add(archive, name.c_str(),
                 zip_source_buffer(archive, bytes.data(), bytes.size(), 0), 0);
  ASSERT_EQ(zip_close(archive), 0);
}

TEST(Npz, WritesWhatItReads) {
  StatusOr<std::string> packed = packNpz(twoArrays());
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  StatusOr<std::vector<Array>> arrays = parseArchive(*packed);
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*arrays)[i].name, twoArrays()[i].name);
    EXPECT_EQ((*arrays)[i].shape, twoArrays()[i].shape);
    EXPECT_EQ(toTensor((*arrays)[i])->bytes, toTensor(twoArrays()[i])->bytes);
  }
}

TEST(Npz, ReplacesWhatAKilledProcessLeft) {
  TemporaryDirectory directory;
  const std::string path = directory / "a.npz";
  writeFile(temporaryPathOf(path), "half of it");
  const Array array = makeArray<float>("a", ElementType::F32, {2}, {1, 2});
  Status status = writeArrays(path, {array});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(readArrays(path).ok());
  EXPECT_NE(access(temporaryPathOf(path).c_str(), F_OK), 0);
}

TEST(Npz, LeavesWhatAnotherProcessWrites) {
  TemporaryDirectory directory;
  const std::string path = directory / "a.npz";
  const TemporaryFile other = createTemporaryFile(path);
  ASSERT_GE(other.file, 0);
  const Array array = makeArray<float>("a", ElementType::F32, {2}, {1, 2});
  Status status = writeArrays(path, {array});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(readArrays(path).ok());
  EXPECT_EQ(access(other.path.c_str(), F_OK), 0);
  close(other.file);
}

TEST(Npz, PacksEqualArraysIntoEqualBytes) {
  EXPECT_EQ(*packNpz(twoArrays()), *packNpz(twoArrays()));
}

TEST(Npz, ReadsDeflatedMembersAndIgnoresOthers) {
  TemporaryDirectory directory;
  ASSERT_TRUE(writeArrays(directory / "x.npy", {twoArrays()[0]}).ok());
  writeZip(directory / "a.npz",
           {{"x.npy", readFile(directory / "x.npy")}, {"README", "text"}});
  StatusOr<std::vector<Array>> arrays = readArrays(directory / "a.npz");
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 1u);
  EXPECT_EQ((*arrays)[0].name, "x");
}

TEST(Npz, RefusesMoreThanTheLimitBeforeInflating) {
  TemporaryDirectory directory;
  // 64 MiB of zeros deflate to 64 KiB.
  const Array zeros = makeArray<uint8_t>("bomb", ElementType::U8, {1 << 26},
                                         std::vector<uint8_t>(1 << 26));
  ASSERT_TRUE(writeArrays(directory / "b.npy", {zeros}).ok());
  writeZip(directory / "bomb.npz", {{"b.npy", readFile(directory / "b.npy")}});
  ReadLimits limits;
  limits.archiveBytes = 1 << 24;
  EXPECT_LT(readFile(directory / "bomb.npz").size(), size_t(1) << 20);
  expectFailure(readArrays(directory / "bomb.npz", limits).status(),
                StatusCode::InvalidInput, "more than 16777216 bytes");
}

TEST(Npz, InflatesWhatIsUsedAlone) {
  TemporaryDirectory directory;
  const std::vector<uint8_t> many(200000, 0x5a);
  ASSERT_TRUE(
      writeArrays(directory / "a.npz",
                  {makeArray("used", ElementType::U8, {100, 2000}, many),
                   makeArray("other", ElementType::U8, {200000}, many)})
          .ok());
  // The last value of the second member is damaged, but not read.
  std::string bytes = readFile(directory / "a.npz");
  bytes[bytes.rfind('\x5a')] = '\0';
  writeFile(directory / "b.npz", bytes);
  StatusOr<std::vector<Array>> arrays = readPackedArrays(directory / "b.npz");
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  Array &used = arrays->at(0), &other = arrays->at(1);
  EXPECT_EQ(used.data, nullptr);
  EXPECT_EQ(used.shape, Shape({100, 2000}));
  EXPECT_EQ(used.type, ElementType::U8);
  // Copies share the values and stay valid when the original goes.
  Array copy = used;
  ASSERT_TRUE(unpack(used).ok());
  ASSERT_TRUE(unpack(copy).ok());
  EXPECT_EQ(used.data, copy.data);
  EXPECT_EQ(used.data[199999], std::byte(0x5a));
  expectFailure(unpack(other), StatusCode::InvalidInput,
                "b.npz:other.npy: corrupt");
  expectFailure(toTensor(other).status(), StatusCode::InvalidInput,
                "b.npz:other.npy: corrupt");
  expectFailure(readArrays(directory / "b.npz").status(),
                StatusCode::InvalidInput, "b.npz:other.npy: corrupt");
}

TEST(Npz, CountsTheMembersTogether) {
  // Two members, each below the limit, exceed the limit together.
  std::string packed = *packNpz(
      {makeArray("a", ElementType::U8, {100}, std::vector<uint8_t>(100)),
       makeArray("b", ElementType::U8, {100}, std::vector<uint8_t>(100))});
  EXPECT_TRUE(parseArchive(packed, 1000).ok());
  expectFailure(parseArchive(packed, 300).status(), StatusCode::InvalidInput,
                "more than 300 bytes");
}

TEST(Npz, RefusesEveryTruncation) {
  const std::string packed = *packNpz(twoArrays());
  for (size_t size = 0; size < packed.size(); ++size) {
    const std::string part = packed.substr(0, size);
    EXPECT_FALSE(parseArchive(part).ok()) << size;
  }
}

TEST(Npz, SurvivesEveryByteFlippedAndNoticesDamagedContents) {
  const std::string packed = *packNpz(twoArrays());
  for (size_t byte = 0; byte < packed.size(); ++byte) {
    std::string flipped = packed;
    flipped[byte] = char(~flipped[byte]);
    StatusOr<std::vector<Array>> arrays = parseArchive(flipped);
    if (!arrays.ok())
      continue;
    // An accepted archive has the original arrays.
    for (const Array &array : *arrays)
      for (const Array &original : twoArrays())
        if (array.name == original.name) {
          EXPECT_EQ(toTensor(array)->bytes, toTensor(original)->bytes) << byte;
        }
  }
}

TEST(Npz, NamesTheMemberThatIsNoArray) {
  TemporaryDirectory directory;
  writeZip(directory / "a.npz", {{"x.npy", "not an array"}});
  expectFailure(readArrays(directory / "a.npz").status(),
                StatusCode::InvalidInput, "a.npz:x.npy: not a .npy file");
}

} // namespace
} // namespace mpc::runtime::train
