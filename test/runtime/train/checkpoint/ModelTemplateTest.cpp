// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/ModelTemplate.h"

#include "test/runtime/ArtifactBuilder.h"
#include "test/runtime/train/Support.h"

#include <cstring>

namespace mpc::runtime::train {
namespace {

using test::Json;

/// An artifact whose model file is "<", the value of `v`, "|", the value of
/// `w`, ">".
class ModelTemplate : public testing::Test {
protected:
  ModelTemplate() {
    builder.filledState("w", DType::F32, {2}, 0);
    const std::string text = "<|>";
    const size_t offset = builder.data.size();
    for (char byte : text)
      builder.data.push_back(std::byte(byte));
    place = {{"offset", offset},
             {"bytes", text.size()},
             {"holes",
              {{{"name", "v"}, {"type", "f32"}, {"position", 1}},
               {{"name", "w"}, {"type", "f16"}, {"position", 2}}}}};
  }

  Status write() {
    builder.plan["model"]["template"] = place;
    return writeModel(*builder.open(), weights, path);
  }

  TemporaryDirectory directory;
  const std::string path = directory / "model.onnx";
  test::ArtifactBuilder builder;
  Json place;
  std::vector<Array> weights = {
      makeArray<float>("w", ElementType::F32, {2}, {1, -2}),
      makeArray<float>("v", ElementType::F32, {1}, {0.5})};
};

TEST_F(ModelTemplate, TakesValuesInTheFilesTypes) {
  const Status status = write();
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string f16("\x00\x3c\x00\xc0", 4), f32("\x00\x00\x00\x3f", 4);
  EXPECT_EQ(readFile(path), "<" + f32 + "|" + f16 + ">");
}

TEST_F(ModelTemplate, MayBeMissing) {
  expectFailure(writeModel(*builder.open(), weights, path),
                StatusCode::Unsupported, "does not hold its ONNX model");
  builder.plan["model"]["no_template"] = "it is too large";
  expectFailure(writeModel(*builder.open(), weights, path),
                StatusCode::Unsupported, "it is too large; write .safetensors");
}

TEST_F(ModelTemplate, RefusesValuesThatOverflow) {
  weights[0] = makeArray<float>("w", ElementType::F32, {2}, {1, 1e6});
  expectFailure(write(), StatusCode::Numeric,
                "w[1]: 1000000 does not fit in f16, the type");
}

TEST_F(ModelTemplate, RefusesWhatIsInconsistent) {
  const Json good = place;
  const auto refuse = [&](const Json &changed, const char *text) {
    place = changed;
    expectFailure(write(), StatusCode::InvalidInput, text);
    place = good;
  };
  refuse(Json(), "within the data section");
  refuse(Json::array(), "within the data section");
  Json changed = good;
  changed["offset"] = builder.data.size() + 1;
  refuse(changed, "within the data section");
  changed = good;
  changed["bytes"] = 4;
  refuse(changed, "within the data section");
  changed["bytes"] = -1;
  refuse(changed, "within the data section");
  for (const auto &[key, value] : {std::pair<const char *, Json>{"name", "u"},
                                   {"name", 3},
                                   {"type", "i32"},
                                   {"type", "f31"},
                                   {"position", 0},
                                   {"position", 4},
                                   {"position", "2"}}) {
    changed = good;
    changed["holes"][1][key] = value;
    refuse(changed, "is not valid");
  }
  changed = good;
  changed["holes"].erase(1);
  refuse(changed, "takes 1 tensors, the state has 2");
  changed["holes"] = Json();
  refuse(changed, "takes 0 tensors");
  changed["holes"] = "none";
  refuse(changed, "not valid");
  EXPECT_TRUE(readFile(path).empty());
}

} // namespace
} // namespace mpc::runtime::train
