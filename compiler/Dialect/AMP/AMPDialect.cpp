// Registers the amp dialect; defines verifiers and folders of its ops.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/ConstantAttrs.h"
#include "compiler/Dialect/AMP/NodeIds.h"
#include "compiler/Dialect/AMP/TF32.h"

#include "compiler/Dialect/AMP/Request.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc::amp;

#include "compiler/Dialect/AMP/AMPDialect.cpp.inc"
#include "compiler/Dialect/AMP/AMPEnums.cpp.inc"

static ParseResult parseMode(AsmParser &parser, PrecisionMode &mode) {
  std::string word;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseString(&word))
    return failure();
  std::optional<PrecisionMode> known = symbolizePrecisionMode(word);
  if (!known)
    return parser.emitError(location, "unknown mode \"")
           << word << "\", expected 32-true, 16-mixed, bf16-mixed or 64-true";
  mode = *known;
  return success();
}

static void printMode(AsmPrinter &printer, PrecisionMode mode) {
  printer << '"' << stringifyPrecisionMode(mode) << '"';
}

// Parses a list of float types, such as [bf16, any].
static ParseResult parseTypes(AsmParser &parser, SmallVector<Type> &types) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    Type &type = types.emplace_back();
    if (failed(parser.parseOptionalKeyword("any")))
      return parser.parseType(type);
    type = NoneType::get(parser.getContext());
    return ParseResult(success());
  });
}

static void printTypes(AsmPrinter &printer, ArrayRef<Type> types) {
  printer << '[';
  llvm::interleaveComma(types, printer.getStream(), [&](Type type) {
    if (isa<NoneType>(type))
      printer << "any";
    else
      printer << type;
  });
  printer << ']';
}

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/AMP/AMPAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/Dialect/AMP/AMPOps.cpp.inc"

namespace {
/// Prints decision records as aliases before the module, so that the lines of
/// ops stay short.
struct DecisionAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute,
                       llvm::raw_ostream &os) const override {
    if (!isa<DecisionAttr>(attribute))
      return AliasResult::NoAlias;
    os << "decision";
    return AliasResult::FinalAlias;
  }
};
} // namespace

void AMPDialect::initialize() {
  addInterfaces<DecisionAliases>();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/AMP/AMPOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/AMP/AMPAttrs.cpp.inc"
      >();
}

LogicalResult AMPDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attr) {
  // Report unknown attributes. Without this check, a misspelt attribute would
  // have no effect, and nobody would notice.
  const bool isKnown =
      attr.getName() == DecisionAttr::attrName || attr.getName() == kModeAttr ||
      attr.getName() == kLossScaleAttr || attr.getName() == kRequestAttr ||
      attr.getName() == kIdAttr || attr.getName() == kFollowersAttr ||
      attr.getName() == kRoundedAttr || attr.getName() == kSeedAttr ||
      attr.getName() == kTF32Attr;
  if (!isKnown)
    return op->emitOpError("no op has an attribute '")
           << attr.getName().getValue() << "'";
  // Check the types of the attributes here, since passes cast the attributes
  // unchecked.
  if (attr.getName() == DecisionAttr::attrName &&
      !isa<DecisionAttr>(attr.getValue()))
    return op->emitOpError("expected amp.decision to be a decision, found ")
           << attr.getValue();
  if (attr.getName() == kModeAttr && !isa<PrecisionModeAttr>(attr.getValue()))
    return op->emitOpError("expected a mode such as #amp.mode<\"16-mixed\">, "
                           "found ")
           << attr.getValue();
  if (attr.getName() == kLossScaleAttr && !isa<LossScaleAttr>(attr.getValue()))
    return op->emitOpError("expected a kind of loss scale such as "
                           "#amp.loss_scale<dynamic>, found ")
           << attr.getValue();
  if (attr.getName() == kIdAttr && !isa<StringAttr>(attr.getValue()))
    return op->emitOpError("expected amp.id to be a string, found ")
           << attr.getValue();
  if (attr.getName() == kTF32Attr && !isa<UnitAttr>(attr.getValue()))
    return op->emitOpError("expected amp.tf32 to have no value, found ")
           << attr.getValue();
  auto ids = dyn_cast<ArrayAttr>(attr.getValue());
  if (attr.getName() == kFollowersAttr &&
      (!ids || !llvm::all_of(ids, llvm::IsaPred<StringAttr>)))
    return op->emitOpError("expected amp.followers to be an array of strings, "
                           "found ")
           << attr.getValue();
  auto numbers = dyn_cast<DenseF64ArrayAttr>(attr.getValue());
  if (attr.getName() == kRoundedAttr &&
      (!numbers || (!numbers.empty() && numbers.size() != 3)))
    return op->emitOpError("expected amp.rounded to be an array of three "
                           "numbers or none, found ")
           << attr.getValue();
  if (attr.getName() == kSeedAttr && !isa<UnitAttr>(attr.getValue()))
    return op->emitOpError("expected amp.seed without a value, found ")
           << attr.getValue();
  if (attr.getName() == kRequestAttr && !isa<RequestAttr>(attr.getValue()))
    return op->emitOpError("expected a request such as "
                           "#amp.request<\"16-mixed\">, found ")
           << attr.getValue();
  return success();
}

LogicalResult DecisionAttr::verify(
    llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<Type> operands,
    ArrayRef<Type> results, FloatType /*compute*/,
    PrecisionClass /*precisionClass*/, StringAttr /*rule*/, StringAttr /*why*/,
    Reason /*reason*/, ArrayAttr /*path*/, Evidence /*evidence*/,
    ArrayAttr sources, StringAttr /*flip*/, ArrayAttr /*model*/) {
  if (const Type *other =
          llvm::find_if_not(operands, llvm::IsaPred<FloatType, NoneType>);
      other != operands.end())
    return emitError() << "expected float types or any as operands, found "
                       << *other;
  if (const Type *other = llvm::find_if_not(results, llvm::IsaPred<FloatType>);
      other != results.end())
    return emitError() << "expected float types as results, found " << *other;
  // Views read the kind of each source.
  auto isSource = [](Attribute attribute) {
    auto source = dyn_cast<DictionaryAttr>(attribute);
    return source && source.getAs<StringAttr>("kind");
  };
  if (sources && !llvm::all_of(sources, isSource))
    return emitError() << "expected sources such as [{kind = \"constant\", "
                          "value = 1.0e+06}], found "
                       << sources;
  return success();
}

static unsigned countFloats(ValueRange values) {
  return llvm::count_if(values, [](Value value) {
    return isa<FloatType>(getElementTypeOrSelf(value.getType()));
  });
}

bool DecisionAttr::fits(Operation *op) const {
  return getOperands().size() == countFloats(op->getOperands()) &&
         getResults().size() == countFloats(op->getResults());
}

void DecisionAttr::forEachOperand(
    Operation *op,
    llvm::function_ref<void(OpOperand &, FloatType)> visit) const {
  assert(fits(op) && "one type for each float operand");
  const Type *type = getOperands().begin();
  for (OpOperand &operand : op->getOpOperands())
    if (isa<FloatType>(getElementTypeOrSelf(operand.get().getType())))
      visit(operand, dyn_cast<FloatType>(*type++));
}

void DecisionAttr::forEachResult(
    Operation *op, llvm::function_ref<void(OpResult, FloatType)> visit) const {
  assert(fits(op) && "one type for each float result");
  const Type *type = getResults().begin();
  for (OpResult result : op->getResults())
    if (isa<FloatType>(getElementTypeOrSelf(result.getType())))
      visit(result, cast<FloatType>(*type++));
}

FloatType DecisionAttr::getAccumulate() const {
  return getCompute().isF64() ? getCompute()
                              : FloatType(Float32Type::get(getContext()));
}

static bool isLowType(Type type) { return type.getIntOrFloatBitWidth() <= 16; }

FloatType DecisionAttr::getStorage() const {
  const ArrayRef<Type> results = getResults();
  if (const Type *low = llvm::find_if(results, isLowType); low != results.end())
    return cast<FloatType>(*low);
  if (!results.empty())
    return cast<FloatType>(results.front());
  if (ArrayAttr model = getModel())
    return cast<FloatType>(cast<TypeAttr>(model[0]).getValue());
  return getAccumulate();
}

bool DecisionAttr::isLow() const {
  return isLowType(getCompute()) || llvm::any_of(getResults(), isLowType);
}

DecisionAttr DecisionAttr::withTypes(ArrayRef<Type> operands,
                                     ArrayRef<Type> results) const {
  return get(getContext(), operands, results, getCompute(), getPrecisionClass(),
             getRule(), getWhy(), getReason(), getPath(), getEvidence(),
             getSources(), getFlip(), getModel());
}

DecisionAttr DecisionAttr::withResult(FloatType type) const {
  assert(getResults().size() == 1 && "one result has a type");
  return get(getContext(), getOperands(), Type(type), getCompute(),
             getPrecisionClass(), getRule(), getWhy(),
             Reason::FollowsNeighbours, getPath(), getEvidence(), getSources(),
             getFlip(), getModel());
}

// Folds a cast to the operand's own type. Pairs of casts are not folded,
// because the inner cast rounds, which is observable.
OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : Value();
}

LogicalResult UpdateScaleOp::verify() {
  if (getGrowthFactor().convertToDouble() < 1.0)
    return emitOpError("expected growth_factor of at least 1, found ")
           << getGrowthFactor().convertToDouble();
  double backoff = getBackoffFactor().convertToDouble();
  if (backoff <= 0.0 || backoff >= 1.0)
    return emitOpError("expected backoff_factor between 0 and 1, found ")
           << backoff;
  if (getGrowthInterval() < 1)
    return emitOpError("expected growth_interval of at least 1, found ")
           << getGrowthInterval();
  if (getHysteresis() < 1)
    return emitOpError("expected hysteresis of at least 1, found ")
           << getHysteresis();
  double minScale = getMinScale().convertToDouble();
  if (minScale <= 0.0 || minScale > getMaxScale().convertToDouble())
    return emitOpError("expected 0 < min_scale <= max_scale, found ")
           << minScale << " and " << getMaxScale().convertToDouble();
  return success();
}
