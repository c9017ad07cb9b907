// Printing decision records.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"

#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Precision/Lowered.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string toString(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

// A sentence per reason code.
static StringRef getSentence(Reason reason) {
  switch (reason) {
  case Reason::Mode:
    return "the mode has one float type";
  case Reason::AllowList:
    return "on the allow list";
  case Reason::AllowListUnbounded:
    return "on the allow list, though it multiplies sums of unbounded range";
  case Reason::BetweenLow:
    return "between low ops";
  case Reason::FollowsNeighbours:
    return "exact in any type, and only low ops read it";
  case Reason::NotBetweenLow:
    return "not between low ops, so a low type would gain nothing";
  case Reason::DenyList:
    return "on the deny list";
  case Reason::AfterDenied:
    return "reads the result of a denied op";
  case Reason::LossRegion:
    return "part of the loss or of its gradient";
  case Reason::Update:
    return "part of the parameter update or of loss scaling";
  case Reason::ModelCast:
    return "a conversion the model asks for";
  case Reason::ModelType:
    return "the model has it in another type than fp32";
  case Reason::Constant:
    return "a constant, cast where it is read";
  case Reason::ConstantRange:
    return "a constant puts its values beyond the low type's range";
  case Reason::KeepFP32:
    return "named by --keep-fp32";
  case Reason::ForceLow:
    return "named by --force-low";
  case Reason::UnknownOp:
    return "in no list";
  }
  llvm_unreachable("unknown reason");
}

static std::string joinPath(DecisionAttr decision, StringRef separator) {
  std::string text;
  for (auto name : decision.getPath().getAsRange<StringAttr>())
    text += (text.empty() ? "" : separator.str()) + name.str();
  return text;
}

std::string mpc::describeDecision(DecisionAttr decision) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << decision.getStorage() << " (compute " << decision.getCompute()
     << ", accumulate " << decision.getAccumulate() << "), "
     << stringifyPrecisionClass(decision.getPrecisionClass()) << ": "
     << getSentence(decision.getReason());
  if (decision.getPath().size() > 1)
    os << " (" << joinPath(decision, " -> ") << ")";
  if (decision.getStorage().getWidth() > decision.getCompute().getWidth())
    os << ", stored wide since no low op reads it";
  os << "; rule " << decision.getRule().getValue();
  if (StringRef why = decision.getWhy().getValue(); !why.empty())
    os << ": " << why;
  if (!decision.getNative())
    os << "; the target has no fast kernel for " << decision.getCompute();
  return text;
}

//===----------------------------------------------------------------------===//
// The report
//===----------------------------------------------------------------------===//

// What trains, or what there is instead.
static SmallVector<FunctionOpInterface> getShownFunctions(ModuleOp module) {
  static constexpr llvm::StringLiteral choices[][2] = {
      {"step", ""}, {"accumulate", "update"}, {"forward", ""}, {"eval", ""}};
  for (const auto &names : choices) {
    SmallVector<FunctionOpInterface> found;
    for (StringRef name : names)
      if (auto function = module.lookupSymbol<FunctionOpInterface>(name))
        found.push_back(function);
    if (!found.empty())
      return found;
  }
  return llvm::to_vector(module.getOps<FunctionOpInterface>());
}

DecisionReport::DecisionReport(ModuleOp module) : module(module) {
  for (FunctionOpInterface function : getShownFunctions(module))
    function->walk([&](Operation *op) {
      if (DecisionAttr::of(op))
        ops.push_back(op);
      numCasts += isa<amp::CastOp>(op);
    });
}

std::string DecisionReport::getSummary() const {
  unsigned low = 0, contractions = 0, lowContractions = 0, missing = 0;
  for (Operation *op : ops) {
    DecisionAttr decision = DecisionAttr::of(op);
    bool contraction =
        cast<PrecisionOpInterface>(op).getNumContractedOperands() > 0;
    low += isLowered(decision);
    contractions += contraction;
    lowContractions += contraction && isLowered(decision);
    missing += !decision.getNative();
  }
  auto textOf = [&](StringRef name) {
    auto text = module->getAttrOfType<StringAttr>(name);
    return text ? text.getValue() : StringRef("none");
  };
  std::string text;
  llvm::raw_string_ostream os(text);
  os << textOf(kModeAttr) << ": " << low << " of " << ops.size() << " ops low ("
     << lowContractions << " of " << contractions << " contractions), "
     << numCasts << (numCasts == 1 ? " cast" : " casts") << ", loss scale "
     << textOf(kLossScaleAttr);
  if (missing != 0)
    os << "; the target has no fast kernel for " << missing << " ops";
  return text;
}

std::string DecisionReport::getDigest() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->walk([&](Operation *op) {
    if (DecisionAttr decision = DecisionAttr::of(op))
      os << getNodeName(op) << " " << op->getName() << " "
         << decision.getCompute() << " " << decision.getAccumulate() << " "
         << decision.getStorage() << "\n";
  });
  return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true,
                         /*Width=*/16);
}

void DecisionReport::printCounts(llvm::raw_ostream &os) const {
  // Columns are the types that occur, widest first.
  auto wider = [](FloatType a, FloatType b) {
    return std::make_pair(a.getWidth(), toString(a)) >
           std::make_pair(b.getWidth(), toString(b));
  };
  SmallVector<FloatType> types;
  llvm::MapVector<StringRef, llvm::DenseMap<Type, unsigned>> counts;
  for (Operation *op : ops) {
    FloatType type = DecisionAttr::of(op).getStorage();
    if (!llvm::is_contained(types, type))
      types.push_back(type);
    ++counts[op->getName().stripDialect()][type];
  }
  llvm::sort(types, wider);

  os << llvm::formatv("{0,-32}", "op");
  for (FloatType type : types)
    os << llvm::formatv("{0,8}", toString(type));
  os << "\n";
  llvm::DenseMap<Type, unsigned> totals;
  for (auto &[name, byType] : counts) {
    os << llvm::formatv("{0,-32}", name);
    for (FloatType type : types) {
      os << llvm::formatv("{0,8}", byType.lookup(type));
      totals[type] += byType.lookup(type);
    }
    os << "\n";
  }
  os << llvm::formatv("{0,-32}", "total");
  for (FloatType type : types)
    os << llvm::formatv("{0,8}", totals.lookup(type));
  os << "\n";
}

void DecisionReport::printNodes(llvm::raw_ostream &os) const {
  constexpr const char *row = "{0,-28} {1,-32} {2,-10} {3,-8} {4,-8} {5,-6} "
                              "{6}\n";
  os << llvm::formatv(row, "node", "op", "phase", "compute", "storage", "class",
                      "reason");
  for (Operation *op : ops) {
    DecisionAttr decision = DecisionAttr::of(op);
    os << llvm::formatv(row, getNodeName(op), op->getName().stripDialect(),
                        getPhase(op), toString(decision.getCompute()),
                        toString(decision.getStorage()),
                        stringifyPrecisionClass(decision.getPrecisionClass()),
                        stringifyReason(decision.getReason()));
  }
}

static llvm::json::Array listTypes(TypeRange types) {
  llvm::json::Array list;
  for (Type type : types)
    list.push_back(toString(type));
  return list;
}

static llvm::json::Object toJSON(Operation *op) {
  DecisionAttr decision = DecisionAttr::of(op);
  StringRef name = getNodeName(op);
  llvm::json::Array path;
  for (auto step : decision.getPath().getAsRange<StringAttr>())
    path.push_back(step.getValue());
  // The loss belongs to the forward pass here.
  StringRef phase = getPhase(op) == "loss" ? "forward" : getPhase(op);
  llvm::json::Value flip = nullptr;
  if (StringAttr flag = decision.getFlip())
    flip = flag.getValue();
  return llvm::json::Object{
      {"schema", 1},
      {"id", name},
      {"node", name.split('#').first},
      {"op", op->getName().stripDialect()},
      {"phase", phase},
      {"operands", listTypes(op->getOperandTypes())},
      {"results", listTypes(op->getResultTypes())},
      {"compute", toString(decision.getCompute())},
      {"accumulate", toString(decision.getAccumulate())},
      {"storage", toString(decision.getStorage())},
      {"class", stringifyPrecisionClass(decision.getPrecisionClass())},
      {"rule", decision.getRule().getValue()},
      {"why", decision.getWhy().getValue()},
      {"reason", stringifyReason(decision.getReason())},
      {"path", std::move(path)},
      {"evidence",
       llvm::json::Object{
           {"kind", stringifyEvidence(decision.getEvidence())},
           {"kernel", decision.getNative() ? "native" : "missing"}}},
      {"casts_in", decision.getCastsIn()},
      {"casts_out", decision.getCastsOut()},
      {"casts_fused", decision.getCastsFused()},
      {"cost_low", decision.getCostLow()},
      {"cost_high", decision.getCostHigh()},
      {"flip", std::move(flip)},
  };
}

void DecisionReport::printJSONL(llvm::raw_ostream &os) const {
  for (Operation *op : ops)
    os << llvm::json::Value(toJSON(op)) << "\n";
}

static void explain(Operation *op, llvm::raw_ostream &os) {
  DecisionAttr decision = DecisionAttr::of(op);
  os << getNodeName(op) << ": " << op->getName().stripDialect() << ", "
     << getPhase(op) << "\n";
  os << "  types     storage " << decision.getStorage() << ", compute "
     << decision.getCompute() << ", accumulate " << decision.getAccumulate()
     << "\n";
  os << "  class     " << stringifyPrecisionClass(decision.getPrecisionClass())
     << " by " << decision.getRule().getValue();
  if (StringRef why = decision.getWhy().getValue(); !why.empty())
    os << ": " << why;
  os << "\n";
  os << "  reason    " << stringifyReason(decision.getReason()) << ": "
     << getSentence(decision.getReason()) << "\n";
  if (decision.getStorage().getWidth() > decision.getCompute().getWidth())
    os << "            stored wide since no low op reads it\n";
  if (decision.getPath().size() > 1)
    os << "  path      " << joinPath(decision, " -> ") << "\n";
  os << "  evidence  " << stringifyEvidence(decision.getEvidence());
  if (!decision.getNative())
    os << "; the target has no fast kernel for " << decision.getCompute();
  os << "\n  casts     " << decision.getCastsIn() << " in, "
     << decision.getCastsOut() << " out, " << decision.getCastsFused()
     << " of them fused\n";
  os << "  cost      " << decision.getCostLow() << " ns low, "
     << decision.getCostHigh() << " ns high (nominal)\n";
  if (StringAttr flip = decision.getFlip())
    os << "  to flip   " << flip.getValue() << "\n";
  else
    os << "  to flip   nothing: a hard constraint\n";
}

bool DecisionReport::explainNode(StringRef node, llvm::raw_ostream &os) const {
  bool found = false;
  for (Operation *op : ops) {
    bool isOf = llvm::any_of(getNodeNames(op), [&](StringRef name) {
      return name == node || name.split('#').first == node;
    });
    if (!isOf)
      continue;
    explain(op, os);
    found = true;
  }
  return found;
}
