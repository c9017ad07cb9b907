// Tests that a model's external data is read as at the time the model was
// opened.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Model.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace mpc::onnx_frontend;

namespace {

/// A folder with a model of one initializer: two floats in an external file.
class ExternalData : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("mpc-model", folder));
    writeData({1, 2});
    // File clocks are coarser than the test's steps.
    std::filesystem::last_write_time(
        path("w.bin"),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    proto::ModelProto proto;
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(17);
    proto::TensorProto &tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(proto::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.set_data_location(proto::TensorProto::EXTERNAL);
    auto &entry = *tensor.add_external_data();
    entry.set_key("location");
    entry.set_value("w.bin");
    std::ofstream(path("model.onnx"), std::ios::binary)
        << proto.SerializeAsString();
    llvm::Expected<std::shared_ptr<Model>> read =
        Model::read(path("model.onnx"), &context);
    ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
    model = *read;
  }

  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  std::string path(llvm::StringRef name) const {
    return (folder + "/" + name).str();
  }

  void writeData(std::array<float, 2> values) const {
    std::ofstream(path("w.bin"), std::ios::binary)
        .write(reinterpret_cast<const char *>(values.data()), sizeof(values));
  }

  llvm::Expected<HostTensor> decode() const {
    return model->decode(model->getProto().graph().initializer(0),
                         "initializer 'w'");
  }

  /// The first element, or the error's message.
  std::string read() const {
    llvm::Expected<HostTensor> tensor = decode();
    return tensor ? std::to_string(tensor->getDouble(0))
                  : llvm::toString(tensor.takeError());
  }

  llvm::SmallString<128> folder;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::shared_ptr<Model> model;
};

TEST_F(ExternalData, IsReadTwiceWhereItStays) {
  EXPECT_EQ(read(), "1.000000");
  EXPECT_EQ(read(), "1.000000");
}

TEST_F(ExternalData, MayChangeBeforeItIsRead) {
  writeData({3, 4});
  EXPECT_EQ(read(), "3.000000");
}

TEST_F(ExternalData, IsRefusedWhereItWasWrittenAnew) {
  EXPECT_EQ(read(), "1.000000");
  writeData({3, 4});
  EXPECT_NE(read().find("initializer 'w': external data 'w.bin' has changed "
                        "since it was read"),
            std::string::npos);
}

TEST_F(ExternalData, IsRefusedWhereAnotherFileTookItsPlace) {
  EXPECT_EQ(read(), "1.000000");
  ASSERT_FALSE(llvm::sys::fs::rename(path("w.bin"), path("old.bin")));
  writeData({1, 2});
  EXPECT_NE(read().find("has changed"), std::string::npos);
}

} // namespace
