// Prints decision records in words.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"
#include "compiler/Support/PrintableText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

std::string mpc::toString(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

StringRef mpc::describeReason(Reason reason) {
  // The sentences follow a type: "fp32: on the deny list".
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
    return "a constant makes the op's values too large, too small or too close "
           "together for the low type";
  case Reason::KeepFP32:
    return "named by --keep-fp32";
  case Reason::ForceLow:
    return "named by --force-low";
  case Reason::UnknownOp:
    return "in no list";
  case Reason::WideOperand:
    return "combines a low value with a float32 input, parameter or constant "
           "of large or unknown size, so that a low result could lose the low "
           "value; or reads the result of such an op";
  case Reason::KnownOperand:
    return "between low ops, and reads a float32 input, parameter or constant "
           "whose known values make rounding harmless";
  case Reason::TF32:
    return "--tf32 rounds the operands of float32 products";
  }
  llvm_unreachable("unknown reason");
}

static std::string joinPath(DecisionAttr decision) {
  std::string text;
  for (auto name : decision.getPath().getAsRange<StringAttr>())
    text += (text.empty() ? "" : " -> ") + name.str();
  return text;
}

// Describes a source of a decision: "1e+06 of constant 'c'", or "input 't' of
// root mean square 0.98 and largest element 4.1 in the data".
static void printSource(llvm::raw_ostream &os, DictionaryAttr source) {
  auto getNumber = [&](StringRef key) -> std::optional<double> {
    auto number = source.getAs<FloatAttr>(key);
    return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
  };
  const std::optional<double> value = getNumber("value"),
                              rms = getNumber("rms"),
                              largest = getNumber("largest");
  if (value)
    os << llvm::format("%.3g of ", *value);
  StringRef kind = source.getAs<StringAttr>("kind").getValue();
  os << (kind == "outer" ? "a value from outside the loop" : kind);
  if (auto name = source.getAs<StringAttr>("name"))
    os << " '" << name.getValue() << "'";
  if (value)
    return;
  if (!rms || !largest)
    os << " of unknown size";
  else
    os << llvm::format(" of root mean square %.3g and largest element %.3g",
                       *rms, *largest)
       << (source.contains("in_data") ? " in the data" : "");
}

static std::string describeSources(DecisionAttr decision) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::ListSeparator separator(", and ");
  if (ArrayAttr sources = decision.getSources())
    for (auto source : sources.getAsRange<DictionaryAttr>()) {
      os << separator;
      printSource(os, source);
    }
  return text;
}

static bool isStoredWide(DecisionAttr decision) {
  return decision.isLow() &&
         decision.getStorage().getWidth() > decision.getCompute().getWidth();
}

std::string mpc::describeDecision(DecisionAttr decision, bool isFast) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << decision.getStorage() << " (compute " << decision.getCompute()
     << ", accumulate " << decision.getAccumulate() << "), "
     << stringifyPrecisionClass(decision.getPrecisionClass()) << ": "
     << describeReason(decision.getReason());
  if (decision.getPath().size() > 1)
    os << " (" << joinPath(decision) << ")";
  if (isStoredWide(decision))
    os << ", stored in the type of the sums";
  os << "; rule " << decision.getRule().getValue();
  if (StringRef why = decision.getWhy().getValue(); !why.empty())
    os << ": " << why;
  if (std::string sources = describeSources(decision); !sources.empty())
    os << "; " << stringifyEvidence(decision.getEvidence()) << " by "
       << sources;
  if (!isFast)
    os << "; the target has no fast kernel for " << decision.getCompute();
  return text;
}

// Appends the class, the reason, the path and the evidence of `explained` to
// `facts`.
static void explainReason(const Decision &explained,
                          std::vector<DecisionFact> &facts) {
  DecisionAttr decision = explained.record;
  // The class and its origin, a table row, rule or flag: "deny by default:exp".
  std::string rule = (stringifyPrecisionClass(decision.getPrecisionClass()) +
                      " by " + decision.getRule().getValue())
                         .str();
  if (StringRef why = decision.getWhy().getValue(); !why.empty())
    rule += ": " + why.str();
  facts.push_back({"class", std::move(rule)});
  // Print the reason code for scripts, then a sentence for people.
  facts.push_back({"reason", (stringifyReason(decision.getReason()) + ": " +
                              describeReason(decision.getReason()))
                                 .str()});
  if (isStoredWide(decision))
    facts.push_back({"", "stored in the type of the sums"});
  // A path of one node would only repeat the op's own name.
  if (decision.getPath().size() > 1)
    facts.push_back({"path", joinPath(decision)});
  // The evidence tells if the decision was proved, profiled or assumed.
  std::string evidence = stringifyEvidence(decision.getEvidence()).str();
  if (std::string sources = describeSources(decision); !sources.empty())
    evidence += " by " + sources;
  if (!explained.isFast)
    evidence += "; the target has no fast kernel for " +
                toString(decision.getCompute());
  facts.push_back({"evidence", std::move(evidence)});
}

std::vector<DecisionFact> mpc::explainDecision(const Decision &explained) {
  DecisionAttr decision = explained.record;
  std::vector<DecisionFact> facts;
  facts.push_back({"types", "storage " + toString(decision.getStorage()) +
                                ", compute " + toString(decision.getCompute()) +
                                ", accumulate " +
                                toString(decision.getAccumulate())});
  explainReason(explained, facts);
  if (const auto &casts = explained.casts) {
    facts.push_back({"casts", describeCasts(*casts)});
    if (casts->bytes != 0)
      facts.back().text += llvm::formatv("; {0:N} bytes moved", casts->bytes);
    facts.push_back({"stores", describeStored(*casts)});
    if (casts->attentions != 0)
      facts.push_back({"computed by", "the library of the target, with scores "
                                      "and softmax in fp32 inside"});
  }
  if (const auto &cost = explained.cost)
    facts.push_back({"cost", llvm::formatv("{0} ns low, {1} ns high (nominal)",
                                           cost->low, cost->high)});
  // Ops with a hard constraint, such as parameter updates, have no flag.
  StringAttr flip = decision.getFlip();
  facts.push_back({"to flip", flip ? flip.getValue().str()
                                   : "impossible: a hard constraint"});
  if (auto followers = explained.getFollowers();
      followers && !followers->empty())
    facts.push_back({"follow", llvm::join(*followers, ", ")});
  return facts;
}

void DecisionReport::printReasons(llvm::raw_ostream &os) const {
  for (const Decision &decision : decisions) {
    os << toPrintable(decision.id) << ": "
       << decision.op->getName().stripDialect() << ", "
       << stringifyPhase(getPhase(decision.op)) << "\n";
    for (const DecisionFact &fact : explainDecision(decision))
      os << "  " << fact.about
         << std::string(fact.about.size() < 10 ? 10 - fact.about.size() : 1,
                        ' ')
         << toPrintable(fact.text) << "\n";
  }
}
