// Reads policy files (JSON). docs/precision.md documents the format, and `mpc
// explain --print-policy` writes it.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Policy/PrecisionPolicy.h"
#include "compiler/Precision/Policy/RecordedPolicy.h"
#include "compiler/Support/NearestNames.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mpc;

// Returns an error that reads "`where`: `what`".
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

// Reads the string `key` into `value`; leaves `value` alone if absent.
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

// Reads the class under `key`; an absent key is an error.
static llvm::Expected<PrecisionClass>
readClass(const llvm::json::Object &object, StringRef where, StringRef key) {
  std::string word;
  if (llvm::Error error = readString(object, where, key, word))
    return error;
  if (auto parsed = symbolizePrecisionClass(word))
    return *parsed;
  return reject(where, key +
                           ": expected allow, infer, deny or clear, found \"" +
                           word + "\"");
}

// Reads the boolean `key` into `value`; leaves `value` alone if absent.
static llvm::Error readBoolean(const llvm::json::Object &object,
                               StringRef where, StringRef key,
                               std::optional<bool> &value) {
  const llvm::json::Value *member = object.get(key);
  if (!member)
    return llvm::Error::success();
  value = member->getAsBoolean();
  return value ? llvm::Error::success()
               : reject(where, key + ": expected true or false");
}

// Returns the key, in the policy table, of the op that mpc or ONNX calls
// `name`.
static llvm::Expected<std::string> readOp(StringRef name, StringRef where) {
  if (StringRef key = resolvePolicyKey(name); !key.empty())
    return key.str();
  std::string meant = findNearestName(name, getPolicyNames());
  return reject(where,
                "op: unknown op \"" + name + "\"" +
                    (meant.empty() ? "; mpc explain --print-policy lists all "
                                     "ops"
                                   : "; did you mean \"" + meant + "\"?"));
}

// Returns the default row of the op `key`. For a gradient without a row of its
// own, returns the row of the op whose classes the gradient shares.
static const PolicyRow &getDefaultRow(StringRef key) {
  StringRef leader = getPolicyLeader(key);
  return *llvm::find_if(getPolicyRows(),
                        [&](const PolicyRow &row) { return row.op == leader; });
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static llvm::Expected<PolicyRule> parseRule(const llvm::json::Value &value,
                                            StringRef where) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object)
    return reject(where, "expected an object");
  if (llvm::Error error = checkKeys(
          *object, where,
          {"op", "node", "type", "class", "unbounded", "optional", "reason"}))
    return error;

  PolicyRule rule;
  std::string op;
  struct {
    StringRef key;
    std::string &value;
  } strings[] = {{"op", op},
                 {"node", rule.node},
                 {"type", rule.type},
                 {"reason", rule.why}};
  for (auto &[key, target] : strings)
    if (llvm::Error error = readString(*object, where, key, target))
      return error;

  // A rule needs a condition, and must not name an op whose class is fixed.
  if (op.empty() && rule.node.empty() && rule.type.empty())
    return reject(where, "expected a condition: op, node or type");
  if (!op.empty()) {
    auto key = readOp(op, where);
    if (!key)
      return key.takeError();
    rule.op = std::move(*key);
    if (const PolicyRow &row = getDefaultRow(rule.op);
        row.fp16 == PrecisionClass::Fixed && row.bf16 == PrecisionClass::Fixed)
      return reject(where,
                    "op: \"" + op +
                        "\" is fixed, which no rule changes: " + row.why);
  }
  if (!rule.type.empty() && rule.type != "fp16" && rule.type != "bf16")
    return reject(where,
                  "type: expected fp16 or bf16, found \"" + rule.type + "\"");
  auto parsed = readClass(*object, where, "class");
  if (!parsed)
    return parsed.takeError();
  if (*parsed == PrecisionClass::Fixed)
    return reject(where, "class: expected allow, infer, deny or clear, found "
                         "\"fixed\", which is only for rows of mpc's own "
                         "table");
  rule.precisionClass = *parsed;
  if (llvm::Error error =
          readBoolean(*object, where, "unbounded", rule.unbounded))
    return error;
  std::optional<bool> isOptional;
  if (llvm::Error error = readBoolean(*object, where, "optional", isOptional))
    return error;
  rule.isOptional = isOptional.value_or(false);
  return rule;
}

llvm::Error PrecisionPolicy::parseRules(const llvm::json::Array &list,
                                        StringRef path) {
  for (auto [index, value] : llvm::enumerate(list)) {
    std::string label = (path + ":rules[" + llvm::Twine(index) + "]").str();
    auto rule = parseRule(value, label);
    if (!rule)
      return rule.takeError();
    if (llvm::Error error = addRule(std::move(*rule), std::move(label)))
      return error;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

// Reports an error if `row` changes a field that only describes the op, such as
// `onnx`. A user cannot choose these fields.
static llvm::Error checkGiven(const llvm::json::Object &row, StringRef where,
                              StringRef op) {
  const llvm::json::Object given = describePolicyRow(op);
  // A file written by `mpc explain --print-policy` has these keys and must load
  // again unchanged.
  for (StringRef key :
       {"onnx", "follows", "accumulate", "fp32_operands", "fp32_results"}) {
    const llvm::json::Value *found = row.get(key);
    const llvm::json::Value *expected = given.get(key);
    if (!found || (expected && *found == *expected))
      continue;
    std::string text;
    llvm::raw_string_ostream os(text);
    if (expected)
      os << "expected " << *expected << ", which no policy changes, found "
         << *found;
    else
      os << "expected none for \"" << op << "\", found " << *found;
    return reject(where, key + ": " + text);
  }
  return llvm::Error::success();
}

// Reports an error if a row of the file gives the class Fixed to an op, or
// takes the class Fixed from an op.
static llvm::Error checkFixed(StringRef where, StringRef key,
                              PrecisionClass found, PrecisionClass byDefault) {
  if ((found == PrecisionClass::Fixed) == (byDefault == PrecisionClass::Fixed))
    return llvm::Error::success();
  return reject(where, key + ": " +
                           (byDefault == PrecisionClass::Fixed
                                ? "expected fixed, which no policy changes, "
                                  "found "
                                : "expected allow, infer, deny or clear, "
                                  "found ") +
                           stringifyPrecisionClass(found));
}

// Reads the classes, `unbounded` and the reason of a row, and replaces the row
// of `op` in the table.
llvm::Error PrecisionPolicy::parseRow(const llvm::json::Object &object,
                                      StringRef where, StringRef op) {
  // A fixed row must repeat the default classes.
  auto fp16 = readClass(object, where, "fp16");
  if (!fp16)
    return fp16.takeError();
  auto bf16 = readClass(object, where, "bf16");
  if (!bf16)
    return bf16.takeError();
  const PolicyRow &row = getDefaultRow(op);
  if (llvm::Error error = checkFixed(where, "fp16", *fp16, row.fp16))
    return error;
  if (llvm::Error error = checkFixed(where, "bf16", *bf16, row.bf16))
    return error;
  // `unbounded` is used in float16 only: bfloat16 has the range of float32.
  std::optional<bool> unbounded;
  if (llvm::Error error = readBoolean(object, where, "unbounded", unbounded))
    return error;
  PolicyEntry entry;
  entry.precisionClass = low.isF16() ? *fp16 : *bf16;
  entry.unbounded = low.isF16() && unbounded.value_or(false);
  entry.rule = where.str();
  // The reason of one type wins over the reason for both.
  for (StringRef key : {"reason", low.isF16() ? "fp16_reason" : "bf16_reason"})
    if (llvm::Error error = readString(object, where, key, entry.why))
      return error;
  setRow(op, entry);
  return llvm::Error::success();
}

llvm::Error PrecisionPolicy::parseTable(const llvm::json::Array &list,
                                        StringRef path) {
  llvm::StringSet<> seen;
  for (auto [index, value] : llvm::enumerate(list)) {
    std::string where = (path + ":table[" + llvm::Twine(index) + "]").str();
    const llvm::json::Object *object = value.getAsObject();
    if (!object)
      return reject(where, "expected an object");
    if (llvm::Error error =
            checkKeys(*object, where,
                      {"op", "onnx", "follows", "fp16", "bf16", "accumulate",
                       "unbounded", "fp32_operands", "fp32_results", "reason",
                       "fp16_reason", "bf16_reason"}))
      return error;
    // An op has one row. With two, the later row would win unnoticed.
    std::string name;
    if (llvm::Error error = readString(*object, where, "op", name))
      return error;
    auto op = readOp(name, where);
    if (!op)
      return op.takeError();
    if (!seen.insert(*op).second)
      return reject(where, "op: \"" + name + "\" has a row already");
    if (llvm::Error error = checkGiven(*object, where, *op))
      return error;
    // A gradient op without own classes takes the classes of its leader
    // (PolicyTable.h).
    bool follows =
        object->get("follows") && !object->get("fp16") && !object->get("bf16");
    if (follows)
      continue;
    if (llvm::Error error = parseRow(*object, where, *op))
      return error;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

// Returns the array under `key`; null if absent.
static llvm::Expected<const llvm::json::Array *>
readArray(const llvm::json::Object &object, StringRef path, StringRef key) {
  const llvm::json::Value *list = object.get(key);
  if (!list)
    return nullptr;
  if (const llvm::json::Array *array = list->getAsArray())
    return array;
  return reject(path, key + ": expected an array");
}

// Returns the text of a policy file. Must be a regular file, because it is read
// several times: by the passes, and for the digest of a run.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readText(StringRef path) {
  if (StringRef text = path; text.consume_front(kRecordedPolicy))
    return llvm::MemoryBuffer::getMemBuffer(text, /*BufferName=*/"",
                                            /*RequiresNullTerminator=*/false);
  constexpr uint64_t kMostBytes = uint64_t(16) << 20;
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status))
    return reject(path, "cannot read the policy file: " + error.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return reject(path, "expected a file, found a folder, a pipe or a device; "
                        "save the policy to a file");
  if (status.getSize() > kMostBytes)
    return reject(path, "expected a policy of at most 16 MiB");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return reject(path, "cannot read the policy file: " +
                            buffer.getError().message());
  return std::move(*buffer);
}

// True if brackets are nested deeper than in any sensible policy. The JSON
// parser would overflow the stack.
static bool isNestedDeeply(StringRef text) {
  constexpr unsigned kDeepest = 64;
  unsigned depth = 0;
  bool isInString = false;
  for (size_t i = 0; i < text.size() && depth <= kDeepest; ++i) {
    char c = text[i];
    if (c == '"')
      isInString = !isInString;
    else if (isInString && c == '\\')
      ++i;
    else if (!isInString && (c == '[' || c == '{'))
      ++depth;
    else if (!isInString && (c == ']' || c == '}') && depth > 0)
      --depth;
  }
  return depth > kDeepest;
}

llvm::Error PrecisionPolicy::parseFile(StringRef path) {
  auto buffer = readText(path);
  if (!buffer)
    return buffer.takeError();
  const bool isRecorded = path.starts_with(kRecordedPolicy);
  if (isRecorded)
    path = kRecordedPolicyFile;
  StringRef text = (*buffer)->getBuffer();
  if (isNestedDeeply(text))
    return reject(path, "is nested too deeply");
  auto document = llvm::json::parse(text);
  if (!document)
    return reject(path, llvm::toString(document.takeError()));
  const llvm::json::Object *object = document->getAsObject();
  if (!object)
    return reject(path, "expected a JSON object");
  if (llvm::Error error =
          checkKeys(*object, path, {"preset", "table", "rules"}))
    return error;

  // The file's rows and rules modify its preset, so apply the preset first.
  std::string preset;
  if (llvm::Error error = readString(*object, path, "preset", preset))
    return error;
  if (!preset.empty() && !llvm::is_contained(getPresets(), preset))
    return reject(path, "preset: unknown preset \"" + preset +
                            "\", expected one of " +
                            llvm::join(getPresets(), ", "));
  if (llvm::Error error = applyPreset(preset))
    return error;

  // Rows come before rules, because rules modify rows.
  auto table = readArray(*object, path, "table");
  if (!table)
    return table.takeError();
  if (*table)
    if (llvm::Error error = parseTable(**table, path))
      return error;
  auto rules = readArray(*object, path, "rules");
  if (!rules)
    return rules.takeError();
  llvm::Error error =
      *rules ? parseRules(**rules, path) : llvm::Error::success();
  for (ActiveRule &active : this->rules)
    active.matched |= isRecorded;
  return error;
}
