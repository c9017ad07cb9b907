// The losses that `mpc-add-loss` adds to a function.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H
#define MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Interfaces/SampleAxisOpInterface.h"
#include "passes/Differentiation/LossSpec.h"

#include "mlir/IR/Builders.h"

#include <optional>
#include <string>

namespace mpc {

using Shape = llvm::SmallVector<int64_t>;

/// What losses have in common, by the names of `mpc-add-loss`.
struct LossSettings {
  /// The sum over all elements or labels instead of their mean.
  bool isSum = false;
  /// Of outputs of 16 bits, too, the loss and its targets are f64, as all is
  /// that 64-true adds to a model.
  bool isDouble = false;
  std::optional<int64_t> ignoreIndex;
  double labelSmoothing = 0;
  /// One of each class, or none.
  std::vector<double> classWeights;
  /// One for all, one of each class, or none.
  std::vector<double> posWeight;

  /// Whether labels count differently in a mean.
  bool weighsLabels() const { return ignoreIndex || !classWeights.empty(); }
};

/// What the loss functions below make: always what is minimised, and the loss
/// of every sample where asked for and possible. `prediction` is what the loss
/// is of, with classes on axis 1.
struct Loss {
  mlir::Value total, perSample, prediction;
  /// How much of a mean each sample is, where not all count alike: the mean of
  /// several is then the sum of `perSample` over the sum of these.
  mlir::Value sampleWeight = {};
  /// What compares scores with labels, where there are classes.
  mlir::Operation *labelLoss = nullptr;
};

/// Builds the loss of one function.
class LossBuilder {
public:
  /// `sampleLabels` is the shape of one sample's labels, where it is known.
  LossBuilder(FunctionEditor &function, mlir::OpBuilder &builder,
              bool perSample, std::optional<Shape> sampleLabels,
              LossSettings settings)
      : function(function), builder(builder), perSample(perSample),
        sampleLabels(std::move(sampleLabels)), settings(std::move(settings)) {}

  llvm::FailureOr<Loss> build(const LossSpec &spec, mlir::Value output,
                              llvm::StringRef target);

private:
  llvm::FailureOr<mlir::Value> addLabels(llvm::StringRef name,
                                         mlir::RankedTensorType type);
  /// Labels of the array of an input that the model reads.
  llvm::FailureOr<mlir::Value> addLabelsBeside(mlir::Value input,
                                               llvm::StringRef name,
                                               mlir::RankedTensorType type);
  /// The labels' shape, as far as the model's input or the data says it.
  std::optional<Shape> findLabelShape(llvm::StringRef target);
  llvm::FailureOr<int64_t> findClassAxis(const LossSpec &spec,
                                         mlir::Value scores,
                                         const std::optional<Shape> &labels);
  /// Where `output` has the samples; nothing where that is not known.
  std::optional<SampleAxis> findSamples(mlir::Value output);
  /// `output` with its samples on axis 0, as labels have them, unless the
  /// model's own input `target` has them where the output does. An axis of
  /// positions and samples becomes two. `classAxis` moves along.
  mlir::Value moveSamplesFirst(mlir::Value output, llvm::StringRef target,
                               std::optional<int64_t> &classAxis);
  llvm::FailureOr<Shape> chooseLabelShape(llvm::ArrayRef<int64_t> positions,
                                          const std::optional<Shape> &labels,
                                          mlir::Value scores);
  /// Whether labels of that shape name one class for each of the positions,
  /// whose first axis may be of samples times positions.
  bool fits(llvm::ArrayRef<int64_t> labels, llvm::ArrayRef<int64_t> positions);
  /// Checks that a loss of `kind` fits `scores`: their rank is 2 or more, and
  /// the op that gives them makes log-probabilities for nll, and is no softmax
  /// for softmax_cross_entropy.
  mlir::LogicalResult verifyScores(LossKind kind, mlir::Value scores);
  /// The loss of class labels, from scores or from log-probabilities.
  llvm::FailureOr<Loss> buildOfClasses(const LossSpec &asked,
                                       mlir::Value output,
                                       llvm::StringRef target);
  /// Targets after smoothing of the classes along `axis`, times the weights of
  /// classes, which may be null.
  mlir::Value weighTargets(mlir::Value targets, int64_t axis,
                           mlir::Value weights);
  /// The loss of probabilities of classes, targets of the shape `given`.
  llvm::FailureOr<Loss> buildOfProbabilities(const LossSpec &spec,
                                             mlir::Value scores,
                                             llvm::StringRef target,
                                             llvm::ArrayRef<int64_t> given);
  /// `labels` against `rows`, whose classes are on axis 1, by `reduction`.
  mlir::Operation *createLabelLoss(LossKind kind, mlir::Value rows,
                                   mlir::Value labels, LossReduction reduction);
  /// What evaluation compares with labels of `labelShape`: `rows`, whose
  /// classes are on axis 1, in the labels' shape with an axis of classes more.
  /// In `rows` classes stand before the last `axesBehind` axes of the labels.
  mlir::Value buildPrediction(mlir::Value rows,
                              llvm::ArrayRef<int64_t> labelShape,
                              size_t axesBehind);
  /// How much of a mean each label is, in the shape of `labels`.
  mlir::Value buildLabelWeights(mlir::Value rows, mlir::Value labels);
  /// The loss of every sample and the loss of all, given the loss of each
  /// label.
  Loss reduceLabels(mlir::Operation *op, mlir::Value weights,
                    llvm::ArrayRef<int64_t> labelShape);
  /// Class weights as a constant of `element`; null where there are none.
  llvm::FailureOr<mlir::Value> buildClassWeights(mlir::Value scores,
                                                 int64_t classes);
  llvm::FailureOr<Loss> buildElementwise(LossKind kind, mlir::Value output,
                                         llvm::StringRef target);
  llvm::FailureOr<Loss> buildOutput(mlir::Value output);
  llvm::FailureOr<mlir::Value> errorOf(LossKind kind, mlir::Value output,
                                       mlir::Value target);
  mlir::Value buildHuber(mlir::Value error);
  /// The type that losses of `output` are computed in.
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
  /// Refuses probabilities.
  mlir::LogicalResult verifyLogProbabilities(LossKind kind, mlir::Value output);
  /// The number of samples of all inputs; nothing if they differ.
  std::optional<int64_t> batchSize();
  /// Whether it is the value's leading axis too.
  bool isPerSample(mlir::Value value);
  mlir::Location at(llvm::StringRef name) {
    return namedLocation(builder.getContext(), name);
  }

  FunctionEditor &function;
  mlir::OpBuilder &builder;
  bool perSample;
  std::optional<Shape> sampleLabels;
  LossSettings settings;
  /// Of the loss of classes that is built.
  mlir::Value classWeights;
};

/// The op whose values `value` holds, past changes of shape and type.
mlir::Operation *throughViews(mlir::Value value);

/// `value` with axis `from` moved to where it is axis `to`.
mlir::Value moveAxis(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value value, int64_t from, int64_t to);

/// "[2,3]"
std::string printShape(llvm::ArrayRef<int64_t> shape);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_LOSSBUILDER_H
