// Static shapes for the inputs of a graph.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_SHAPES_H
#define MPC_FRONTENDS_ONNX_SHAPES_H

#include "frontends/ONNX/Graph.h"
#include "frontends/ONNX/Import.h"

namespace mpc::onnx_frontend {

/// Binds the dynamic dimensions of graph inputs by the options: a symbol has
/// one value in all inputs.
class ShapeBinder {
public:
  ShapeBinder(const Model &model, const ImportOptions &options)
      : model(model), options(options) {}

  /// Takes the bindings of `--shape` and `--batch-size` from these inputs.
  llvm::Error collect(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);

  /// The static type of an input; what is still dynamic is a finding that names
  /// the dimension and the flag.
  llvm::Expected<mlir::RankedTensorType>
  getType(const proto::ValueInfoProto &input) const;

private:
  llvm::Error bind(llvm::StringRef symbol, int64_t extent,
                   llvm::StringRef input);
  llvm::Error collectShape(const proto::ValueInfoProto &input,
                           llvm::ArrayRef<int64_t> shape);
  llvm::Error checkNames(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);
  llvm::Error
  collectBatch(llvm::ArrayRef<const proto::ValueInfoProto *> inputs);

  const Model &model;
  const ImportOptions &options;
  llvm::StringMap<int64_t> symbols;
};

/// "f32[N,1,28,28]", "seq(f32)": the declared type, for people.
std::string printType(const Model &model, const proto::TypeProto &type);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_SHAPES_H
