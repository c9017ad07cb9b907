// ONNX out: the model that was read, with trained values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H
#define MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H

#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/HostTensor.h"

#include <map>
#include <memory>
#include <string>

namespace mpc::onnx_frontend {

/// Shapes of the values that a model is to receive, by name.
using ShapeMap = std::map<std::string, llvm::SmallVector<int64_t>>;

class Model;

/// Stands for stdout as a destination.
inline constexpr llvm::StringLiteral kStandardOutput = "-";

/// A model that will receive trained values, read before they exist: all of
/// its file but the values that will be replaced. Nothing is read later, so
/// what happens to the file meanwhile does not matter.
class ExportModel {
public:
  /// Takes a model that nothing else uses any longer, into `context`, and the
  /// external data that it keeps. The values named in `shapes` are looked up
  /// among its initializers and Constant nodes, by the variable's name or by
  /// the ONNX name it holds. One that the model does not have, or has in
  /// another shape, is an error (kind Invalid) that names the first few.
  static llvm::Expected<std::unique_ptr<ExportModel>>
  create(std::shared_ptr<Model> model, const ShapeMap &shapes,
         mlir::MLIRContext *context);

  /// Only whether `create` would find all places: the model is not changed.
  static llvm::Error check(std::shared_ptr<Model> model,
                           const ShapeMap &shapes);

  /// The same for the model at `source`.
  static llvm::Expected<std::unique_ptr<ExportModel>>
  read(llvm::StringRef source, const ShapeMap &shapes,
       mlir::MLIRContext *context);
  ~ExportModel();

  /// Notes in the model's metadata what was done to the samples that it is
  /// trained on, such as "--normalize 0.5:0.2", in place of what the file said
  /// of an earlier training; empty: nothing was.
  void setPreparation(llvm::StringRef text);

  /// Writes the model to `destination` with `values`, one for each name that
  /// was given to `read`, in inference mode (InferenceMode.h); everything else,
  /// unknown fields included, is as it was. Values are converted to the type
  /// the model stores. Data that was external, and all of it in a model too
  /// large for one file, goes to
  /// `<destination>.data`. The files appear whole or not at all. What goes to
  /// kStandardOutput has all data in it.
  llvm::Error write(llvm::StringRef destination, const TensorMap &values);

private:
  class Impl;
  explicit ExportModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Reads and writes at once.
llvm::Error exportModel(llvm::StringRef source, llvm::StringRef destination,
                        const TensorMap &values, mlir::MLIRContext *context);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H
