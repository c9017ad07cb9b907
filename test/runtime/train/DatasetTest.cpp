// Data matched to a model: what is accepted, and how the rest is refused.
//
// SPDX-License-Identifier: Apache-2.0
#include "Support.h"

#include "runtime/train/ArrayFile.h"

#include <cmath>
#include <numeric>
#include <set>

namespace mpc::runtime::train {
namespace {

/// The inputs of an image classifier with batches of 2.
FunctionPorts imagePorts(DType labelType = DType::I64) {
  return {{{"x", "data", DType::F32, {2, 1, 2, 2}},
           {"label", "label", labelType, {2}},
           {"learning_rate", "scalar", DType::F32, {}}},
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

void expectInvalid(const StatusOr<Dataset> &data, const std::string &text) {
  expectFailure(data.status(), StatusCode::InvalidInput, text);
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

TEST(Dataset, SaysHowToMoveChannels) {
  const FunctionPorts ports{{{"x", "data", DType::F32, {1, 3, 2, 4}},
                             {"y", "label", DType::I64, {1}}},
                            {}};
  Array image = images(6);
  image.shape = {1, 2, 4, 3};
  expectInvalid(Dataset::create({image, labels("y", {0})}, ports),
                "x: got [1,2,4,3] u8, the model wants [N,3,2,4] f32 for its "
                "input 'x'; help: channels come before space in ONNX, save "
                "numpy.moveaxis(x, -1, 1)");
  // Reshaping would fit too, and mix the axes up.
  image.shape = {1, 4, 2, 3};
  const StatusOr<Dataset> turned =
      Dataset::create({image, labels("y", {0})}, ports);
  ASSERT_FALSE(turned.ok());
  EXPECT_EQ(turned.status().message().find("help"), std::string::npos);
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

TEST(Dataset, LocatesALabelOutOfRange) {
  expectInvalid(Dataset::create({images(3), labels("target", {0, 10, 2})},
                                imagePorts(), tenClasses()),
                "target[1]: label 10 is not in [0,10)");
  expectInvalid(Dataset::create({images(2), labels("target", {0, -1})},
                                imagePorts(), tenClasses()),
                "target[1]: label -1 is not in [0,10)");
  DatasetOptions ignoring = tenClasses();
  ignoring.ignoreIndex = -1;
  EXPECT_TRUE(Dataset::create({images(2), labels("target", {0, -1})},
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
  // Targets of a regression are data as well.
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
                "x: another array has that name");
  expectInvalid(
      Dataset::create({images(3), labels("target", {0, 1})}, imagePorts()),
      "target: has 2 samples, x has 3");
}

/// Bags of 3 ids in each of 2 tables, and a factor for every batch.
FunctionPorts bagPorts() {
  FunctionPorts ports = {{{"ids", "data", DType::I64, {2, 4, 3}},
                          {"scale", "data", DType::F32, {}},
                          {"label", "label", DType::I64, {4}}},
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
  // Feature 0 tells the samples apart.
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
  model.description.recipe = "{}";
  model.description.loss = "mse";
  EXPECT_FALSE(datasetOptionsFor(model.info()).classes.has_value());
}

} // namespace
} // namespace mpc::runtime::train
