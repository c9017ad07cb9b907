// The losses that `mpc-add-loss` adds to a function.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H
#define MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H

#include "passes/Differentiation/TrainingFunction.h"

#include "mlir/IR/Builders.h"

#include <optional>
#include <string>

namespace mpc {

enum class LossKind { SoftmaxCrossEntropy, MSE, L1, BCEWithLogits, Output };

/// A loss as the user names it.
struct LossSpec {
  LossKind kind;
  std::string output; ///< empty: the model's only one
  std::optional<int64_t> classAxis;
};

using Shape = llvm::SmallVector<int64_t>;

/// What the loss functions below make: always the mean, and the loss of every
/// sample where asked for and possible. `prediction` is what the loss is of,
/// with classes on axis 1.
struct Loss {
  mlir::Value mean, perSample, prediction;
};

/// Builds the loss of one function.
class LossBuilder {
public:
  /// `sampleLabels` is the shape of one sample's labels, where it is known.
  LossBuilder(TrainingFunction &function, mlir::OpBuilder &builder,
              bool perSample, std::optional<Shape> sampleLabels)
      : function(function), builder(builder), perSample(perSample),
        sampleLabels(std::move(sampleLabels)) {}

  llvm::FailureOr<Loss> build(const LossSpec &spec, mlir::Value output,
                              llvm::StringRef target);

private:
  llvm::FailureOr<mlir::Value> addLabels(llvm::StringRef name,
                                         mlir::RankedTensorType type);
  /// The labels' shape, as far as the model's input or the data says it.
  std::optional<Shape> findLabelShape(llvm::StringRef target);
  llvm::FailureOr<int64_t> findClassAxis(const LossSpec &spec,
                                         mlir::Value scores,
                                         const std::optional<Shape> &labels);
  mlir::LogicalResult verifySampleMajor(mlir::Value scores);
  llvm::FailureOr<Shape> chooseLabelShape(llvm::ArrayRef<int64_t> positions,
                                          const std::optional<Shape> &labels,
                                          mlir::Value scores);
  /// Whether labels of that shape name one class for each of the positions,
  /// whose first axis may be of samples times positions.
  bool fits(llvm::ArrayRef<int64_t> labels, llvm::ArrayRef<int64_t> positions);
  llvm::FailureOr<Loss> buildSoftmaxCrossEntropy(const LossSpec &spec,
                                                 mlir::Value scores,
                                                 llvm::StringRef target);
  llvm::FailureOr<Loss> buildElementwise(LossKind kind, mlir::Value output,
                                         llvm::StringRef target);
  llvm::FailureOr<Loss> buildOutput(mlir::Value output);
  mlir::Value errorOf(LossKind kind, mlir::Value output, mlir::Value target);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape,
                      llvm::StringRef name);
  mlir::Value mean(mlir::Value value, unsigned firstAxis, llvm::StringRef name);
  /// The leading axis of all inputs of samples; nothing where they differ.
  std::optional<int64_t> batchSize();
  /// Whether it is the value's leading axis too.
  bool isPerSample(mlir::Value value);
  mlir::Location at(llvm::StringRef name) {
    return namedLocation(builder.getContext(), name);
  }

  TrainingFunction &function;
  mlir::OpBuilder &builder;
  bool perSample;
  std::optional<Shape> sampleLabels;
};

/// The op whose values `value` holds, past changes of shape and type.
mlir::Operation *throughViews(mlir::Value value);

/// The type losses of `output` are computed in.
mlir::Type lossElementType(mlir::Value output);

/// "[2,3]"
std::string printShape(llvm::ArrayRef<int64_t> shape);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H
