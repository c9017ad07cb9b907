// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/FlagOrigins.h"

#include "compiler/Precision/Policy/RecordedPolicy.h"

#include "llvm/ADT/StringExtras.h"

using namespace mpc;
using namespace mpc::tools;
using llvm::StringRef;

static std::string recordFile;
static std::vector<std::string> recordedFlags;

void mpc::tools::setRecordedFlags(std::string where,
                                  std::vector<std::string> flags) {
  recordFile = std::move(where);
  recordedFlags = std::move(flags);
}

// True if `message` has `flag` as a whole word: --loss-scale is not --loss.
static bool namesFlag(StringRef message, StringRef flag) {
  for (size_t at = message.find(flag); at != StringRef::npos;
       at = message.find(flag, at + 1)) {
    StringRef rest = message.drop_front(at + flag.size());
    if (rest.empty() || !(llvm::isAlnum(rest.front()) || rest.front() == '-'))
      return true;
  }
  return false;
}

std::string mpc::tools::explainOrigin(StringRef message) {
  std::vector<std::string> named;
  for (const std::string &flag : recordedFlags)
    if (namesFlag(message, "--" + flag) ||
        (flag == "policy" && message.contains(kRecordedPolicyFile)))
      named.push_back("--" + flag);
  if (named.empty())
    return "";
  return " (" + llvm::join(named, ", ") + (named.size() == 1 ? " is" : " are") +
         " from the record in " + recordFile +
         "; give another value, or leave out the record with --no-metadata)";
}
