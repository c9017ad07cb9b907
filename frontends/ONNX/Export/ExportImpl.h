// The state of ExportModel, which the sources of this folder share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_EXPORTIMPL_H
#define MPC_FRONTENDS_ONNX_EXPORT_EXPORTIMPL_H

#include "frontends/ONNX/Export/Export.h"
#include "frontends/ONNX/Model/Model.h"
#include "frontends/ONNX/Model/ONNXProto.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace google::protobuf::io {
class FileOutputStream;
} // namespace google::protobuf::io

namespace mpc::onnx_frontend {

/// Removes the elements of `tensor`, wherever the message holds them.
void dropData(proto::TensorProto &tensor);

/// Returns the index of the first finite element of `value` that overflows in
/// the type `element`; nullopt if there is none. A weight trained in float32
/// may be too large for float16.
std::optional<int64_t> findOverflow(const HostTensor &value,
                                    mlir::Type element);

/// Returns all tensors of the model, also tensors in bodies and functions.
std::vector<proto::TensorProto *> collectTensors(proto::ModelProto &model);

class ExportModel::Impl {
public:
  explicit Impl(std::shared_ptr<Model> model) : model(std::move(model)) {}

  llvm::Error check(const ShapeMap &shapes);
  llvm::Error bind(const ShapeMap &shapes);
  llvm::Error setValues(const TensorMap &values);
  llvm::Expected<StoredWeights> storeWeights(StoredType type);
  llvm::Error write(llvm::StringRef destination);
  llvm::Expected<ModelTemplate> makeTemplate(const ShapeMap &shapes);
  proto::ModelProto &getProto() { return model->getProto(); }

private:
  void indexTensors(proto::GraphProto &graph);
  llvm::StringRef findName(llvm::StringRef variable) const;
  proto::TensorProto *findSource(llvm::StringRef name) const;
  void detach(llvm::StringRef name);
  std::string misfit(llvm::StringRef name, const proto::TensorProto *place,
                     llvm::ArrayRef<int64_t> shape) const;
  llvm::Error loadExternal();
  llvm::Error checkValue(llvm::StringRef name, const proto::TensorProto &tensor,
                         const HostTensor &value);
  HostTensor convert(const proto::TensorProto &tensor) const;
  llvm::Expected<HostTensor> getValue(const proto::TensorProto &tensor) const;
  void storeInline(proto::TensorProto &tensor);
  void storeConstants();
  bool serialize(google::protobuf::io::FileOutputStream &stream);
  uint64_t bytesOf(const proto::TensorProto &tensor) const;
  std::vector<proto::TensorProto *> findExternal();
  llvm::Error writeStream();
  llvm::Error moveConstants();
  llvm::Expected<ModelTemplate> writeTemplate();
  llvm::Error writeData(llvm::ArrayRef<proto::TensorProto *> tensors,
                        llvm::StringRef path);

  std::shared_ptr<Model> model;
  /// Initializers and values of Constant nodes, by name.
  llvm::StringMap<proto::TensorProto *> tensors;
  /// Identity nodes by the name of the output.
  llvm::StringMap<proto::NodeProto *> identities;
  /// The tensor of the file that receives each trained value, by the name of
  /// the variable.
  llvm::StringMap<proto::TensorProto *> places;
  /// The new value of each tensor, set only while writing. Values are converted
  /// and copied as late as possible, because all values together may exceed the
  /// remaining memory.
  llvm::DenseMap<const proto::TensorProto *, const HostTensor *> values;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_EXPORTIMPL_H
