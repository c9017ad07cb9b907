// Tests that a model is written like protobuf writes it, including elements
// that are stored elsewhere.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Serialize.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

using namespace mpc::onnx_frontend;

namespace {

/// A model with fields before and after those that are written by hand.
proto::ModelProto makeModel() {
  proto::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("test");
  model.add_opset_import()->set_version(17);
  model.add_metadata_props()->set_key("key");
  proto::GraphProto &graph = *model.mutable_graph();
  graph.set_name("graph");
  graph.add_node()->set_op_type("Add");
  graph.set_doc_string("a graph");
  graph.add_input()->set_name("x");
  for (const char *name : {"kept", "given", "large"}) {
    proto::TensorProto &tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(proto::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.set_doc_string("a tensor");
  }
  graph.mutable_initializer(0)->set_raw_data("12345678");
  // Two unknown fields, one of them in the graph.
  model.mutable_unknown_fields()->append("\xfa\x3e\x03new", 6);
  graph.mutable_unknown_fields()->append("\xfa\x3e\x03old", 6);
  return model;
}

std::string serialized(proto::ModelProto &model, const TensorMap &values) {
  auto countBytes =
      [&](const proto::TensorProto &tensor) -> std::optional<uint64_t> {
    auto value = values.find(tensor.name());
    if (value == values.end())
      return std::nullopt;
    return value->second.data.size();
  };
  auto get = [&](const proto::TensorProto &tensor) {
    return values.at(tensor.name());
  };
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  EXPECT_TRUE(serialize(model, {countBytes, get}, stream));
  return bytes;
}

HostTensor makeValue(mlir::MLIRContext &context, int64_t count) {
  auto [tensor, data] = HostTensor::allocate(
      mlir::RankedTensorType::get({count}, mlir::Float32Type::get(&context)));
  for (int64_t i = 0; i < 4 * count; ++i)
    data[i] = static_cast<char>(i % 251);
  return tensor;
}

TEST(Serialize, WritesWhatProtobufWrites) {
  mlir::MLIRContext context;
  TensorMap values;
  values["given"] = makeValue(context, 2);
  // Longer than a one-byte varint can say, and than a stream's buffer.
  values["large"] = makeValue(context, 100000);
  proto::ModelProto model = makeModel(), whole = model;
  for (proto::TensorProto &tensor :
       *whole.mutable_graph()->mutable_initializer())
    if (auto value = values.find(tensor.name()); value != values.end())
      tensor.set_raw_data(value->second.data.data(), value->second.data.size());

  EXPECT_EQ(serialized(model, values), whole.SerializeAsString());
  // The export leaves the model and its tensors unchanged.
  EXPECT_EQ(model.SerializeAsString(), makeModel().SerializeAsString());
}

TEST(Serialize, WritesModelsWithoutInitializersOrGraph) {
  proto::ModelProto model = makeModel();
  model.mutable_graph()->clear_initializer();
  EXPECT_EQ(serialized(model, {}), model.SerializeAsString());
  model.clear_graph();
  EXPECT_EQ(serialized(model, {}), model.SerializeAsString());
  EXPECT_FALSE(model.has_graph());
}

} // namespace
