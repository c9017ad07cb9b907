// A NodeScope holds all nodes that share one set of opset imports: the nodes of
// a model or of a function, and of all their bodies. Repairs use it to change
// nodes, and to ask about constants, element types and ranks.
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

  /// Collects the nodes of all graphs of `model`, including bodies.
  NodeScope(Model &model);
  NodeScope(Model &model, proto::FunctionProto &function);

  /// Returns the imported version of ONNX's own domain; 0 if it is not
  /// imported.
  int64_t getOpset() const;
  void setOpset(int64_t opset);
  /// Imports version 1 of `domain`, unless the domain is imported already.
  void addImport(llvm::StringRef domain);

  /// Calls `mend` for every node. To insert nodes before the node, `mend` adds
  /// them to its second argument.
  void mendNodes(llvm::function_ref<void(proto::NodeProto &,
                                         std::vector<proto::NodeProto> &)>
                     mend);
  void forEach(llvm::function_ref<void(const proto::NodeProto &)> act) const;

  /// Returns an unused name that starts with `start`: "y_axes", or "y_axes_1"
  /// if "y_axes" is in use.
  std::string makeName(llvm::StringRef start);
  /// Adds a Constant node with an int64 tensor to `nodes`. Returns the name of
  /// its result, made from `name`.
  std::string addIntegers(std::vector<proto::NodeProto> &nodes,
                          llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                          llvm::ArrayRef<int64_t> values);
  /// Adds a Constant of one float to `nodes`, and a Cast if `type` is not
  /// float32. Returns the name of the result, made from `name`.
  std::string addFloat(std::vector<proto::NodeProto> &nodes,
                       llvm::StringRef name, float value, int32_t type);

  /// Returns the tensor of the initializer or Constant `value`. Null for other
  /// values, and if several graphs define the name.
  const proto::TensorProto *findTensor(llvm::StringRef value) const {
    return tensors.lookup(value);
  }
  /// Returns the node that computes `value`. Null if there is none, or if
  /// several graphs define the name.
  const proto::NodeProto *findProducer(llvm::StringRef value) const {
    return producers.lookup(value);
  }
  /// Reads the integers of an initializer or a Constant; nullopt for other
  /// values.
  std::optional<llvm::SmallVector<int64_t>>
  readIntegers(llvm::StringRef value) const;
  /// Reads the only float of an initializer or a Constant; nullopt for other
  /// values.
  std::optional<double> readNumber(llvm::StringRef value) const;
  /// Returns the element type (TensorProto.DataType) of `value`; 0 if unknown.
  int32_t findElementType(llvm::StringRef value) const;
  /// Returns the rank of `value`; nullopt if unknown. Call `inferRanks` first
  /// to know the ranks of computed values.
  std::optional<int64_t> findRank(llvm::StringRef value) const;
  void inferRanks();

private:
  void addGraph(proto::GraphProto &graph);
  void addNodes(Nodes &nodes);
  void addType(const proto::ValueInfoProto &value);
  std::optional<int64_t> inferRank(const proto::NodeProto &node) const;
  std::optional<int64_t> findLength(llvm::StringRef vector) const;
  std::optional<int64_t> findLength(llvm::StringRef vector,
                                    unsigned &left) const;

  Model &model;
  Imports *imports;
  std::vector<Nodes *> lists;
  /// The tensors of initializers and Constants, by name; null if several graphs
  /// define the name.
  llvm::StringMap<const proto::TensorProto *> tensors;
  llvm::StringMap<const proto::NodeProto *> producers;
  llvm::StringMap<const proto::TypeProto *> types;
  llvm::StringMap<int64_t> ranks;
  llvm::StringSet<> names;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_NODESCOPE_H
