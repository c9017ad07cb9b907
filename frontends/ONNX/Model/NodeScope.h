// Nodes that one set of opsets holds for, those of a model or of a function,
// and what the file says of the values that they read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_NODESCOPE_H
#define MPC_FRONTENDS_ONNX_MODEL_NODESCOPE_H

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>
#include <vector>

namespace mpc::onnx_frontend {

class NodeScope {
public:
  using Nodes = google::protobuf::RepeatedPtrField<proto::NodeProto>;
  using Imports = google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>;

  /// The model's graphs, or the nodes of a function, and all bodies in them.
  NodeScope(Model &model);
  NodeScope(Model &model, proto::FunctionProto &function);

  /// The imported version of ONNX's own domain; 0 if it is not imported.
  int64_t getOpset() const;
  void setOpset(int64_t opset);
  /// Imports a domain, unless it is.
  void addImport(llvm::StringRef domain);

  /// Calls `mend` for all nodes with a list for nodes that are to stand before
  /// the node.
  void mendNodes(llvm::function_ref<void(proto::NodeProto &,
                                         std::vector<proto::NodeProto> &)>
                     mend);
  void forEach(llvm::function_ref<void(const proto::NodeProto &)> act) const;

  /// A name that nothing has, such as "y_axes".
  std::string makeName(llvm::StringRef start);
  /// A Constant node, added to `nodes`, of integers; gives its result's name.
  std::string addIntegers(std::vector<proto::NodeProto> &nodes,
                          llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                          llvm::ArrayRef<int64_t> values);
  /// Likewise of one float, of an element type of floats.
  std::string addFloat(std::vector<proto::NodeProto> &nodes,
                       llvm::StringRef name, float value, int32_t type);

  /// The integers of an initializer or a Constant node.
  std::optional<llvm::SmallVector<int64_t>>
  readIntegers(llvm::StringRef value) const;
  /// The one float of an initializer or a Constant node.
  std::optional<double> readNumber(llvm::StringRef value) const;
  /// Its element type (TensorProto.DataType), 0 where that is unknown.
  int32_t findElementType(llvm::StringRef value) const;
  /// The number of its axes: of a value of nodes after `inferRanks`. Nothing
  /// where it is unknown.
  std::optional<int64_t> findRank(llvm::StringRef value) const;
  void inferRanks();

private:
  void addGraph(proto::GraphProto &graph);
  void addNodes(Nodes &nodes);
  void addType(const proto::ValueInfoProto &value);
  std::optional<int64_t> inferRank(const proto::NodeProto &node) const;
  std::optional<int64_t> findLength(llvm::StringRef vector) const;

  Model &model;
  Imports *imports;
  std::vector<Nodes *> lists;
  /// Initializers and Constant nodes. A name of two graphs says nothing.
  llvm::StringMap<const proto::TensorProto *> tensors;
  llvm::StringMap<const proto::NodeProto *> producers;
  llvm::StringMap<const proto::TypeProto *> types;
  llvm::StringMap<int64_t> ranks;
  llvm::StringSet<> names;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_NODESCOPE_H
