// Tests files, patterns, tables and folders as arguments of --data.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/BatchLoader.h"
#include "runtime/train/data/DataFiles.h"

#include <filesystem>
#include <png.h>

namespace mpc::runtime::train {
namespace {

/// A regression model of rows of three features.
FunctionPorts rowPorts() {
  return {{{"x", Role::Data, DType::F32, {2, 3}},
           {"y", Role::Label, DType::F32, {2, 1}}},
          {}};
}

/// A PNG file in which all pixels differ.
std::string makePNG(uint32_t width, uint32_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = uint8_t(3 * i);
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  EXPECT_TRUE(png_image_write_to_memory(&image, bytes.data(), &size, 0,
                                        pixels.data(), 0, nullptr));
  bytes.resize(size);
  return bytes;
}

StatusOr<Dataset> openFiles(const std::vector<std::string> &files,
                            const FunctionPorts &ports,
                            const std::vector<std::string> &columns = {}) {
  DataFileOptions options;
  options.csvColumns = columns;
  StatusOr<std::vector<Array>> arrays = readDataFiles(files, options);
  if (!arrays.ok())
    return arrays.status();
  return Dataset::create(*arrays, ports);
}

std::vector<double> targetsOf(const Dataset &data) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < data.size(); ++i)
    positions.push_back(i);
  return data.targets(positions.data(), data.size(), "y");
}

TEST(DataFiles, PatternsStandForFilesByName) {
  TemporaryDirectory directory;
  for (const char *name : {"p-1.npy", "p-0.npy", "q.npy"})
    ASSERT_TRUE(writeArrays(directory / name,
                            {makeArray<float>("a", ElementType::F32, {1}, {1})})
                    .ok());
  StatusOr<std::vector<std::string>> files =
      expandPatterns({"x=" + (directory / "p-*.npy"), directory / "q.npy"});
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(*files, (std::vector<std::string>{"x=" + (directory / "p-0.npy"),
                                              "x=" + (directory / "p-1.npy"),
                                              directory / "q.npy"}));
  expectFailure(expandPatterns({directory / "r-*.npy"}).status(),
                StatusCode::IO, "r-*.npy: no file has such a name");
  // A file of exactly this name takes precedence over the pattern.
  writeFile(directory / "r-*.npy", "");
  EXPECT_EQ(expandPatterns({directory / "r-*.npy"})->size(), 1u);
}

TEST(DataFiles, TheOnlyInputTakesTheColumnsThatAreLeft) {
  TemporaryDirectory directory;
  writeFile(directory / "t.csv", "a,target,b,c\n1,10,2,3\n4,20,5,6\n");
  StatusOr<Dataset> data = openFiles({directory / "t.csv"}, rowPorts());
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(targetsOf(*data), (std::vector<double>{10, 20}));
  EXPECT_TRUE(data->notes().empty());
  // An explicit choice gives the same data.
  StatusOr<Dataset> chosen =
      openFiles({directory / "t.csv"}, rowPorts(), {"x=a,b:c"});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->fingerprint(), data->fingerprint());
}

TEST(DataFiles, SaysHowManyColumnsThereAreToChooseFrom) {
  TemporaryDirectory directory;
  const std::string path = directory / "t.csv";
  writeFile(path, "a,b,target\n1,2,3\n");
  expectInvalid(openFiles({path}, rowPorts()),
                "t.csv: 2 columns are left for the input 'x', which takes 3: "
                "'a', 'b'; choose with --csv-columns x=...");
  expectInvalid(openFiles({path}, rowPorts(), {"x=a,d"}),
                "t.csv: --csv-columns x=a,d: no column is called 'd'; the file "
                "has 'a', 'b', 'target'");
  expectFailure(openFiles({path}, rowPorts(), {"a,b"}).status(),
                StatusCode::Usage, "expected NAME=COLUMNS");
  writeFile(path, "a,b,c,y\n1,2,3,4\n");
  EXPECT_TRUE(openFiles({path}, rowPorts()).ok());
}

TEST(DataFiles, InputsOfOneElementTakeTheColumnsOfTheirNames) {
  TemporaryDirectory directory;
  const std::string path = directory / "t.csv";
  writeFile(path, "name,age,height,target,zip\nann,1,2,0,x\nbob,3,4,1,y\n");
  FunctionPorts ports{{{"height", Role::Data, DType::F32, {2, 1}},
                       {"age", Role::Data, DType::I64, {2}},
                       {"label", Role::Label, DType::I64, {2}}},
                      {}};
  StatusOr<Dataset> data = openFiles({path}, ports);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->notes(),
            std::vector<std::string>{path + ": no input takes 'name', 'zip'"});
  ports.inputs[0].name = "name";
  expectInvalid(openFiles({path}, ports),
                "t.csv: line 2, column 'name': 'ann' is "
                "not a finite number");
  ports.inputs[0].name = "weight";
  ports.inputs[1].name = "shoes";
  expectInvalid(openFiles({path}, ports),
                "no array is called 'weight', which the model takes as data; "
                "the data has 'name', 'age', 'height', 'target', 'zip'; help: "
                "say which columns it takes, --csv-columns weight=...");
}

TEST(DataFiles, ColumnsTakeTheShapeOfTheInput) {
  TemporaryDirectory directory;
  const std::string path = directory / "t.csv";
  writeFile(path, "target,p0,p1,p2,p3\n1,1,2,3,4\n0,5,6,7,8\n");
  const FunctionPorts ports{{{"x", Role::Data, DType::F32, {2, 1, 2, 2}},
                             {"label", Role::Label, DType::I64, {2}}},
                            {}};
  EXPECT_TRUE(openFiles({path}, ports).ok());
}

TEST(DataFiles, JoinsTablesOfTheSameColumns) {
  TemporaryDirectory directory;
  writeFile(directory / "1.csv", "a,b,c,target\n1,2,3,4\n");
  writeFile(directory / "2.csv", "a,b,c,target\n5,6,7,8\n9,9,9,9\n");
  StatusOr<Dataset> data = openFiles({directory / "*.csv"}, rowPorts());
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(targetsOf(*data), (std::vector<double>{4, 8, 9}));
  writeFile(directory / "2.csv", "a,c,b,target\n5,6,7,8\n");
  expectInvalid(openFiles({directory / "*.csv"}, rowPorts()),
                "2.csv: has other columns than " + (directory / "1.csv"));
}

TEST(DataFiles, AFileThatIsThereTwiceIsAMistake) {
  TemporaryDirectory directory;
  const std::string path = directory / "1.csv";
  writeFile(path, "a,b,c,target\n1,2,3,4\n");
  expectInvalid(openFiles({path, path}, rowPorts()),
                "1.csv: a: two arrays have this name");
}

TEST(DataFiles, FoldersOfImagesNeedAnInput) {
  TemporaryDirectory directory;
  EXPECT_TRUE(Dataset::checkFiles({"x=" + directory.path}).ok());
  std::filesystem::create_directory(directory / "cat");
  writeFile(directory / "cat/a.png", "");
  // If the inputs are known, a folder needs no name.
  EXPECT_TRUE(Dataset::checkFiles({directory.path}).ok());
  StatusOr<std::vector<Array>> nameless = readDataFiles({directory.path});
  ASSERT_TRUE(nameless.ok()) << nameless.status().message();
  ASSERT_EQ(nameless->size(), 2u);
  EXPECT_EQ(nameless->at(0).name, "");
  EXPECT_EQ(nameless->at(1).name, "target");
  expectInvalid(openFiles({"x=" + directory.path}, rowPorts()),
                "images are for inputs [N,1,H,W] or [N,3,H,W]; the model's 'x' "
                "is [N,3] f32");
}

/// Accepts any input, and keeps the value of the one called "x".
class PixelReceiver : public ToyModel {
public:
  Status setInput(std::string_view, std::string_view name, const void *bytes,
                  size_t size) override {
    const auto *from = static_cast<const std::byte *>(bytes);
    if (name == "x")
      received.assign(from, from + size);
    return Status();
  }
  std::vector<std::byte> received;
};

TEST(DataFiles, ImagesTooManyForMemoryAreDecodedWhenTheyAreUsed) {
  TemporaryDirectory directory;
  for (const char *name : {"cat", "dog"}) {
    std::filesystem::create_directories(directory / name);
    for (uint32_t i = 0; i < 3; ++i)
      writeFile(directory / (name + ("/" + std::to_string(i)) + ".png"),
                makePNG(3 + i, 4));
  }
  PixelReceiver model;
  const FunctionPorts ports{{{"x", Role::Data, DType::F32, {4, 3, 5, 4}},
                             {"target", Role::Label, DType::I64, {4}}},
                            {}};
  model.description.functions["feed"] = ports;
  DatasetOptions before, later;
  before.preparation = later.preparation =
      *parsePreparation({"0.5:0.5"}, {}, "flip,crop:1", 3);
  later.preparation.decodedBytes = 6 * 60 - 1;
  const auto open = [&](const DatasetOptions &options) {
    return Dataset::create(*readDataFiles({"x=" + directory.path}), ports,
                           options);
  };
  StatusOr<Dataset> first = open(before), second = open(later);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(second.ok()) << second.status().message();
  const std::vector<int64_t> positions{5, 0, 3, 2};
  ASSERT_TRUE(first->bind(model, "feed", positions.data(), 1).ok());
  const std::vector<std::byte> pixels = model.received;
  ASSERT_TRUE(second->bind(model, "feed", positions.data(), 1).ok());
  EXPECT_EQ(model.received, pixels);
  EXPECT_EQ(second->fingerprint(), open(later)->fingerprint());
  // Images that a loader has decoded, or that it does not know, are ready too.
  EXPECT_FALSE(first->isDecodedLater());
  EXPECT_TRUE(second->isDecodedLater());
  for (const bool isForeseen : {true, false}) {
    BatchLoader loader;
    const std::vector<int64_t> others{0, 1, 2, 3};
    loader.prepare(*second, model, "feed", [&] {
      return BatchSamples{isForeseen ? positions : others, /*epoch=*/1};
    });
    model.received.clear();
    ASSERT_TRUE(loader.bind(*second, model, "feed", positions.data(), 1).ok());
    EXPECT_EQ(model.received, pixels);
  }
  // Damage behind the header is found when the image is used.
  const std::string bytes = readFile(directory / "dog/0.png");
  writeFile(directory / "dog/0.png", bytes.substr(0, bytes.size() - 20));
  expectFailure(open(before).status(), StatusCode::InvalidInput, "dog/0.png");
  second = open(later);
  ASSERT_TRUE(second.ok()) << second.status().message();
  expectFailure(second->bind(model, "feed", positions.data()),
                StatusCode::InvalidInput, "dog/0.png");
  BatchLoader loader;
  loader.prepare(*second, model, "feed", [&] {
    return BatchSamples{positions, /*epoch=*/1};
  });
  expectFailure(loader.bind(*second, model, "feed", positions.data(), 1),
                StatusCode::InvalidInput, "dog/0.png");
  writeFile(directory / "dog/0.png", "no image");
  expectFailure(open(later).status(), StatusCode::InvalidInput, "dog/0.png");
}

TEST(DataFiles, CountsTheSamplesOfAnInput) {
  const Array part =
      makeArray<float>("x", ElementType::F32, {2, 3}, std::vector<float>(6));
  EXPECT_EQ(countSamples({part, part}, "x"), 4);
  EXPECT_EQ(countSamples({part, part}, "x", 1), 6);
  EXPECT_EQ(countSamples({part}, "y"), 0);
  TemporaryDirectory directory;
  writeFile(directory / "1.csv", "name,a,b\nann,1,2\n");
  writeFile(directory / "2.csv", "name,a,b\nbob,1,2\neve,3,4\n");
  // Columns side by side, whatever the input's name.
  EXPECT_EQ(countSamples(*readDataFiles({directory / "*.csv"}), "x"), 3);
  std::filesystem::create_directory(directory / "cat");
  writeFile(directory / "cat/a.png", "");
  EXPECT_EQ(countSamples(*readDataFiles({"x=" + directory.path}), "x"), 1);
}

TEST(DataFiles, LabelsOfTwoFoldersMustBeTheSame) {
  TemporaryDirectory directory;
  for (const char *name : {"1/cat", "1/dog", "2/dog"}) {
    std::filesystem::create_directories(directory / name);
    writeFile(directory / (std::string(name) + "/a.png"), "");
  }
  const auto read = [&](const char *name) {
    return *readDataFiles({std::string("x=") + (directory / name)});
  };
  EXPECT_TRUE(checkSameLabels(read("1"), read("1")).ok());
  expectFailure(checkSameLabels(read("1"), read("2")), StatusCode::InvalidInput,
                "has other labels than");
}

} // namespace
} // namespace mpc::runtime::train
