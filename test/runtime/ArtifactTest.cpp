// Tests opening artifacts: valid files, and every kind of invalid file.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/ELFFile.h"
#include "test/runtime/ArtifactBuilder.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

ArtifactBuilder smallArtifact() {
  ArtifactBuilder builder;
  builder.state("w", floats({2}, {1, 2}));
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {2});
  size_t sum = step.arena(DType::F32, {2});
  step.launch("add", {x, step.state("w"), sum}, 2, 1);
  step.output("sum", sum);
  return builder;
}

/// An artifact without code, and therefore small.
Bytes smallFile() {
  ArtifactBuilder builder = smallArtifact();
  builder.describeKernels();
  return appendSections(emptyLibrary(), builder.plan.dump(), builder.data);
}

StatusCode openCode(const Bytes &bytes) {
  auto artifact = Artifact::fromBytes(bytes.data(), bytes.size());
  return artifact.status().getCode();
}

TEST(Artifact, OpensAWholeFile) {
  Bytes bytes = smallFile();
  auto artifact = Artifact::fromBytes(bytes.data(), bytes.size(), "name");
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->name(), "name");
  EXPECT_EQ((*artifact)->fileBytes(), bytes.size());
  const Plan &plan = (*artifact)->plan();
  ASSERT_NE(plan.findState("w"), nullptr);
  const StateVariable &state = *plan.findState("w");
  EXPECT_EQ(state.shape, Shape{2});
  float second;
  std::memcpy(&second, (*artifact)->data() + state.data->offset + 4, 4);
  EXPECT_EQ(second, 2);
  EXPECT_NE((*artifact)->planText().find("\"functions\""),
            std::string_view::npos);
}

TEST(Artifact, OpensAPathAndLoadsItsKernels) {
  std::string path = ::testing::TempDir() + "opens_a_path.mpc";
  Bytes bytes = smallArtifact().build();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  auto artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_TRUE((*artifact)->kernel("add").ok());
  auto missing = (*artifact)->kernel("subtract");
  EXPECT_EQ(missing.status().getCode(), StatusCode::InvalidInput);
  EXPECT_NE(missing.status().message().find("subtract"), std::string::npos);

  // A new file at the same path is another artifact.
  ArtifactBuilder other = smallArtifact();
  other.plan["producer"] = "other";
  bytes = other.build();
  std::remove(path.c_str());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  auto second = Artifact::open(path);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*(*second)->kernel("add"), *(*artifact)->kernel("add"));
  std::remove(path.c_str());
}

TEST(Artifact, KernelsAreItsOwnWhateverWasLoadedBefore) {
  std::string path = ::testing::TempDir() + "kernels_are_its_own.mpc";
  Bytes bytes = smallArtifact().build();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  // The loader knows the file's code under two names, one per opening. It keeps
  // the code while either artifact lives.
  auto first = Artifact::open(path);
  auto again = Artifact::open(path);
  std::remove(path.c_str());
  ASSERT_TRUE(first.ok() && again.ok());
  void *kernel = *(*first)->kernel("add");
  ASSERT_TRUE((*again)->kernel("add").ok());
  again = Status(StatusCode::Usage, "closed");

  // Reuses the free descriptor and with it the second name.
  auto other = smallArtifact().open();
  EXPECT_NE(*other->kernel("add"), kernel);
}

TEST(Artifact, MissingFileIsAnIOError) {
  auto artifact = Artifact::open("/nonexistent/model.mpc");
  EXPECT_EQ(artifact.status().getCode(), StatusCode::IO);
  EXPECT_NE(artifact.status().message().find("/nonexistent/model.mpc"),
            std::string::npos);
}

TEST(Artifact, DirectoriesAndDevicesAreRefused) {
  EXPECT_EQ(Artifact::open("/tmp").status().getCode(),
            StatusCode::InvalidInput);
  EXPECT_EQ(Artifact::open("/dev/zero").status().getCode(),
            StatusCode::InvalidInput);
}

TEST(Artifact, EveryFlippedBitIsNoticed) {
  Bytes bytes = smallFile();
  ASSERT_EQ(openCode(bytes), StatusCode::Done);
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit : {0, 3, 7}) {
      auto mask = static_cast<std::byte>(1 << bit);
      bytes[i] ^= mask;
      ASSERT_EQ(openCode(bytes), StatusCode::InvalidInput) << "byte " << i;
      bytes[i] ^= mask;
    }
}

TEST(Artifact, EveryTruncationIsNoticed) {
  Bytes bytes = smallFile();
  while (!bytes.empty()) {
    bytes.pop_back();
    ASSERT_EQ(openCode(bytes), StatusCode::InvalidInput) << bytes.size();
  }
}

TEST(Artifact, ForeignFilesAreRefusedByName) {
  auto refusal = [](const Bytes &bytes) {
    return Artifact::fromBytes(bytes.data(), bytes.size(), "f")
        .status()
        .message();
  };
  EXPECT_EQ(refusal(Bytes(100)),
            "'f': not a .mpc artifact: it does not start as an ELF file does");
  EXPECT_EQ(refusal(kernelLibrary()),
            "'f': not a .mpc artifact: an ELF file without an artifact's "
            "sections");
}

/// The digest is right, but any 8 bytes of the headers are replaced: they must
/// not lead outside the file.
TEST(Artifact, HostileHeadersStayInBounds) {
  Bytes original = smallFile();
  for (size_t i = 0; i + 8 <= original.size(); i += 2)
    for (uint64_t value :
         {uint64_t(0), ~uint64_t(0), uint64_t(1) << 63, uint64_t(1) << 40,
          static_cast<uint64_t>(original.size() - 1)}) {
      Bytes bytes = original;
      std::memcpy(bytes.data() + i, &value, sizeof(value));
      if (auto sections = readELFSections(bytes.data(), bytes.size());
          sections.ok()) {
        bool whole = true;
        for (const ELFSection &section : *sections)
          if (section.name == ".mpc.digest")
            whole = section.bytes == 8;
        if (whole)
          setDigest(bytes);
      }
      StatusCode code = openCode(bytes);
      ASSERT_TRUE(code == StatusCode::Done || code == StatusCode::InvalidInput);
    }
}

TEST(Artifact, AnotherFormatVersionSaysSo) {
  ArtifactBuilder builder = smallArtifact();
  builder.plan["format"] = 99;
  Bytes bytes = builder.build();
  auto artifact = Artifact::fromBytes(bytes.data(), bytes.size());
  EXPECT_EQ(artifact.status().getCode(), StatusCode::InvalidInput);
  EXPECT_NE(artifact.status().message().find("format version 99"),
            std::string::npos);
}

} // namespace
