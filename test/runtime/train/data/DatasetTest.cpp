// Tests matching data to a model: accepted data, and messages for the rest.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/ArrayFile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

namespace mpc::runtime::train {
namespace {

/// The inputs of an image classifier with batches of 2.
FunctionPorts imagePorts(DType labelType = DType::I64) {
  return {{{"x", Role::Data, DType::F32, {2, 1, 2, 2}},
           {"label", Role::Label, labelType, {2}},
           {"learning_rate", Role::Scalar, DType::F32, {}}},
          {}};
}

Array images(int64_t count) {
  return makeArray("x", ElementType::U8, {count, 1, 2, 2},
                   std::vector<uint8_t>(size_t(count * 4), 200));
}

Array labels(const std::string &name, const std::vector<int32_t> &values) {
  return makeArray(name, ElementType::I32, {int64_t(values.size())}, values);
}

DatasetOptions tenClasses() {
  DatasetOptions options;
  options.classes = 10;
  return options;
}

TEST(Dataset, FindsLabelsByTheirInputOrByTheTargetArray) {
  EXPECT_TRUE(
      Dataset::create({images(3), labels("label", {0, 1, 2})}, imagePorts())
          .ok());
  EXPECT_TRUE(
      Dataset::create({images(3), labels("target", {0, 1, 2})}, imagePorts())
          .ok());
  DatasetOptions options;
  options.targetArray = "y";
  StatusOr<Dataset> data =
      Dataset::create({images(3), labels("y", {0, 1, 2}), labels("more", {1})},
                      imagePorts(), options);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->batchSize(), 2);
}

TEST(Dataset, NamesWhatIsMissingAndWhatThereIs) {
  expectInvalid(Dataset::create({images(3), labels("y", {0})}, imagePorts()),
                "no array is called 'label' or 'target', which the model takes "
                "as label; the data has 'x', 'y'; help: name the labels with "
                "--target-array");
  expectInvalid(Dataset::create({labels("target", {0})}, imagePorts()),
                "no array is called 'x', which the model takes as data");
}

/// Accepts and ignores any input.
class Receiver : public ToyModel {
public:
  Status setInput(std::string_view, std::string_view name, const void *bytes,
                  size_t size) override {
    const auto *from = static_cast<const std::byte *>(bytes);
    received[std::string(name)].assign(from, from + size);
    return Status();
  }
  /// The last value of an f32 input.
  std::vector<float> inputOf(const std::string &name) const {
    const std::vector<std::byte> &bytes = received.at(name);
    const auto *values = reinterpret_cast<const float *>(bytes.data());
    return {values, values + bytes.size() / sizeof(float)};
  }

private:
  std::map<std::string, std::vector<std::byte>> received;
};

/// The first batch of `data` for an f32 input called "x".
std::vector<float> firstBatch(const Dataset &data, const FunctionPorts &ports,
                              AugmentedEpoch epoch = {}) {
  Receiver model;
  model.description.functions["feed"] = ports;
  std::vector<int64_t> positions(static_cast<size_t>(data.batchSize()));
  std::iota(positions.begin(), positions.end(), int64_t(0));
  const Status status = data.bind(model, "feed", positions.data(), epoch);
  EXPECT_TRUE(status.ok()) << status.message();
  return model.inputOf("x");
}

/// A model of images, [1,3,2,4], and one channels-last image.
const FunctionPorts kWide{{{"x", Role::Data, DType::F32, {1, 3, 2, 4}},
                           {"y", Role::Label, DType::I64, {1}}},
                          {}};
Array channelsLast() {
  std::vector<uint8_t> values(24);
  std::iota(values.begin(), values.end(), uint8_t(0));
  return makeArray("x", ElementType::U8, {1, 2, 4, 3}, values);
}

TEST(Dataset, TurnsImagesWhoseChannelsAreLast) {
  StatusOr<Dataset> data =
      Dataset::create({channelsLast(), labels("y", {0})}, kWide);
  ASSERT_TRUE(data.ok()) << data.status().message();
  ASSERT_EQ(data->notes().size(), 2u);
  EXPECT_EQ(data->notes()[0], "x: converted from channels last [N,2,4,3] to "
                              "the model's [N,3,2,4]");
  std::vector<float> expected;
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 8; ++i)
      expected.push_back(float(3 * i + c));
  EXPECT_EQ(firstBatch(*data, kWide), expected);
  // Reshaping would fit too, but would mix up the axes.
  Array image = channelsLast();
  image.shape = {1, 4, 2, 3};
  const StatusOr<Dataset> turned =
      Dataset::create({image, labels("y", {0})}, kWide);
  ASSERT_FALSE(turned.ok());
  EXPECT_EQ(turned.status().message().find("help"), std::string::npos);
}

TEST(Dataset, LayoutsThatAreSaidDecide) {
  DatasetOptions options;
  options.preparation = *parsePreparation({}, {"channels-first"}, "", 0);
  expectInvalid(
      Dataset::create({channelsLast(), labels("y", {0})}, kWide, options),
      "x: got [1,2,4,3] u8, the model wants [N,3,2,4] f32 for its "
      "input 'x'; help: channels come before space in ONNX, save "
      "numpy.moveaxis(x, -1, 1) or say --input-layout "
      "x=channels-last");
  // A cube fits in either order.
  const FunctionPorts ports{{{"x", Role::Data, DType::F32, {1, 2, 2, 2}},
                             {"y", Role::Label, DType::I64, {1}}},
                            {}};
  const Array cube = makeArray<float>("x", ElementType::F32, {1, 2, 2, 2},
                                      {0, 1, 2, 3, 4, 5, 6, 7});
  const std::vector<Array> arrays{cube, labels("y", {0})};
  EXPECT_EQ(firstBatch(*Dataset::create(arrays, ports), ports),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  options.preparation = *parsePreparation({}, {"x=channels-last"}, "", 0);
  EXPECT_EQ(firstBatch(*Dataset::create(arrays, ports, options), ports),
            (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
  // Sequences are not transposed without a flag.
  const FunctionPorts lines{{{"x", Role::Data, DType::F32, {1, 2, 3}}}, {}};
  Array line =
      makeArray<float>("x", ElementType::F32, {1, 3, 2}, {0, 1, 2, 3, 4, 5});
  expectInvalid(Dataset::create({line}, lines), "--input-layout");
  EXPECT_EQ(firstBatch(*Dataset::create({line}, lines, options), lines),
            (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

TEST(Dataset, NormalizesAndAugmentsByEpoch) {
  DatasetOptions options;
  options.preparation = *parsePreparation({"0.5:0.25"}, {}, "flip,crop:1", 5);
  StatusOr<Dataset> data =
      Dataset::create({channelsLast(), labels("y", {0})}, kWide, options);
  ASSERT_TRUE(data.ok()) << data.status().message();
  const std::vector<float> plain = firstBatch(*data, kWide);
  EXPECT_EQ(plain[1], (3 / 255.0f - 0.5f) / 0.25f);
  std::set<std::vector<float>> seen;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    seen.insert(firstBatch(*data, kWide, epoch));
    EXPECT_EQ(firstBatch(*data, kWide, epoch), firstBatch(*data, kWide, epoch));
  }
  // Nine positions, each flipped or not. Outside pixels are black.
  EXPECT_EQ(seen.size(), 18u);
  EXPECT_EQ(seen.count(plain), 1u);
  const float black = -0.5f / 0.25f;
  EXPECT_GE(std::count((*seen.begin()).begin(), (*seen.begin()).end(), black),
            2);
  EXPECT_NE(data->fingerprint().find("; --normalize 0.5:0.25; --augment"),
            std::string::npos);
}

TEST(Dataset, RefusesFlagsThatNoInputTakes) {
  const std::vector<Array> arrays{channelsLast(), labels("y", {0})};
  const auto expectUsage =
      [&](const std::vector<std::string> &normalize, const std::string &augment,
          const FunctionPorts &ports, const std::string &text) {
        DatasetOptions options;
        options.preparation = *parsePreparation(normalize, {}, augment, 0);
        expectFailure(Dataset::create(arrays, ports, options).status(),
                      StatusCode::Usage, text);
      };
  expectUsage({"z=0:1"}, "", kWide, "no input is called 'z' but 'x'");
  expectUsage({"y=0:1"}, "", kWide, "no input is called 'y' but 'x'");
  expectUsage({"0,1:1"}, "", kWide, "2 numbers are not one for each channel");
  expectUsage({}, "crop:2", kWide, "a padding of 2 is as large as the image");
  FunctionPorts two = kWide;
  two.inputs.push_back({"z", Role::Data, DType::F32, {1, 2}});
  expectUsage({"0:1"}, "", two, "say for which input, NAME=...: 'x', 'z'");
  FunctionPorts masks = kWide;
  masks.inputs[1].shape = {1, 2, 4};
  expectUsage({}, "flip", masks, "not the labels 'y' of their pixels");
  FunctionPorts flat = kWide;
  flat.inputs[0].shape = {1, 24};
  expectUsage({}, "flip", flat, "the model has no input [N,C,H,W]");
  FunctionPorts integers = kWide;
  integers.inputs[0].type = DType::U8;
  expectUsage({"0:1"}, "", integers, "inputs of floating point");
}

TEST(Dataset, SaysHowToMakeClassesOfOneHotLabels) {
  Array oneHot = labels("target", {0, 1, 1, 0});
  oneHot.shape = {2, 2};
  expectInvalid(Dataset::create({images(2), oneHot}, imagePorts()),
                "help: labels are class numbers, save target.argmax(-1)");
}

TEST(Dataset, SaysHowToReshape) {
  Array flat = images(3);
  flat.shape = {3, 2, 2};
  expectInvalid(
      Dataset::create({flat, labels("target", {0, 1, 2})}, imagePorts()),
      "x: got [3,2,2] u8, the model wants [N,1,2,2] f32 for its "
      "input 'x'; help: the elements fit, save x.reshape(-1,1,2,2)");
  flat.shape = {2, 6};
  expectInvalid(Dataset::create({flat, labels("target", {0, 1})}, imagePorts()),
                "x: got [2,6] u8, the model wants [N,1,2,2] f32");
  flat.shape = {};
  expectInvalid(Dataset::create({flat, labels("target", {0, 1})}, imagePorts()),
                "x: got [] u8");
}

TEST(Dataset, TakesLabelsWithAxesOfOneAndWithout) {
  Array column = labels("target", {0, 1, 2});
  column.shape = {3, 1};
  EXPECT_TRUE(Dataset::create({images(3), column}, imagePorts()).ok());
  FunctionPorts ports = imagePorts(DType::F32);
  ports.inputs[1].shape = {2, 1};
  StatusOr<Dataset> data =
      Dataset::create({images(3), labels("target", {0, 1, 2})}, ports);
  ASSERT_TRUE(data.ok()) << data.status().message();
  const int64_t last = 2;
  EXPECT_EQ(data->targets(&last, 1, "label"), std::vector<double>{2});
  // Another number of elements is not a problem of axes.
  column.shape = {1, 3};
  EXPECT_FALSE(Dataset::create({images(1), column}, ports).ok());
}

TEST(Dataset, LocatesALabelOutOfRange) {
  expectInvalid(Dataset::create({images(3), labels("target", {0, 10, 2})},
                                imagePorts(), tenClasses()),
                "target[1]: label 10 is not in [0,10); help: labels count "
                "from 0; with 10 classes the last is 9");
  expectInvalid(Dataset::create({images(2), labels("target", {0, -1})},
                                imagePorts(), tenClasses()),
                "target[1]: label -1 is not in [0,10); help: if labels of -1 "
                "are to be ignored, compile with --ignore-index -1");
  DatasetOptions ignoring = tenClasses();
  ignoring.ignoreIndex = -1;
  EXPECT_TRUE(Dataset::create({images(2), labels("target", {0, -1})},
                              imagePorts(), ignoring)
                  .ok());
}

TEST(Dataset, RefusesLabelsOfWhichNoneCounts) {
  DatasetOptions ignoring = tenClasses();
  ignoring.ignoreIndex = -100;
  expectInvalid(Dataset::create({images(2), labels("target", {-100, -100})},
                                imagePorts(), ignoring),
                "every label is the ignored one");
  EXPECT_TRUE(Dataset::create({images(2), labels("target", {-100, 9})},
                              imagePorts(), ignoring)
                  .ok());
}

TEST(Dataset, TakesIntegralFloatsAsLabels) {
  const Array whole =
      makeArray<double>("target", ElementType::F64, {2}, {3, 4});
  EXPECT_TRUE(
      Dataset::create({images(2), whole}, imagePorts(), tenClasses()).ok());
  const Array half =
      makeArray<double>("target", ElementType::F64, {2}, {3, 4.5});
  expectInvalid(Dataset::create({images(2), half}, imagePorts(), tenClasses()),
                "target[1]: 4.5 is not an integer");
}

TEST(Dataset, LocatesValuesThatAreNotFinite) {
  std::vector<float> values(8, 1.0f);
  values[6] = std::nanf("");
  const Array x = makeArray<float>("x", ElementType::F32, {2, 1, 2, 2}, values);
  expectInvalid(Dataset::create({x, labels("target", {0, 1})}, imagePorts()),
                "x[1,0,1,0]: nan is not a finite number");
  // The targets of a regression are also data.
  expectInvalid(
      Dataset::create({images(2), makeArray<float>("target", ElementType::F32,
                                                   {2}, {INFINITY, 0})},
                      imagePorts(DType::F32)),
      "target[0]: inf is not a finite number");
}

TEST(Dataset, RefusesEmptyDuplicateAndUnequalArrays) {
  expectInvalid(
      Dataset::create({images(0), labels("target", {})}, imagePorts()),
      "x: has no samples");
  expectInvalid(Dataset::create({images(1), images(1)}, imagePorts()),
                "x: two arrays have this name");
  expectInvalid(
      Dataset::create({images(3), labels("target", {0, 1})}, imagePorts()),
      "target: has 2 samples, x has 3");
}

/// Samples [begin, end) of a larger array, as if from a separate file.
Array shard(const Array &whole, int64_t begin, int64_t end,
            const std::string &file) {
  Array part = whole;
  part.source = file;
  part.data += begin * whole.bytes() / whole.shape[0];
  part.shape[0] = end - begin;
  return part;
}

TEST(Dataset, JoinsTheArraysOfSeveralFiles) {
  Receiver model;
  const std::vector<Array> whole = toyArrays(12);
  std::vector<Array> parts;
  for (const auto &[begin, end, file] :
       {std::tuple(0, 5, "a"), std::tuple(5, 6, "b"), std::tuple(6, 12, "c")})
    for (const Array &array : whole)
      parts.push_back(shard(array, begin, end, file));
  const FunctionPorts &ports = *model.info().function("step");
  StatusOr<Dataset> joined = Dataset::create(parts, ports);
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  const Dataset one = toyData(model, 12);
  EXPECT_EQ(joined->size(), 12);
  EXPECT_EQ(joined->fingerprint(), one.fingerprint());
  for (int64_t i = 0; i < 12; i += 4) {
    const std::vector<int64_t> positions{i, 11 - i, i + 3, i + 1};
    EXPECT_EQ(joined->labels(positions.data(), 4, "y"),
              one.labels(positions.data(), 4, "y"));
    ASSERT_TRUE(joined->bind(model, "step", positions.data()).ok());
    const std::vector<float> values = model.inputOf("x");
    ASSERT_TRUE(one.bind(model, "step", positions.data()).ok());
    EXPECT_EQ(values, model.inputOf("x"));
  }
}

TEST(Dataset, JoinsAlongTheAxisOfSamples) {
  FunctionPorts ports{{{"x", Role::Data, DType::F32, {2, 3}}}, {}};
  ports.inputs[0].batchAxis = 1;
  Array a = makeArray<float>("x", ElementType::F32, {2, 2}, {0, 1, 10, 11});
  Array b = makeArray<float>("x", ElementType::F32, {2, 1}, {2, 12});
  a.source = "a";
  b.source = "b";
  StatusOr<Dataset> data = Dataset::create({a, b}, ports);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(firstBatch(*data, ports),
            (std::vector<float>{0, 1, 2, 10, 11, 12}));
  Array whole =
      makeArray<float>("x", ElementType::F32, {2, 3}, {0, 1, 2, 10, 11, 12});
  EXPECT_EQ(data->fingerprint(),
            Dataset::create({whole}, ports)->fingerprint());
}

TEST(Dataset, JoinsFilesOfSeveralTypesWhereEachIsConverted) {
  const FunctionPorts ports{{{"x", Role::Data, DType::F32, {3, 1}},
                             {"y", Role::Label, DType::I64, {3}}},
                            {}};
  std::vector<Array> arrays{
      makeArray<float>("x", ElementType::F32, {2, 1}, {1, 2}),
      makeArray<double>("x", ElementType::F64, {1, 1}, {3}),
      makeArray<int32_t>("y", ElementType::I32, {1}, {4}),
      makeArray<int64_t>("y", ElementType::I64, {2}, {5, 6})};
  for (size_t i = 0; i < arrays.size(); ++i)
    arrays[i].source = i % 2 == 0 ? "a.npz" : "b.npz";
  StatusOr<Dataset> data = Dataset::create(arrays, ports);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(firstBatch(*data, ports), (std::vector<float>{1, 2, 3}));
  // A float shard and an integer shard do not match.
  std::vector<Array> mixed = arrays;
  mixed[1] = makeArray<int64_t>("x", ElementType::I64, {1, 1}, {3});
  mixed[1].source = "b.npz";
  expectInvalid(Dataset::create(mixed, ports), "is i64, in");
}

TEST(Dataset, NamesTheFileThatDoesNotFitTheOthers) {
  const auto twoFiles = [](Array second) {
    Array first = images(2);
    first.source = "a.npy";
    second.source = "b.npy";
    return Dataset::create({first, second, labels("target", {0, 1, 2})},
                           imagePorts(), tenClasses());
  };
  EXPECT_TRUE(twoFiles(images(1)).ok());
  Array other = images(1);
  other.shape = {1, 1, 1, 4};
  expectInvalid(twoFiles(other), "b.npy: x: got [1,1,1,4] u8");
  expectInvalid(twoFiles(makeArray("x", ElementType::I16, {1, 1, 2, 2},
                                   std::vector<int16_t>(4))),
                "b.npy: x: is i16, in a.npy it is u8");
  expectInvalid(twoFiles(images(0)), "b.npy: x: has no samples");
  expectInvalid(twoFiles(images(2)), "target: has 3 samples, x has 4");
}

TEST(Dataset, LocatesAValueInItsFile) {
  Array first = labels("target", {0, 1}), second = labels("target", {2, 10});
  first.source = "a.npz";
  second.source = "b.npz";
  expectInvalid(
      Dataset::create({images(4), first, second}, imagePorts(), tenClasses()),
      "b.npz: target[1]: label 10 is not in [0,10)");
}

TEST(Dataset, NotesArraysThatNothingTakes) {
  Array more = labels("more", {1});
  more.source = "a.npz";
  StatusOr<Dataset> data =
      Dataset::create({images(1), labels("target", {0}), more}, imagePorts());
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->notes().back(), "a.npz: no input takes 'more'");
  Array again = more;
  again.source = "b.npz";
  data = Dataset::create({images(1), labels("target", {0}), more, again},
                         imagePorts());
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->notes().back(),
            "a.npz: no input takes 'more', nor those of 1 more file");
}

TEST(Dataset, SplitsClassesInProportion) {
  DatasetOptions options = tenClasses();
  options.target = "label";
  std::vector<int32_t> values(100, 3);
  std::fill(values.begin(), values.begin() + 20, 1);
  StatusOr<Dataset> data = Dataset::create(
      {images(100), labels("target", values)}, imagePorts(), options);
  ASSERT_TRUE(data.ok());
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Dataset held = data->split(0.1, seed)->second;
    std::vector<int64_t> positions(10);
    std::iota(positions.begin(), positions.end(), int64_t(0));
    const std::vector<int64_t> labels =
        held.labels(positions.data(), 10, "label");
    EXPECT_EQ(std::count(labels.begin(), labels.end(), 1), 2);
  }
}

/// Bags of 3 ids in each of 2 tables, and a factor for every batch.
FunctionPorts bagPorts() {
  FunctionPorts ports = {{{"ids", Role::Data, DType::I64, {2, 4, 3}},
                          {"scale", Role::Data, DType::F32, {}},
                          {"label", Role::Label, DType::I64, {4}}},
                         {}};
  ports.inputs[0].batchAxis = 1;
  ports.inputs[1].batchAxis = -1;
  return ports;
}

std::vector<Array> bags(int64_t count) {
  std::vector<int32_t> ids(size_t(2 * count * 3));
  std::iota(ids.begin(), ids.end(), 0);
  return {makeArray("ids", ElementType::I32, {2, count, 3}, ids),
          makeArray("scale", ElementType::F32, {}, std::vector<float>{0.5f}),
          labels("label", std::vector<int32_t>(size_t(count), 1))};
}

TEST(Dataset, CountsSamplesAlongTheAxisThatIsSaid) {
  StatusOr<Dataset> data = Dataset::create(bags(5), bagPorts());
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->size(), 5);
  EXPECT_EQ(data->batchSize(), 4);
}

TEST(Dataset, SaysWhichAxisSamplesAreAlong) {
  std::vector<Array> arrays = bags(5);
  arrays[0] = makeArray("ids", ElementType::I32, {3, 5, 3},
                        std::vector<int32_t>(45, 0));
  expectInvalid(Dataset::create(arrays, bagPorts()),
                "got [3,5,3] i32, the model wants [2,N,3] i64");
}

TEST(Dataset, HintsAtTheAxisWhereBatchesDiffer) {
  FunctionPorts ports = bagPorts();
  ports.inputs[0].batchAxis = 0;
  expectFailure(Dataset::create(bags(5), ports).status(),
                StatusCode::Unsupported, "--batch-axis");
}

TEST(Dataset, OpensFilesAndNamedFiles) {
  TemporaryDirectory directory;
  ASSERT_TRUE(writeArrays(directory / "img.npy", {images(2)}).ok());
  ASSERT_TRUE(
      writeArrays(directory / "target.npy", {labels("any", {0, 1})}).ok());
  StatusOr<Dataset> data =
      Dataset::open({"x=" + (directory / "img.npy"), directory / "target.npy"},
                    imagePorts(), tenClasses());
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->size(), 2);
}

TEST(Dataset, MessagesNameTheFile) {
  TemporaryDirectory directory;
  const std::string path = directory / "data.npz";
  ASSERT_TRUE(writeArrays(path, {images(2), labels("target", {0, 11})}).ok());
  expectInvalid(Dataset::open({path}, imagePorts(), tenClasses()),
                "data.npz: target[1]: label 11");
  ASSERT_TRUE(writeArrays(path, {images(2)}).ok());
  expectInvalid(Dataset::open({path}, imagePorts()),
                "data.npz: no array is called 'label'");
}

TEST(Dataset, SplitIsSeededDisjointAndComplete) {
  ToyModel model;
  const Dataset data = toyData(model, 100);
  auto parts = data.split(0.2, 7);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->first.size(), 80);
  EXPECT_EQ(parts->second.size(), 20);
  EXPECT_EQ(data.split(0.2, 7)->second.fingerprint(),
            parts->second.fingerprint());
  EXPECT_NE(data.split(0.2, 8)->second.fingerprint(),
            parts->second.fingerprint());
  // Feature 0 identifies a sample.
  for (const Dataset &part : {parts->first, parts->second})
    for (int64_t i = 0; i < part.size(); i += ToyModel::kBatch) {
      const std::vector<int64_t> positions{i, i + 1, i + 2, i + 3};
      ASSERT_TRUE(part.bind(model, "step", positions.data()).ok());
      ASSERT_TRUE(model.run("step").ok());
    }
  EXPECT_EQ(
      std::set<float>(model.firstFeatures.begin(), model.firstFeatures.end())
          .size(),
      100u);
}

TEST(Dataset, SplitLeavesNeitherPartEmpty) {
  ToyModel model;
  const Dataset data = toyData(model, 4);
  for (double fraction : {0.0, 1.0, 0.01, -1.0, std::nan("")})
    expectFailure(data.split(fraction, 0).status(), StatusCode::InvalidInput,
                  "leaves nothing");
}

TEST(Dataset, LocatesATargetThatIsNoProbability) {
  FunctionPorts ports = imagePorts();
  for (Port &port : ports.inputs)
    if (port.role == Role::Label)
      port.type = DType::F32;
  const auto create = [&](float target, const char *loss) {
    DatasetOptions options;
    options.probabilitiesOf = loss;
    return Dataset::create(
        {images(3),
         makeArray<float>("target", ElementType::F32, {3}, {0, 1, target})},
        ports, options);
  };
  expectInvalid(create(255, "bce"),
                "target[2]: target 255 is not in [0,1], as bce "
                "needs; help: true is 1");
  expectInvalid(create(-0.5f, "bce"), "target[2]: target -0.5 is not in [0,1]");
  // 1 plus a rounding error counts as 1.
  for (float target : {0.5f, 1.0000001f})
    EXPECT_TRUE(create(target, "bce").ok());
  EXPECT_TRUE(create(255, "").ok());
}

TEST(Dataset, FingerprintSeesEveryByteNameAndShape) {
  const auto fingerprint = [](const std::vector<Array> &arrays) {
    return Dataset::create(arrays, imagePorts())->fingerprint();
  };
  const std::string base = fingerprint({images(2), labels("target", {0, 1})});
  EXPECT_EQ(base, fingerprint({images(2), labels("target", {0, 1})}));
  EXPECT_NE(base, fingerprint({images(2), labels("target", {0, 2})}));
  EXPECT_NE(base, fingerprint({images(2), labels("label", {0, 1})}));
}

TEST(Dataset, KnowsTheClassesFromThePrediction) {
  ToyModel model;
  EXPECT_EQ(datasetOptionsFor(model.info()).classes, ToyModel::kClasses);
  model.description.recipe = "{\"loss\":\"softmax_cross_entropy\",\"classes\":"
                             "3,\"ignore_index\":-100}";
  EXPECT_EQ(datasetOptionsFor(model.info()).classes, 3);
  EXPECT_EQ(datasetOptionsFor(model.info()).ignoreIndex, -100);
  model.description.recipe = "{\"probabilities\":{\"masks\":\"bce\"}}";
  EXPECT_EQ(datasetOptionsFor(model.info()).rangeOf("masks").probabilitiesOf,
            "bce");
  EXPECT_EQ(datasetOptionsFor(model.info()).rangeOf("x").probabilitiesOf, "");
  model.description.recipe = "{}";
  model.description.loss = LossKind::MSE;
  EXPECT_FALSE(datasetOptionsFor(model.info()).classes.has_value());
}

} // namespace
} // namespace mpc::runtime::train
