// Prints decision records as JSON, one object per line.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"

#include "compiler/Dialect/MPC/NodeNames.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;
namespace json = llvm::json;

// Replaces invalid UTF-8. Names and rules come from models and files, so their
// bytes are arbitrary.
static std::string validText(StringRef name) { return json::fixUTF8(name); }

static json::Array listTypes(TypeRange types) {
  json::Array list;
  for (Type type : types)
    list.push_back(toString(type));
  return list;
}

static json::Array listNames(ArrayRef<StringRef> names) {
  json::Array list;
  for (StringRef name : names)
    list.push_back(validText(name));
  return list;
}

static json::Array listPath(DecisionAttr record) {
  json::Array path;
  for (auto step : record.getPath().getAsRange<StringAttr>())
    path.push_back(validText(step.getValue()));
  return path;
}

static json::Array listSources(DecisionAttr record) {
  json::Array list;
  if (ArrayAttr sources = record.getSources())
    for (auto source : sources.getAsRange<DictionaryAttr>()) {
      json::Object fields;
      for (NamedAttribute field : source)
        if (auto number = dyn_cast<FloatAttr>(field.getValue()))
          fields[field.getName().getValue()] = number.getValueAsDouble();
        else if (auto text = dyn_cast<StringAttr>(field.getValue()))
          fields[field.getName().getValue()] = validText(text.getValue());
        else if (isa<UnitAttr>(field.getValue()))
          fields[field.getName().getValue()] = true;
      list.push_back(std::move(fields));
    }
  return list;
}

static json::Object listCasts(const CastCounts &counts) {
  return json::Object{{"weights", counts.weights},
                      {"activations", counts.activations},
                      {"free", counts.free},
                      {"kernels", counts.kernels},
                      {"bytes", counts.bytes}};
}

static json::Object listStored(const CastCounts &counts) {
  json::Object stored;
  for (auto [type, bytes] : counts.stored)
    stored[toString(type)] = bytes;
  return stored;
}

static json::Object toJSON(const Decision &decision) {
  Operation *op = decision.op;
  DecisionAttr record = decision.record;
  // Reports count loss ops as forward ops.
  Phase phase = isForward(getPhase(op)) ? Phase::Forward : getPhase(op);
  json::Value flip = nullptr;
  if (StringAttr flag = record.getFlip())
    flip = validText(flag.getValue());
  json::Value follows = nullptr;
  if (auto followers = decision.getFollowers())
    follows = listNames(*followers);
  json::Object object{
      {"schema", 1},
      {"id", validText(decision.id)},
      {"node", validText(decision.getNode())},
      {"nodes", listNames(getNodeNames(op))},
      {"op", op->getName().stripDialect()},
      {"phase", stringifyPhase(phase)},
      {"operands", listTypes(op->getOperandTypes())},
      {"results", listTypes(op->getResultTypes())},
      {"compute", toString(record.getCompute())},
      {"accumulate", toString(record.getAccumulate())},
      {"storage", toString(record.getStorage())},
      {"class", stringifyPrecisionClass(record.getPrecisionClass())},
      {"rule", validText(record.getRule().getValue())},
      {"why", validText(record.getWhy().getValue())},
      {"reason", stringifyReason(record.getReason())},
      {"path", listPath(record)},
      {"evidence",
       json::Object{{"kind", stringifyEvidence(record.getEvidence())},
                    {"sources", listSources(record)},
                    {"kernel", decision.isFast ? "native" : "missing"}}},
      {"flip", std::move(flip)},
      {"follows", std::move(follows)},
  };
  if (decision.casts) {
    object["casts"] = listCasts(*decision.casts);
    object["stored_bytes"] = listStored(*decision.casts);
    if (decision.casts->attentions != 0)
      object["computed_by"] = "library";
  }
  if (decision.cost) {
    object["cost_low"] = decision.cost->low;
    object["cost_high"] = decision.cost->high;
  }
  return object;
}

void DecisionReport::printJSONL(llvm::raw_ostream &os) const {
  for (const Decision &decision : decisions)
    os << json::Value(toJSON(decision)) << "\n";
}
