// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/ModelRecord.h"

#include "compiler/Precision/Policy/RecordedPolicy.h"
#include "frontends/ONNX/Model/TrainingRecord.h"
#include "runtime/BoundedJSON.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::onnx_frontend;
using json = nlohmann::json;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static std::optional<std::vector<std::string>> readTexts(const json &value) {
  std::vector<std::string> texts;
  if (!value.is_array())
    return std::nullopt;
  for (const json &each : value) {
    if (!each.is_string())
      return std::nullopt;
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

// Reads an object whose members are flags, each a text or a list of texts. Only
// a policy may be an object.
static std::optional<FlagValues> readFlags(const json &value) {
  if (!value.is_object())
    return std::nullopt;
  FlagValues flags;
  for (const auto &[name, member] : value.items()) {
    std::optional<std::vector<std::string>> texts = readTexts(member);
    if (member.is_string())
      texts = {member.get<std::string>()};
    else if (member.is_object() && name == "policy")
      texts = {kRecordedPolicy.str() + runtime::textOf(member)};
    if (!texts)
      return std::nullopt;
    flags[name] = std::move(*texts);
  }
  return flags;
}

// Parses "--normalize x=0.5:0.2; --input-layout channels-last".
static std::optional<FlagValues> readPreparation(llvm::StringRef text) {
  FlagValues flags;
  while (!text.empty()) {
    auto [flag, rest] = text.split("; ");
    text = rest;
    auto [name, value] = flag.split(' ');
    if (!name.consume_front("--") || value.empty())
      return std::nullopt;
    flags[name.str()].push_back(value.str());
  }
  return flags;
}

// Refuses flags that a record may not give, and flags of later versions.
// Without such a flag, the others could mean something else.
static bool hasOnly(const FlagValues &flags,
                    llvm::ArrayRef<llvm::StringRef> known) {
  return llvm::all_of(flags, [&](const auto &flag) {
    return llvm::is_contained(known, flag.first) && !flag.second.empty();
  });
}

ModelRecord mpc::tools::parseRecord(const RecordEntries &entries,
                                    const std::string &where) {
  llvm::SmallVector<llvm::StringRef> lossFlags(std::begin(kTypedLossFlags),
                                               std::end(kTypedLossFlags));
  lossFlags.append({"class-weights", "pos-weight"});
  static constexpr llvm::StringRef precisionFlags[] = {
      "precision", "policy", "keep-fp32", "force-low"};
  static constexpr llvm::StringRef preparationFlags[] = {"normalize",
                                                         "input-layout"};
  static constexpr llvm::StringRef metricFlags[] = {"metric"};
  ModelRecord record;
  const auto find = [&](llvm::StringRef key) -> const std::string * {
    auto found = entries.find(key.str());
    return found == entries.end() ? nullptr : &found->second;
  };
  const auto refuse = [&](llvm::StringRef key, const llvm::Twine &expected) {
    warn(where + ": the metadata entry '" + key + "' is ignored: expected " +
         expected);
  };
  int version = 0;
  if (const std::string *text = find(kRecordVersion);
      text && llvm::StringRef(*text).getAsInteger(10, version)) {
    refuse(kRecordVersion, "a number");
    return record;
  }
  if (version > kNewestRecord) {
    warn(where + ": what the model records is ignored: a newer mpc wrote it");
    return record;
  }
  const auto take = [&](llvm::StringRef key, FlagValues &flags,
                        llvm::ArrayRef<llvm::StringRef> known,
                        bool isText = false) {
    const std::string *text = find(key);
    if (!text)
      return;
    std::optional<FlagValues> read;
    if (isText) {
      read = readPreparation(*text);
    } else {
      const runtime::BoundedDocument document(*text);
      read = readFlags(document.json);
    }
    if (read && hasOnly(*read, known))
      flags = std::move(*read);
    else
      refuse(key, "some of the flags --" + llvm::join(known, ", --"));
  };
  take(kRecordLoss, record.loss, lossFlags);
  take(kRecordMetrics, record.metrics, metricFlags);
  take(kRecordPrecision, record.precision, precisionFlags);
  take(kPreparation, record.preparation, preparationFlags,
       /*isText=*/true);
  if (const std::string *text = find(kRecordClasses)) {
    const runtime::BoundedDocument document(*text);
    if (auto names = readTexts(document.json))
      record.classes = std::move(*names);
    else
      refuse(kRecordClasses, "a JSON list of names");
  }
  return record;
}

ModelRecord mpc::tools::readModelRecord(const std::string &path) {
  if (path.empty() || isArtifact(path))
    return ModelRecord();
  const TrainingRecord read = readTrainingRecord(path);
  if (read.hasOversized)
    warn(path + ": a metadata entry of more than 1 MiB is ignored");
  return parseRecord(read.entries, path);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static json toJSON(const FlagValues &flags) {
  json object = json::object();
  for (const auto &[name, values] : flags) {
    llvm::StringRef first = values.front();
    // A policy is stored as an object, so that other programs can read it.
    if (name == "policy" && first.consume_front(kRecordedPolicy))
      object[name] = runtime::parseBoundedJSON(first);
    else if (values.size() == 1)
      object[name] = values.front();
    else
      object[name] = values;
  }
  return object;
}

RecordEntries mpc::tools::printRecord(const ModelRecord &record,
                                      const std::string &preparation) {
  RecordEntries entries;
  const auto add = [&](llvm::StringRef key, std::string text) {
    if (text.size() > kLargestRecordEntry)
      return warn("the model's metadata get no '" + key +
                  "': it has more than 1 MiB");
    entries[key.str()] = std::move(text);
  };
  if (!record.classes.empty())
    add(kRecordClasses, runtime::textOf(json(record.classes)));
  for (auto [key, flags] : {std::pair(kRecordLoss, &record.loss),
                            {kRecordMetrics, &record.metrics},
                            {kRecordPrecision, &record.precision}})
    if (!flags->empty())
      add(key, runtime::textOf(toJSON(*flags)));
  if (!preparation.empty())
    add(kPreparation, preparation);
  if (!entries.empty())
    entries[kRecordVersion.str()] = std::to_string(kNewestRecord);
  return entries;
}

std::string mpc::tools::printFlags(const FlagValues &flags) {
  std::string text;
  for (const auto &[name, values] : flags)
    for (const std::string &value : values)
      text += (text.empty() ? "--" : " --") + name + " " +
              (llvm::StringRef(value).starts_with(kRecordedPolicy)
                   ? std::string("(recorded)")
                   : runtime::abbreviated(value));
  return text;
}
