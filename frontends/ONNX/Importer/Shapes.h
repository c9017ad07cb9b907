// Static shapes for the inputs of a graph.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_SHAPES_H
#define MPC_FRONTENDS_ONNX_IMPORTER_SHAPES_H

#include "frontends/ONNX/Importer/Rebatch.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/ImportOptions.h"

namespace mpc::onnx_frontend {

/// Binds the dynamic dimensions of graph inputs by the options: a symbol has
/// one value in all inputs.
class ShapeBinder {
public:
  ShapeBinder(const Model &model, const ImportOptions &options,
              const Rebatch *rebatch = nullptr)
      : model(model), options(options), rebatch(rebatch) {}

  /// The batch that the model was exported for, where that of `--batch-size` is
  /// another and no input leaves it open: the first axis of the first input
  /// that has one.
  std::optional<int64_t>
  findExportedBatch(llvm::ArrayRef<const proto::ValueInfoProto *> inputs) const;

  /// Takes the bindings of `--shape` and `--batch-size` from these inputs.
  llvm::Error collect(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);

  /// The static type of an input; what is still dynamic is a finding that names
  /// the dimension and the flag.
  llvm::Expected<mlir::RankedTensorType>
  getType(const proto::ValueInfoProto &input) const;

  /// The axis of an input that samples are along, or kNoBatchAxis.
  int getBatchAxis(const proto::ValueInfoProto &input) const;

  /// Whether that axis is the batch the model was exported for, and another is
  /// asked for.
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

/// "f32[N,1,28,28]", "seq(f32)": the declared type, for people.
std::string printType(const Model &model, const proto::TypeProto &type);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SHAPES_H
