// The policy file: a JSON object that edits the default table.
//
//   {
//     "preset": "torch",
//     "rules": [
//       {"op": "Softmax", "class": "infer"},
//       {"node": "^encoder/.*#dx$", "class": "deny", "reason": "diverged"},
//       {"op": "Exp", "type": "bf16", "class": "deny", "poison": true}
//     ]
//   }
//
// A rule holds for nodes that meet all its conditions: `op` (ONNX's or mpc's
// name; it includes the op's gradients), `node` (an expression searched in the
// node's name), `type` (`fp16` or `bf16`). The last rule that holds wins.
// `class` is allow, infer, deny or clear.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionPolicy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mpc;
using amp::PrecisionClass;

// An error "PATH: WHERE: WHAT".
static llvm::Error reject(const llvm::Twine &where, const llvm::Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 where + ": " + what);
}

static llvm::Error checkKeys(const llvm::json::Object &object, StringRef where,
                             ArrayRef<StringRef> known) {
  for (const auto &member : object)
    if (!llvm::is_contained(known, StringRef(member.first)))
      return reject(where, "unknown key \"" + StringRef(member.first) +
                               "\", expected one of " +
                               llvm::join(known, ", "));
  return llvm::Error::success();
}

// Reads the member `key` into `value` where there is one; it must be a string.
static llvm::Error readString(const llvm::json::Object &object, StringRef where,
                              StringRef key, std::string &value) {
  const llvm::json::Value *member = object.get(key);
  if (!member)
    return llvm::Error::success();
  auto text = member->getAsString();
  if (!text)
    return reject(where, key + ": expected a string");
  value = text->str();
  return llvm::Error::success();
}

static llvm::Expected<PolicyRule> parseRule(const llvm::json::Value &value,
                                            StringRef where) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object)
    return reject(where, "expected an object");
  if (llvm::Error error = checkKeys(
          *object, where, {"op", "node", "type", "class", "poison", "reason"}))
    return error;

  PolicyRule rule;
  std::string op, precisionClass;
  struct {
    StringRef key;
    std::string &value;
  } strings[] = {{"op", op},
                 {"node", rule.node},
                 {"type", rule.type},
                 {"class", precisionClass},
                 {"reason", rule.why}};
  for (auto &[key, target] : strings)
    if (llvm::Error error = readString(*object, where, key, target))
      return error;

  if (op.empty() && rule.node.empty() && rule.type.empty())
    return reject(where, "expected a condition: op, node or type");
  if (!op.empty()) {
    rule.op = resolvePolicyKey(op).str();
    if (rule.op.empty())
      return reject(where, "op: unknown op \"" + op + "\"");
  }
  if (!rule.type.empty() && rule.type != "fp16" && rule.type != "bf16")
    return reject(where,
                  "type: expected fp16 or bf16, found \"" + rule.type + "\"");
  auto parsed = amp::symbolizePrecisionClass(precisionClass);
  if (!parsed || *parsed == PrecisionClass::Fixed)
    return reject(where,
                  "class: expected allow, infer, deny or clear, found \"" +
                      precisionClass + "\"");
  rule.precisionClass = *parsed;
  if (const llvm::json::Value *poison = object->get("poison")) {
    rule.poison = poison->getAsBoolean();
    if (!rule.poison)
      return reject(where, "poison: expected true or false");
  }
  return rule;
}

llvm::Error PrecisionPolicy::parseFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return reject(path, "cannot read the policy file: " +
                            buffer.getError().message());
  auto document = llvm::json::parse((*buffer)->getBuffer());
  if (!document)
    return reject(path, llvm::toString(document.takeError()));
  const llvm::json::Object *object = document->getAsObject();
  if (!object)
    return reject(path, "expected a JSON object");
  if (llvm::Error error = checkKeys(*object, path, {"preset", "rules"}))
    return error;

  std::string preset;
  if (llvm::Error error = readString(*object, path, "preset", preset))
    return error;
  if (!preset.empty() && !llvm::is_contained(getPresets(), preset))
    return reject(path, "preset: unknown preset \"" + preset +
                            "\", expected one of " +
                            llvm::join(getPresets(), ", "));
  if (llvm::Error error = applyPreset(preset))
    return error;

  const llvm::json::Value *list = object->get("rules");
  if (!list)
    return llvm::Error::success();
  const llvm::json::Array *array = list->getAsArray();
  if (!array)
    return reject(path, "rules: expected an array");
  for (auto [index, value] : llvm::enumerate(*array)) {
    std::string label = (path + ":rules[" + llvm::Twine(index) + "]").str();
    auto rule = parseRule(value, label);
    if (!rule)
      return rule.takeError();
    if (llvm::Error error = addRule(std::move(*rule), std::move(label)))
      return error;
  }
  return llvm::Error::success();
}
