// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Updates/Muon.h"

#include "compiler/Dialect/MPC/Facts/LowUpdates.h"
#include "passes/Differentiation/NamePatterns.h"
#include "passes/Differentiation/Updates/UpdateArithmetic.h"
#include "passes/Differentiation/WeightedProducts.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

// Newton-Schulz coefficients of Muon's authors, which PyTorch has too.
static constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

// Returns `alpha` * op(lhs) op(rhs) of two matrices. The precision policy may
// compute the product in the low type.
static Value multiplyMatrices(OpBuilder &b, Location loc, Value lhs, Value rhs,
                              bool transA, bool transB, double alpha = 1.0) {
  auto left = cast<RankedTensorType>(lhs.getType());
  auto right = cast<RankedTensorType>(rhs.getType());
  auto type =
      left.clone({left.getDimSize(transA ? 1 : 0), right.getDimSize(!transB)});
  auto product = MatMulOp::create(b, loc, type, lhs, rhs, transA, transB,
                                  llvm::APFloat(alpha));
  product->setAttr(kLowUpdateAttr, b.getUnitAttr());
  return product;
}

// Returns a matrix near the orthogonal matrix U V^T of the singular value
// decomposition U S V^T of `matrix`, by Newton-Schulz iterations. With X of
// norm 1 at first and G = X X^T, an iteration is X' = a X + (b G + c G G) X.
// For a tall X, G = X^T X is the smaller product, and is multiplied from the
// right.
static Value orthogonalize(OpBuilder &b, Location loc, Value matrix,
                           const OptimizerSettings &s) {
  auto type = cast<RankedTensorType>(matrix.getType());
  bool isTall = type.getDimSize(0) > type.getDimSize(1);
  Value norm = normOf(b, loc, matrix);
  norm = ClipOp::create(b, loc, norm.getType(), norm,
                        b.getF64FloatAttr(*s.epsilon), FloatAttr());
  Value x = DivOp::create(b, loc, type, matrix, norm);
  for (int64_t i = 0; i < s.nsSteps; ++i) {
    Value gram = multiplyMatrices(b, loc, x, x, isTall, !isTall);
    Value square = multiplyMatrices(b, loc, gram, gram, false, false, kC);
    Value sum = AddOp::create(b, loc, gram.getType(), scaleBy(b, loc, gram, kB),
                              square);
    Value change = isTall ? multiplyMatrices(b, loc, x, sum, false, false)
                          : multiplyMatrices(b, loc, sum, x, false, false);
    x = AddOp::create(b, loc, type, scaleBy(b, loc, x, kA), change);
  }
  return x;
}

// Returns the factor of the learning rate for a layer.
static double adjustLearningRate(AdjustLRFn function, double outputs,
                                 double inputs) {
  switch (function) {
  case AdjustLRFn::Original:
    return std::sqrt(std::max(1.0, outputs / inputs));
  case AdjustLRFn::MatchRMSAdamW:
    return 0.2 * std::sqrt(std::max(outputs, inputs));
  case AdjustLRFn::SpectralUnclamped:
    return std::sqrt(outputs / inputs);
  }
  llvm_unreachable("unknown adjustment of the learning rate");
}

// With the momentum mu, the moving average of gradients g is
// v' = mu * v + (1 - mu) * g. The step is u = mu * v' + (1 - mu) * g, or v'
// with noNesterov. The parameter becomes p - lr * (factor * orthogonalize(u) +
// weight_decay * p). A filter [out, in, h, w] is a matrix of `out` rows.
SmallVector<Value> mpc::buildMuon(OpBuilder &b, Location loc,
                                  const UpdateInputs &in,
                                  const OptimizerSettings &s) {
  assert(in.state.size() == 1 && "Muon keeps a velocity");
  Value velocity = averageOf(b, loc, in.state[0], in.grad, *s.momentum);
  Value step = s.noNesterov ? velocity
                            : averageOf(b, loc, velocity, in.grad, *s.momentum);
  auto type = cast<RankedTensorType>(step.getType());
  int64_t rows = type.getDimSize(0), columns = type.getNumElements() / rows;
  auto matrixType = type.clone({rows, columns});
  if (type != matrixType)
    step = ReshapeOp::create(b, loc, matrixType, step);
  Value direction = orthogonalize(b, loc, step, s);
  double factor = adjustLearningRate(
      s.adjustLRFn.value_or(AdjustLRFn::Original),
      in.inputsFirst ? columns : rows, in.inputsFirst ? rows : columns);
  if (factor != 1.0)
    direction = scaleBy(b, loc, direction, factor);
  if (type != matrixType)
    direction = ReshapeOp::create(b, loc, type, direction);
  Value param =
      SGDOp::create(b, loc, in.param.getType(), in.param, direction,
                    in.learningRate, Value(), llvm::APFloat(*s.weightDecay));
  return {param, velocity};
}

//===----------------------------------------------------------------------===//
// The parameters
//===----------------------------------------------------------------------===//

static InFlightDiagnostic reportMuon(FunctionEditor &step) {
  return withExitCode(mlir::emitError(step.get()->getParentOp()->getLoc()),
                      ExitCode::Usage);
}

// Chooses the parameters that the patterns of --muon match.
static LogicalResult chooseByName(FunctionEditor &step,
                                  ArrayRef<VariableOp> trainables,
                                  const OptimizerSettings &settings,
                                  MutableArrayRef<MuonChoice> choices) {
  NamePatterns patterns("--muon", settings.muon);
  for (auto [trainable, choice] : llvm::zip_equal(trainables, choices)) {
    VariableOp variable = trainable; // a handle without const accessors
    choice.isMuon = patterns.match(variable);
    if (choice.isMuon && variable.getTensorType().getRank() < 2)
      return reportMuon(step) << "--muon: '" << variable.getSymName()
                              << "' is a " << variable.getTensorType()
                              << "; Muon trains matrices, so leave it to AdamW";
  }
  return patterns.verify(step.get()->getParentOp()->getLoc());
}

FailureOr<SmallVector<MuonChoice>>
mpc::chooseMuon(FunctionEditor &step, ArrayRef<VariableOp> trainables,
                const OptimizerSettings &settings) {
  SmallVector<MuonChoice> choices(trainables.size());
  SmallVector<WeightedProduct> products = findWeightedProducts(step);
  for (auto [trainable, choice] : llvm::zip_equal(trainables, choices)) {
    Value weight = step.state(trainable);
    int64_t rank = cast<RankedTensorType>(weight.getType()).getRank();
    choice.isMuon = isReadByProductsOnly(weight, products) &&
                    (rank == 2 || (rank > 2 && settings.muonFilters));
    for (const WeightedProduct &product : products) {
      if (product.source != weight)
        continue;
      choice.inputsFirst = product.inputsFirst;
      choice.isMuon &= !product.isHead && isa<ConvOp>(product.op) == rank > 2;
    }
  }
  if (!settings.muon.empty() &&
      failed(chooseByName(step, trainables, settings, choices)))
    return failure();
  if (llvm::none_of(choices, [](MuonChoice choice) { return choice.isMuon; }))
    return reportMuon(step)
           << "--optimizer muon trains matrices of hidden layers, and none is "
              "trained; name parameters with --muon REGEX, add --muon-filters "
              "for filters of convolutions, or use --optimizer adamw";
  return choices;
}
