// Exports ONNX: the model as read, with trained values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H
#define MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H

#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/HostTensor.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc::onnx_frontend {

/// Shapes of the values that a model will receive, by name.
using ShapeMap = std::map<std::string, llvm::SmallVector<int64_t>>;

class Model;
struct AdapterNodes;

/// The bytes of a model file without the values of variables. A value written
/// into each hole makes the file complete.
struct ModelTemplate {
  struct Hole {
    std::string variable;
    mlir::Type type;       ///< the element type of the value
    uint64_t position = 0; ///< in `bytes`
  };
  std::string bytes;
  std::vector<Hole> holes; ///< in the order of positions
};

/// Returns the paths of the external data files of `model`. The files need not
/// exist. If the model is a link, also lists the paths beside the link's
/// target.
std::vector<std::string> listDataFiles(Model &model);

/// The destination that means stdout.
inline constexpr llvm::StringLiteral kStandardOutput = "-";

/// The type of the weights in a written model.
enum class StoredType { AsInFile, F16, BF16 };

/// What `storeWeights` did with the weights that are worth a low type.
struct StoredWeights {
  int64_t lowered = 0; ///< weights stored in the low type
  int64_t flushed = 0; ///< elements that became 0
  /// Descriptions of the weights that stay float32, because an element would
  /// overflow: "'w' (70000)".
  std::vector<std::string> overflowing;
};

/// Converts `value`, the weight `name`, to `type` if the weight is worth a low
/// type (LowWeights.h) and no element overflows. Returns `value` otherwise.
HostTensor storeWeight(llvm::StringRef name, const HostTensor &value,
                       StoredType type, StoredWeights &stored);

/// A model that will receive trained values. It is read before the values
/// exist, and holds everything of the file except the values to replace. Later
/// changes of the file have no effect.
class ExportModel {
public:
  /// Loads the remaining external data of `model`, and moves the model into
  /// `context`. The caller must hold the only reference. `shapes` names the
  /// values to replace: initializers or Constants, by variable or ONNX name.
  /// Error (kind InvalidInput) if the model lacks a value or has another shape;
  /// the message names the first few.
  /// `adapters` become nodes of their own, whose values `shapes` names too.
  static llvm::Expected<std::unique_ptr<ExportModel>>
  create(std::shared_ptr<Model> model, const ShapeMap &shapes,
         mlir::MLIRContext *context,
         llvm::ArrayRef<AdapterNodes> adapters = {});

  /// Checks that `create` would find all values, and changes nothing in the
  /// file.
  static llvm::Error check(std::shared_ptr<Model> model,
                           const ShapeMap &shapes);

  /// Returns the file that `write` would write, without the values of
  /// `shapes`. Changes the model, which must not be compiled afterwards, but
  /// keeps the memory of every value. `record` replaces the record of an
  /// earlier training, as in `setRecord`. Error if the model cannot receive the
  /// values, or does not fit into one file of 2 GiB.
  static llvm::Expected<ModelTemplate>
  makeTemplate(std::shared_ptr<Model> model, const ShapeMap &shapes,
               const std::map<std::string, std::string> &record);

  /// Like `create`, for the model at `source`. `skippedRepairs` names rows of
  /// Repair/Repairs.def.
  static llvm::Expected<std::unique_ptr<ExportModel>>
  read(llvm::StringRef source, const ShapeMap &shapes,
       mlir::MLIRContext *context,
       llvm::ArrayRef<std::string> skippedRepairs = {},
       llvm::ArrayRef<AdapterNodes> adapters = {});
  ~ExportModel();

  /// Replaces the record of an earlier training in the metadata by `entries`,
  /// whose keys TrainingRecord.h lists.
  void setRecord(const std::map<std::string, std::string> &entries);

  /// Returns the names of the model's outputs, in order.
  std::vector<std::string> listOutputs() const;

  /// Makes `write` store weights in `type`, F16 or BF16, with Casts to float32
  /// in front of their readers. `values` are the values for `write`. Error
  /// (kind Unsupported) if the model's opset lacks the type, or if the model
  /// has training_info.
  llvm::Expected<StoredWeights> storeWeights(StoredType type,
                                             const TensorMap &values);

  /// Writes the model to `destination` in inference mode (InferenceMode.h).
  /// `values` needs a value for each name in `shapes`. Everything else stays,
  /// including unknown fields. Values are converted to the file's types.
  /// Tensors go to `<destination>.data` if they were external; so do large
  /// tensors if the model exceeds protobuf's 2 GiB. Files appear whole or not
  /// at all. With kStandardOutput all data is in the stream.
  llvm::Error write(llvm::StringRef destination, const TensorMap &values);

private:
  class Impl;
  explicit ExportModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Reads the model at `source` and writes it with `values`.
llvm::Error exportModel(llvm::StringRef source, llvm::StringRef destination,
                        const TensorMap &values, mlir::MLIRContext *context);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H
