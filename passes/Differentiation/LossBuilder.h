// Builds the losses that `mpc-add-loss` adds to a function.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H
#define MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/MPC/Recipe/Recipe.h"
#include "compiler/Interfaces/SampleAxisOpInterface.h"

#include "mlir/IR/Builders.h"

#include <optional>
#include <string>

namespace mpc {

using Shape = llvm::SmallVector<int64_t>;

/// A loss, with the output and the labels in one function.
struct PlacedLoss {
  LossSpec spec; ///< with the output's name alone, without :AXIS
  std::optional<int64_t> classAxis;
  mlir::Value output;
  std::string target; ///< the name of the label input
};

/// A built loss. `total` is the value to minimise. `perSample` is the loss of
/// each sample; null if not requested or not possible. `prediction` is the
/// value compared with the targets, with classes on axis 1; null if unknown.
struct Loss {
  mlir::Value total, perSample, prediction;
  /// The weight of each sample in a mean; null if samples weigh equally. The
  /// mean over several batches is the sum of `perSample` divided by the sum of
  /// `sampleWeight`.
  mlir::Value sampleWeight = {};
  /// The op that compares scores with class labels; null for other losses.
  mlir::Operation *labelLoss = nullptr;
};

/// Builds the loss of one function.
class LossBuilder {
public:
  /// With `perSample`, builds the loss of each sample too. `sampleLabels` is
  /// the shape of one sample's labels; nullopt if unknown. With `isDouble`,
  /// computes the loss and targets in f64, also for 16-bit outputs, like
  /// everything that mode 64-true adds to a model.
  LossBuilder(FunctionEditor &function, mlir::OpBuilder &builder,
              bool perSample, std::optional<Shape> sampleLabels,
              const Recipe &recipe, bool isDouble)
      : function(function), builder(builder), perSample(perSample),
        sampleLabels(std::move(sampleLabels)), recipe(recipe),
        isDouble(isDouble) {}

  llvm::FailureOr<Loss> build(const PlacedLoss &loss);

private:
  llvm::FailureOr<mlir::Value> addLabels(llvm::StringRef name,
                                         mlir::RankedTensorType type);
  /// Adds an input of labels from the array of an input that the model reads.
  llvm::FailureOr<mlir::Value> addLabelsBeside(mlir::Value input,
                                               llvm::StringRef name,
                                               mlir::RankedTensorType type);
  /// Returns the labels' shape given by an input of the model or by the data;
  /// nullopt if unknown.
  std::optional<Shape> findLabelShape(llvm::StringRef target);
  llvm::FailureOr<int64_t> findClassAxis(const PlacedLoss &loss,
                                         mlir::Value scores,
                                         const std::optional<Shape> &labels);
  /// Returns the axis of the samples in `output`; nullopt if unknown.
  std::optional<SampleAxis> findSamples(mlir::Value output);
  /// Moves the samples of `output` to axis 0, the axis of samples in labels.
  /// Returns `output` unchanged if the model's own input `target` has the
  /// samples on the axis of `output`. Splits an axis of positions and samples
  /// into two, and updates `classAxis`.
  mlir::Value moveSamplesFirst(mlir::Value output, llvm::StringRef target,
                               std::optional<int64_t> &classAxis);
  llvm::FailureOr<Shape> chooseLabelShape(llvm::ArrayRef<int64_t> positions,
                                          const std::optional<Shape> &labels,
                                          mlir::Value scores);
  /// True if labels of shape `labels` name one class per position. The first
  /// axis of `positions` may combine samples and positions: [B, T] fits [B *
  /// T].
  bool fits(llvm::ArrayRef<int64_t> labels, llvm::ArrayRef<int64_t> positions);
  /// Checks that a loss of `kind` fits `scores`: the rank is at least 2, the
  /// scores are not empty, and no Softmax computes them. Warns of a LogSoftmax
  /// before softmax_cross_entropy.
  mlir::LogicalResult verifyScores(LossKind kind, mlir::Value scores);
  /// Builds the loss of class labels, from scores or from log-probabilities.
  llvm::FailureOr<Loss> buildOfClasses(PlacedLoss loss);
  /// Applies label smoothing to targets with classes along `axis`, and
  /// multiplies by the class weights. `weights` may be null.
  mlir::Value weighTargets(mlir::Value targets, int64_t axis,
                           mlir::Value weights);
  /// Builds the loss for probabilities of classes as targets. `given` is the
  /// shape of the targets.
  llvm::FailureOr<Loss> buildOfProbabilities(const PlacedLoss &loss,
                                             mlir::Value scores,
                                             llvm::ArrayRef<int64_t> given);
  /// Creates the loss op that compares `labels` with `rows`, whose classes are
  /// on axis 1.
  mlir::Operation *createLabelLoss(LossKind kind, mlir::Value rows,
                                   mlir::Value labels, LossReduction reduction);
  /// Builds the prediction for evaluation: `rows`, with classes on axis 1, in
  /// the shape of the labels plus an axis of classes. In `rows`, the last
  /// `axesBehind` axes of the labels follow the classes.
  mlir::Value buildPrediction(mlir::Value rows,
                              llvm::ArrayRef<int64_t> labelShape,
                              size_t axesBehind);
  /// Returns the weight of each label in a mean, in the shape of `labels`.
  mlir::Value buildLabelWeights(mlir::Value rows, mlir::Value labels);
  /// Reduces the loss of each label to the loss of each sample and the total
  /// loss. `weights` are null if labels weigh equally.
  Loss reduceLabels(mlir::Operation *op, mlir::Value weights,
                    llvm::ArrayRef<int64_t> labelShape);
  /// Returns class weights as a constant; null if none are given.
  llvm::FailureOr<mlir::Value> buildClassWeights(mlir::Value scores,
                                                 int64_t classes);
  llvm::FailureOr<Loss> buildElementwise(LossKind kind, mlir::Value output,
                                         llvm::StringRef target);
  llvm::FailureOr<Loss> buildOutput(mlir::Value output);
  llvm::FailureOr<mlir::Value> errorOf(LossKind kind, mlir::Value output,
                                       mlir::Value target);
  mlir::Value buildHuber(mlir::Value error);
  /// Returns the type in which losses of `output` are computed.
  mlir::Type lossElementType(mlir::Value output);
  mlir::Value buildKLDiv(mlir::Value output, mlir::Value target);
  llvm::FailureOr<mlir::Value> buildBCEWithLogits(mlir::Value output,
                                                  mlir::Value target);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape,
                      llvm::StringRef name);
  mlir::Value mean(mlir::Value value, unsigned firstAxis, llvm::StringRef name);
  mlir::Value sum(mlir::Value value, unsigned firstAxis, llvm::StringRef name);
  mlir::Value scalar(double value, mlir::Type element);
  mlir::Value buildConstant(llvm::ArrayRef<double> values,
                            llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// Reports an error if a Softmax computed `output`, and warns of unbounded
  /// numbers.
  mlir::LogicalResult verifyLogProbabilities(LossKind kind, mlir::Value output);
  /// Returns the number of samples of all inputs; nullopt if inputs differ.
  std::optional<int64_t> batchSize();
  /// True if axis 0 of `value` has one index per sample.
  bool isPerSample(mlir::Value value);
  mlir::Location at(llvm::StringRef name) {
    return namedLocation(builder.getContext(), name);
  }

  FunctionEditor &function;
  mlir::OpBuilder &builder;
  bool perSample;
  std::optional<Shape> sampleLabels;
  const Recipe &recipe;
  bool isDouble;
  /// Class weights of the current loss; null if none are given.
  mlir::Value classWeights;
};

/// Returns the op that computes `value`, looking through changes of shape and
/// type.
mlir::Operation *throughViews(mlir::Value value);

/// Transposes `value` so that axis `from` becomes axis `to`.
mlir::Value moveAxis(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value value, int64_t from, int64_t to);

/// Prints "[2,3]".
std::string printShape(llvm::ArrayRef<int64_t> shape);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H
