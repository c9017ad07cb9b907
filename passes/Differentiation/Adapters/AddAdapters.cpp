// Adds low-rank adapters (LoRA, Hu et al. 2021) to the layers that --lora
// names. A layer with a frozen weight W then computes x (W + scale * B A)^T,
// and only A and B are trained.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/Facts/Adapters.h"
#include "compiler/Dialect/MPC/Facts/Dequantized.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/Adapters/LoRASpec.h"
#include "passes/Differentiation/NamePatterns.h"
#include "passes/Differentiation/RecipeOptions.h"
#include "passes/Differentiation/WeightedProducts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"

#include <cmath>
#include <random>

namespace mpc {
#define GEN_PASS_DEF_ADDADAPTERSPASS
#include "passes/Differentiation/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// An adaptable weight.
struct AdaptedWeight {
  Value source;        ///< see WeightedProduct
  VariableOp variable; ///< null if `source` holds no variable
  std::string name;    ///< of the variable, or of the node of `source`
  SmallVector<WeightedProduct, 1> products;

  bool isFilter() const { return isa<ConvOp>(products.front().op); }
  bool isHead() const {
    return llvm::any_of(products, [](const WeightedProduct &product) {
      return product.isHead;
    });
  }
  int64_t getExtent(bool ofInputs) const {
    auto type = cast<RankedTensorType>(source.getType());
    return type.getDimSize(ofInputs != products.front().inputsFirst ? 1 : 0);
  }
};

class AddAdaptersPass : public mpc::impl::AddAdaptersPassBase<AddAdaptersPass> {
public:
  using AddAdaptersPassBase::AddAdaptersPassBase;
  AddAdaptersPass(const AddAdaptersPass &other) : AddAdaptersPassBase(other) {}

private:
  void runOnOperation() override;
  LogicalResult adapt(func::FuncOp forward);
  SmallVector<AdaptedWeight> findWeights(FunctionEditor &forward);
  LogicalResult choose(MutableArrayRef<AdaptedWeight> weights,
                       MutableArrayRef<const LoRASpec *> chosen);
  LogicalResult addAdapter(FunctionEditor &forward, const AdaptedWeight &weight,
                           const LoRASpec &spec);
  FailureOr<VariableOp> declare(Location location, const Twine &name,
                                RankedTensorType type);
  ElementsAttr createInit(StringRef name, RankedTensorType type);
  LogicalResult verifyGivenValues();
  InFlightDiagnostic report(Location location) {
    return withExitCode(mlir::emitError(location), ExitCode::Usage);
  }

  RecipeOptions options{*this, RecipeOptions::Part::Adapters};
  Recipe recipe;
  SmallVector<LoRASpec> specs;
  std::optional<VariableTable> variables;
};
} // namespace

//===----------------------------------------------------------------------===//
// The weights
//===----------------------------------------------------------------------===//

// True if an adapter can follow the product: a matrix product, or a
// convolution with a matrix for each position.
static bool isAdaptable(const WeightedProduct &product) {
  auto type = cast<RankedTensorType>(product.source.getType());
  auto conv = dyn_cast<ConvOp>(product.op);
  if (!conv)
    return type.getRank() == 2;
  return conv.getGroup() == 1 && product.weight->get() == product.source &&
         llvm::all_of(type.getShape().drop_front(2),
                      [](int64_t extent) { return extent == 1; });
}

// True if ops compute `source` from integers and constants: a dequantized
// weight. False for a constant matrix, such as the weights of an interpolation.
// False if a parameter takes part, as in weight normalization: no file could
// receive the sum of the parameter and the adapter.
static bool isDequantized(const FunctionEditor &forward,
                          const VariableTable &variables, Value source) {
  SmallVector<Value> pending = {source};
  DenseSet<Value> seen;
  bool hasIntegers = false;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    hasIntegers |= isa<IntegerType>(
        cast<RankedTensorType>(value.getType()).getElementType());
    if (Operation *op = value.getDefiningOp()) {
      hasIntegers |= op->hasAttr(kDequantizedAttr);
      llvm::append_range(pending, op->getOperands());
      continue;
    }
    VariableOp variable = variables.lookupVariable(forward.variableOf(value));
    if (variable && variable.getRole() == Role::Parameter)
      return false;
  }
  return hasIntegers;
}

// Returns the weights that adapters can change, with all their products.
SmallVector<AdaptedWeight>
AddAdaptersPass::findWeights(FunctionEditor &forward) {
  SmallVector<WeightedProduct> products = findWeightedProducts(forward);
  llvm::MapVector<Value, AdaptedWeight> weights;
  for (const WeightedProduct &product : products) {
    AdaptedWeight &weight = weights[product.source];
    weight.source = product.source;
    weight.products.push_back(product);
  }
  SmallVector<AdaptedWeight> adaptable;
  for (auto &[source, weight] : weights) {
    // Layers can share an adapter only with equal orientation.
    const WeightedProduct &first = weight.products.front();
    bool fits =
        isReadByProductsOnly(source, products) &&
        (isa<BlockArgument>(source) ||
         isDequantized(forward, *variables, source)) &&
        llvm::all_of(weight.products, [&](const WeightedProduct &product) {
          return isAdaptable(product) &&
                 product.inputsFirst == first.inputsFirst &&
                 isa<ConvOp>(product.op) == isa<ConvOp>(first.op);
        });
    if (!fits)
      continue;
    weight.variable = variables->lookupVariable(forward.variableOf(source));
    weight.name = weight.variable ? weight.variable.getSymName().str()
                                  : getNodeName(source.getDefiningOp()).str();
    adaptable.push_back(std::move(weight));
  }
  return adaptable;
}

// Sets, for each weight, the last --lora that matches; null for none.
LogicalResult
AddAdaptersPass::choose(MutableArrayRef<AdaptedWeight> weights,
                        MutableArrayRef<const LoRASpec *> chosen) {
  Location location = getOperation().getLoc();
  for (const LoRASpec &spec : specs) {
    std::vector<std::string> texts;
    if (!spec.pattern.empty())
      texts.push_back(spec.pattern);
    NamePatterns pattern("--lora", texts);
    bool isUsed = false;
    for (auto [weight, choice] : llvm::zip_equal(weights, chosen)) {
      bool isLinear = !weight.isFilter() && !weight.isHead();
      bool matches = !pattern.isGiven() ? isLinear
                     : weight.variable  ? pattern.match(weight.variable)
                                        : pattern.match(weight.name);
      if (!matches)
        continue;
      choice = &spec;
      isUsed = true;
    }
    if (failed(pattern.verify(location)))
      return failure();
    if (!isUsed)
      return report(location)
             << "--lora: the model has no matmul or gemm layer but the last; "
                "name layers, also 1x1 convolutions, with @REGEX";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The variables
//===----------------------------------------------------------------------===//

// Returns the initial value of A, as PEFT's: uniform between plus and minus the
// inverse root of the number of inputs. The values depend on seed and
// name only: other adapters change nothing.
ElementsAttr AddAdaptersPass::createInit(StringRef name,
                                         RankedTensorType type) {
  std::mt19937_64 random(llvm::xxh3_64bits(name) ^
                         static_cast<uint64_t>(recipe.loraSeed));
  const double bound = 1 / std::sqrt(static_cast<double>(type.getDimSize(1)));
  auto element = cast<FloatType>(type.getElementType());
  SmallVector<APFloat> values;
  for (int64_t i = 0, n = type.getNumElements(); i < n; ++i) {
    // 53 random bits make a number in [0, 1).
    const double unit = std::ldexp(static_cast<double>(random() >> 11), -53);
    APFloat value((2 * unit - 1) * bound);
    bool losesInfo;
    value.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    values.push_back(value);
  }
  return DenseElementsAttr::get(type, values);
}

// Rounds floats to the element type of `type`.
static DenseElementsAttr convertFloats(DenseElementsAttr elements,
                                       RankedTensorType type) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type.getElementType()).getFloatSemantics();
  SmallVector<APFloat> values;
  for (APFloat value : elements.getValues<APFloat>()) {
    bool losesInfo;
    value.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
    values.push_back(value);
  }
  return DenseElementsAttr::get(type, values);
}

// Declares the variable `name`. If a value of --weights has declared the
// variable, rounds the value to the type of the layer.
FailureOr<VariableOp> AddAdaptersPass::declare(Location location,
                                               const Twine &name,
                                               RankedTensorType type) {
  std::string text = name.str();
  if (!variables->lookup(text))
    return variables->declare(text, type, Role::Parameter);
  VariableOp given = variables->lookupVariable(text);
  if (!given || !isAdapter(given))
    return report(location) << "--lora: the model has '" << text
                            << "' already; choose other layers with @REGEX";
  auto elements = dyn_cast_or_null<DenseElementsAttr>(given.getInitAttr());
  if (elements && elements.getType().getShape() == type.getShape()) {
    given.setInitAttr(convertFloats(elements, type));
    given.setTypeAttr(TypeAttr::get(type));
  }
  if (given.getType() == type)
    return given;
  return report(location) << "the value given for '" << text << "' is "
                          << given.getType() << ", and --lora makes it " << type
                          << "; give the rank and the layers of the file";
}

// Reports values of --weights without an adapter.
LogicalResult AddAdaptersPass::verifyGivenValues() {
  llvm::StringSet<> used;
  for (const Adapter &adapter : listAdapters(getOperation())) {
    used.insert(adapter.a);
    used.insert(adapter.b);
  }
  for (auto variable : getOperation().getOps<VariableOp>())
    if (isAdapter(variable) && !used.contains(variable.getSymName()))
      return report(getOperation().getLoc())
             << "--weights gives '" << variable.getSymName()
             << "', and --lora adapts no such layer; name the layers of the "
                "file with @REGEX";
  return success();
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

namespace {
/// Builds the adapter of one product.
struct AdapterBuilder {
  OpBuilder builder;
  const WeightedProduct &product;
  Value a, b;
  double scale;

  AdapterBuilder(const WeightedProduct &product, Value a, Value b, double scale)
      : builder(product.op->getContext()), product(product), a(a), b(b),
        scale(scale) {
    builder.setInsertionPointAfter(product.op);
  }

  Value build();

private:
  Value buildMatrix(Value data, bool transposesData, double alpha);
  Value buildFilter(ConvOp conv);
  Location at(StringRef suffix) {
    return addSuffix(product.op->getLoc(), suffix);
  }
  RankedTensorType resultType() {
    return cast<RankedTensorType>(product.op->getResult(0).getType());
  }
  // Returns the type of the result with another extent of `axis`.
  RankedTensorType withExtent(int64_t axis, int64_t extent) {
    SmallVector<int64_t> shape(resultType().getShape());
    shape[axis] = extent;
    return resultType().clone(shape);
  }
  int64_t rank() { return cast<RankedTensorType>(a.getType()).getDimSize(0); }
};
} // namespace

// Returns `alpha` * B (A x) for a weight on the left, else alpha * (x A^T) B^T.
Value AdapterBuilder::buildMatrix(Value data, bool transposesData,
                                  double alpha) {
  bool isRight = product.weight->getOperandNumber() == 1;
  int64_t axis = resultType().getRank() - (isRight ? 1 : 2);
  RankedTensorType small = withExtent(axis, rank());
  APFloat one(1.0), factor(alpha);
  if (isRight) {
    Value inner = MatMulOp::create(builder, at("lora_A"), small, data, a,
                                   transposesData, true, one);
    return MatMulOp::create(builder, at("lora_B"), resultType(), inner, b,
                            false, true, factor);
  }
  Value inner = MatMulOp::create(builder, at("lora_A"), small, a, data, false,
                                 transposesData, one);
  return MatMulOp::create(builder, at("lora_B"), resultType(), b, inner, false,
                          false, factor);
}

// Returns two convolutions: by A with the layer's strides and paddings, then by
// B at each position.
Value AdapterBuilder::buildFilter(ConvOp conv) {
  auto inner = ConvOp::create(builder, at("lora_A"), withExtent(1, rank()),
                              conv.getInput(), a, Value(), conv.getStrides(),
                              conv.getPads(), conv.getDilations());
  SmallVector<int64_t> ones(conv.getStrides().size(), 1);
  SmallVector<int64_t> zeros(conv.getPads().size(), 0);
  Value outer = ConvOp::create(builder, at("lora_B"), resultType(), inner, b,
                               Value(), ones, zeros, ones);
  if (scale == 1.0)
    return outer;
  auto type = RankedTensorType::get({}, resultType().getElementType());
  Value factor = ConstantOp::create(
      builder, at("lora_scale"),
      DenseElementsAttr::get(
          type, builder.getFloatAttr(type.getElementType(), scale)));
  return MulOp::create(builder, at("lora_scale"), resultType(), outer, factor);
}

Value AdapterBuilder::build() {
  unsigned other = 1 - product.weight->getOperandNumber();
  Value data = product.op->getOperand(other);
  if (auto conv = dyn_cast<ConvOp>(product.op))
    return buildFilter(conv);
  if (auto gemm = dyn_cast<GemmOp>(product.op))
    return buildMatrix(data, other == 0 ? gemm.getTransA() : gemm.getTransB(),
                       scale * gemm.getAlpha().convertToDouble());
  auto matmul = cast<MatMulOp>(product.op);
  return buildMatrix(data, other == 0 ? matmul.getTransA() : matmul.getTransB(),
                     scale * matmul.getAlpha().convertToDouble());
}

LogicalResult AddAdaptersPass::addAdapter(FunctionEditor &forward,
                                          const AdaptedWeight &weight,
                                          const LoRASpec &spec) {
  Location location = weight.products.front().op->getLoc();
  int64_t inputs = weight.getExtent(/*ofInputs=*/true);
  int64_t outputs = weight.getExtent(/*ofInputs=*/false);
  StringRef module = weight.name;
  module.consume_back(".weight");
  Value result = weight.products.front().op->getResult(0);
  Type element = cast<RankedTensorType>(result.getType()).getElementType();
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(weight.source.getType()).getShape());
  shape[0] = spec.rank;
  shape[1] = inputs;
  auto a = declare(location, module + kAdapterASuffix,
                   RankedTensorType::get(shape, element));
  shape[0] = outputs;
  shape[1] = spec.rank;
  auto b = declare(location, module + kAdapterBSuffix,
                   RankedTensorType::get(shape, element));
  if (failed(a) || failed(b))
    return failure();
  // An adapter of --weights may have any rank.
  if (spec.rank > std::min(inputs, outputs) && !isAdapter(*a))
    return report(location)
           << "--lora: '" << weight.name << "' has " << inputs << " inputs and "
           << outputs << " outputs, so a rank of " << spec.rank
           << " saves nothing; give at most " << std::min(inputs, outputs)
           << ", or choose layers with @REGEX";
  // B starts at zero, so the adapter changes nothing at first. A value of
  // --weights stays.
  if (!isAdapter(*a))
    a->setInitAttr(createInit(a->getSymName(), a->getTensorType()));
  Adapter adapter;
  adapter.module = module.str();
  adapter.weight = weight.variable ? weight.name : "";
  adapter.b = b->getSymName().str();
  adapter.rank = spec.rank;
  adapter.alpha = spec.alpha;
  adapter.scale = spec.getScale();
  adapter.inputsFirst = weight.products.front().inputsFirst;
  setAdapter(*a, *b, adapter);
  for (const WeightedProduct &product : weight.products) {
    AdapterBuilder build(product, forward.state(*a), forward.state(*b),
                         adapter.scale);
    Value change = build.build();
    Value result = product.op->getResult(0);
    auto sum =
        AddOp::create(build.builder, addSuffix(product.op->getLoc(), "lora"),
                      result.getType(), result, change);
    result.replaceAllUsesExcept(sum, sum);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult AddAdaptersPass::adapt(func::FuncOp function) {
  variables.emplace(getOperation());
  FunctionEditor forward(function);
  SmallVector<AdaptedWeight> weights = findWeights(forward);
  SmallVector<const LoRASpec *> chosen(weights.size(), nullptr);
  if (failed(choose(weights, chosen)))
    return failure();
  for (auto [weight, spec] : llvm::zip_equal(weights, chosen))
    if (spec && failed(addAdapter(forward, weight, *spec)))
      return failure();
  forward.finish();
  return verifyGivenValues();
}

void AddAdaptersPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(options.applyTo(module)))
    return signalPassFailure();
  recipe = getRecipe(module);
  specs.clear();
  for (const std::string &text : recipe.lora) {
    llvm::Expected<LoRASpec> spec = parseLoRA(text);
    if (!spec) {
      report(module.getLoc()) << llvm::toString(spec.takeError());
      return signalPassFailure();
    }
    specs.push_back(std::move(*spec));
  }
  if (specs.empty())
    return;
  auto forward = module.lookupSymbol<func::FuncOp>(kForwardFunction);
  if (!forward) {
    report(module.getLoc()) << "--lora applies to a forward model, but this "
                               "one is a training graph already";
    return signalPassFailure();
  }
  if (failed(adapt(forward)))
    signalPassFailure();
}
