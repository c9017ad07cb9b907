// Writes policies in the format of policy files.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Policy/PrecisionPolicy.h"

using namespace mlir;
using namespace mpc;
namespace json = llvm::json;

// Returns the numbers of the operands or results of `op` that stay fp32
// according to `keeps`; "all" if every number does.
static json::Value
listPositions(StringRef op,
              llvm::function_ref<bool(StringRef, unsigned)> keeps) {
  json::Array positions;
  for (unsigned i = 0; i < 32; ++i)
    if (keeps(op, i))
      positions.push_back(i);
  if (positions.size() == 32)
    return "all";
  return positions;
}

json::Object mpc::describePolicyRow(StringRef op) {
  json::Object row{{"accumulate", "fp32"}};
  json::Array onnx;
  for (StringRef name : getONNXNames(op))
    onnx.push_back(name);
  if (!onnx.empty())
    row["onnx"] = std::move(onnx);
  if (StringRef leader = getPolicyLeader(op); leader != op)
    row["follows"] = leader;
  auto addPositions = [&](StringRef key, json::Value positions) {
    if (positions != json::Value(json::Array()))
      row[key] = std::move(positions);
  };
  addPositions("fp32_operands", listPositions(op, policyKeepsOperandFP32));
  addPositions("fp32_results", listPositions(op, policyKeepsResultFP32));
  return row;
}

// True if two rows have the same class, `unbounded` and reason.
static bool isSame(const PolicyEntry &a, const PolicyEntry &b) {
  return a.precisionClass == b.precisionClass && a.unbounded == b.unbounded &&
         a.why == b.why;
}

static void printRow(json::OStream &os, StringRef op,
                     const PrecisionPolicy &fp16, const PrecisionPolicy &bf16) {
  const json::Object given = describePolicyRow(op);
  auto addGiven = [&](StringRef key) {
    if (const json::Value *value = given.get(key))
      os.attribute(key, *value);
  };
  // A gradient with the classes of its leader (PolicyTable.h) is printed
  // without classes. With own classes, the row would no longer change with the
  // leader when the file is edited.
  const PolicyEntry &entry = *fp16.findRow(op), &other = *bf16.findRow(op);
  StringRef leader = getPolicyLeader(op);
  bool follows = leader != op && isSame(entry, *fp16.findRow(leader)) &&
                 isSame(other, *bf16.findRow(leader));
  os.objectBegin();
  os.attribute("op", op);
  addGiven("onnx");
  addGiven("follows");
  if (!follows) {
    os.attribute("fp16", stringifyPrecisionClass(entry.precisionClass));
    os.attribute("bf16", stringifyPrecisionClass(other.precisionClass));
  }
  addGiven("accumulate");
  if (!follows && entry.unbounded)
    os.attribute("unbounded", true);
  addGiven("fp32_operands");
  addGiven("fp32_results");
  if (!follows && entry.why == other.why) {
    os.attribute("reason", json::fixUTF8(entry.why));
  } else if (!follows) {
    os.attribute("fp16_reason", json::fixUTF8(entry.why));
    os.attribute("bf16_reason", json::fixUTF8(other.why));
  }
  os.objectEnd();
}

static void printRule(json::OStream &os, const PolicyRule &rule) {
  auto addText = [&](StringRef key, StringRef text) {
    if (!text.empty())
      os.attribute(key, json::fixUTF8(text));
  };
  os.objectBegin();
  addText("op", rule.op);
  addText("node", rule.node);
  addText("type", rule.type);
  os.attribute("class", stringifyPrecisionClass(rule.precisionClass));
  if (rule.unbounded)
    os.attribute("unbounded", *rule.unbounded);
  if (rule.isOptional)
    os.attribute("optional", true);
  addText("reason", rule.why);
  os.objectEnd();
}

// Prints `key` and an array with one object per line.
static void printLines(llvm::raw_ostream &os, StringRef key,
                       ArrayRef<std::string> lines) {
  os << "  \"" << key << "\": [";
  llvm::interleave(
      lines, [&](const std::string &line) { os << "\n    " << line; },
      [&] { os << ","; });
  os << (lines.empty() ? "]" : "\n  ]");
}

void mpc::printPolicy(llvm::raw_ostream &os, const PrecisionPolicy &fp16,
                      const PrecisionPolicy &bf16) {
  // Print one line per row, so that a diff of two policies is a list of ops.
  auto print = [](llvm::function_ref<void(json::OStream &)> write) {
    std::string line;
    llvm::raw_string_ostream stream(line);
    json::OStream writer(stream);
    write(writer);
    return line;
  };
  std::vector<std::string> rows, rules;
  auto addRow = [&](StringRef op) {
    rows.push_back(
        print([&](json::OStream &os) { printRow(os, op, fp16, bf16); }));
  };
  for (const PolicyRow &row : getPolicyRows()) {
    addRow(row.op);
    for (const PolicyFollower &follower : getPolicyFollowers())
      if (follower.leader == row.op)
        addRow(follower.op);
  }
  for (const PolicyRule *rule : fp16.getRules())
    rules.push_back(print([&](json::OStream &os) { printRule(os, *rule); }));

  os << "{\n";
  printLines(os, "table", rows);
  os << ",\n";
  printLines(os, "rules", rules);
  os << "\n}\n";
}
