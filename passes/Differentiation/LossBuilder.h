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

/// A loss of the recipe together with the values in a function: the output that
/// the loss reads, and the name of the labels.
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
  /// The weight of each sample in the mean; null if all samples weigh the same.
  /// The mean over several batches is the sum of all `perSample` divided by the
  /// sum of all `sampleWeight`.
  mlir::Value sampleWeight = {};
  /// The op that compares scores with class labels; null for other losses.
  mlir::Operation *labelLoss = nullptr;
  /// Without `labelLoss`: scores with classes on axis 1 and their class labels,
  /// from which the accuracy follows. Null for losses of other targets.
  mlir::Value scores = {}, labels = {};
};

/// Builds one loss in one function, @step or @eval.
class LossBuilder {
public:
  /// With `perSample`, also builds the loss of each sample. `sampleLabels` is
  /// the shape of one sample's labels; nullopt if unknown. With `isDouble`
  /// (mode 64-true), computes the loss in f64, even for 16-bit outputs.
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
  /// Adds an input of labels that reads the same array as `input`, an input of
  /// the model.
  llvm::FailureOr<mlir::Value> addLabelsBeside(mlir::Value input,
                                               llvm::StringRef name,
                                               mlir::RankedTensorType type);
  /// Returns the shape of the label input: from an input of the model called
  /// `target`, or else from the data; nullopt if unknown.
  std::optional<Shape> findLabelShape(llvm::StringRef target);
  llvm::FailureOr<int64_t> findClassAxis(const PlacedLoss &loss,
                                         mlir::Value scores,
                                         const std::optional<Shape> &labels);
  /// Returns the axis of the samples in `output`; nullopt if unknown.
  std::optional<SampleAxis> findSamples(mlir::Value output);
  /// Moves the samples of `output` to axis 0, where labels have their samples:
  /// [time, batch, 8] becomes [batch, time, 8]. Splits a flattened axis [time *
  /// batch] in two, and updates `classAxis`. Returns `output` unchanged if
  /// `target` is an input of the model with samples on the same axis as
  /// `output`.
  mlir::Value moveSamplesFirst(mlir::Value output, llvm::StringRef target,
                               std::optional<int64_t> &classAxis);
  llvm::FailureOr<Shape> chooseLabelShape(LossKind kind,
                                          llvm::ArrayRef<int64_t> positions,
                                          const std::optional<Shape> &labels,
                                          mlir::Value scores);
  /// True if `labels`, a shape, has one label per position of the scores.
  /// `positions` is the shape of the scores without classes. Its axis 0 may
  /// combine samples and positions: labels [B, T] fit positions [B * T].
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
  /// Builds softmax_cross_entropy for probabilities of classes instead of
  /// labels. `given` is the shape of the probabilities.
  llvm::FailureOr<Loss> buildOfProbabilities(const PlacedLoss &loss,
                                             mlir::Value scores,
                                             llvm::ArrayRef<int64_t> given);
  /// Creates the loss op that compares `labels` with `rows`. Axis 1 of `rows`
  /// holds the scores of the classes.
  mlir::Operation *createLabelLoss(LossKind kind, mlir::Value rows,
                                   mlir::Value labels, LossReduction reduction);
  /// Builds the prediction for evaluation: the scores in the shape of the
  /// labels, with an axis of classes inserted as axis 1. In `rows`, classes are
  /// followed by the last `axesBehind` axes of the labels.
  mlir::Value buildPrediction(mlir::Value rows,
                              llvm::ArrayRef<int64_t> labelShape,
                              size_t axesBehind);
  /// Returns the weight of each label in the mean, in the shape of `labels`:
  /// the class weight, or 0 for an ignored label.
  mlir::Value buildLabelWeights(mlir::Value rows, mlir::Value labels);
  /// Reduces `each`, one loss per label, to one loss per sample and a total.
  /// `op` becomes Loss::labelLoss. `weights` has a weight per label; null if
  /// all labels weigh the same.
  Loss reduceLabels(mlir::Value each, mlir::Operation *op, mlir::Value weights,
                    llvm::ArrayRef<int64_t> labelShape);
  /// Builds the focal and the dice loss of class labels. Axis 1 of `rows` has
  /// the scores of the classes; `labels` has the other axes of `rows`.
  /// `labelShape` is the shape of the label input: [samples, ...].
  Loss buildFocal(mlir::Value rows, mlir::Value labels,
                  llvm::ArrayRef<int64_t> labelShape);
  Loss buildDice(mlir::Value rows, mlir::Value labels,
                 llvm::ArrayRef<int64_t> labelShape);
  /// Returns the focal loss of each element of `output`, which has logits.
  mlir::Value buildSigmoidFocal(mlir::Value output, mlir::Value target);
  llvm::FailureOr<Loss> buildSigmoidDice(mlir::Value output,
                                         mlir::Value target);
  /// Returns 1 - (2 sum(p t) + s) / (sum(p + t) + s), with sums over `axes`.
  mlir::Value buildDiceOf(mlir::Value p, mlir::Value t,
                          llvm::ArrayRef<int64_t> axes);
  /// Reduces `losses`, [samples] or [samples, classes]. `weights` has a weight
  /// per class; empty for equal weights.
  Loss reduceDice(mlir::Value losses, llvm::ArrayRef<double> weights);
  /// Returns `base` ^ gamma, whose gradient is finite at 0. `base` is at least
  /// 0.
  mlir::Value raiseToGamma(mlir::Value base);
  /// Returns the class weights of the recipe as a constant; null if the recipe
  /// has none.
  llvm::FailureOr<mlir::Value> buildClassWeights(mlir::Value scores,
                                                 int64_t classes);
  llvm::FailureOr<Loss> buildElementwise(LossKind kind, mlir::Value output,
                                         llvm::StringRef target);
  llvm::FailureOr<Loss> buildOutput(mlir::Value output);
  llvm::FailureOr<mlir::Value> errorOf(LossKind kind, mlir::Value output,
                                       mlir::Value target);
  mlir::Value buildHuber(mlir::Value error);
  /// Returns the element type in which the loss of `output` is computed.
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
  /// Reports an error if a Softmax computes `output`, since `kind` needs
  /// logarithms. Warns if a layer without any activation computes `output`.
  mlir::LogicalResult verifyLogProbabilities(LossKind kind, mlir::Value output);
  /// Returns the common number of samples of all inputs; nullopt if inputs
  /// differ.
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
  /// Class weights of the current loss; null if the recipe has none.
  mlir::Value classWeights;
};

/// Returns the op that computes `value`, looking through changes of shape and
/// type.
mlir::Operation *throughViews(mlir::Value value);

/// Transposes `value` so that axis `from` becomes axis `to`.
mlir::Value moveAxis(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value value, int64_t from, int64_t to);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H
