// Gives the inputs of a graph static shapes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_SHAPES_H
#define MPC_FRONTENDS_ONNX_IMPORTER_SHAPES_H

#include "frontends/ONNX/Importer/Rebatch.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/ImportOptions.h"

namespace mpc::onnx_frontend {

/// Binds the dynamic dimensions of graph inputs to the extents in --shape and
/// --batch-size. A symbol has one extent in all inputs.
class ShapeBinder {
public:
  ShapeBinder(const Model &model, const ImportOptions &options,
              const Rebatch *rebatch = nullptr)
      : model(model), options(options), rebatch(rebatch) {}

  /// The batch size that the model was exported for: the extent of the first
  /// input's batch axis. nullopt if `--batch-size` is absent or agrees, or if
  /// an input leaves the batch dynamic.
  std::optional<int64_t>
  findExportedBatch(llvm::ArrayRef<const proto::ValueInfoProto *> inputs) const;

  /// Collects the bindings that `--shape` and `--batch-size` give for `inputs`.
  llvm::Error collect(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);

  /// The static type of an input. Reports an error that names the dimension and
  /// the flag if a dimension is still dynamic.
  llvm::Expected<mlir::RankedTensorType>
  getType(const proto::ValueInfoProto &input) const;

  /// The batch axis of an input, or kNoBatchAxis.
  int getBatchAxis(const proto::ValueInfoProto &input) const;

  /// True if the batch axis of `input` has the exported batch size and another
  /// batch size is wanted.
  bool isRebatched(const proto::ValueInfoProto &input) const;

private:
  llvm::Error bind(llvm::StringRef symbol, int64_t extent,
                   llvm::StringRef input);
  llvm::Error collectShape(const proto::ValueInfoProto &input,
                           llvm::ArrayRef<int64_t> shape);
  llvm::Error
  checkBatchAxes(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);
  llvm::Error checkNames(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);
  llvm::Error
  collectBatch(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);
  llvm::Error bindBatch(llvm::ArrayRef<const proto::ValueInfoProto *> inputs,
                        int64_t batch);

  const Model &model;
  const ImportOptions &options;
  const Rebatch *rebatch;
  llvm::StringMap<int64_t> symbols;
};

/// Prints the declared type for messages: "f32[N,1,28,28]", "a sequence".
std::string printType(const Model &model, const proto::TypeProto &type);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SHAPES_H
