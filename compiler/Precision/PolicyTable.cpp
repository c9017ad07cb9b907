// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PolicyTable.h"

using namespace mlir;
using namespace mpc;
using amp::PrecisionClass;

namespace {
struct AliasRow {
  llvm::StringLiteral op, onnx;
};
} // namespace

static constexpr PolicyRow tableRows[] = {
#define MPC_POLICY(OP, ONNX, FP16, BF16, UNBOUNDED, OPERANDS, RESULTS, WHY)    \
  {#OP,                                                                        \
   ONNX,                                                                       \
   PrecisionClass::FP16,                                                       \
   PrecisionClass::BF16,                                                       \
   UNBOUNDED,                                                                  \
   OPERANDS,                                                                   \
   RESULTS,                                                                    \
   WHY},
#include "compiler/Precision/DefaultPolicy.def"
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  {#MNEMONIC, ONNX, PrecisionClass::FP16, PrecisionClass::BF16, false, 0,      \
   0,         WHY},
#include "compiler/Dialect/MPC/Formulas.def"
};

static constexpr PolicyFollower followerRows[] = {
#define MPC_POLICY_FOLLOWS(OP, LEADER, OPERANDS, RESULTS)                      \
  {#OP, #LEADER, OPERANDS, RESULTS},
#include "compiler/Precision/DefaultPolicy.def"
};

static constexpr AliasRow aliasRows[] = {
#define MPC_POLICY_ALIAS(OP, ONNX) {#OP, ONNX},
#include "compiler/Precision/DefaultPolicy.def"
};

ArrayRef<PolicyRow> mpc::getPolicyRows() { return tableRows; }

ArrayRef<PolicyFollower> mpc::getPolicyFollowers() { return followerRows; }

StringRef mpc::resolvePolicyKey(StringRef name) {
  for (const PolicyRow &row : tableRows)
    if (name == row.op || (!row.onnx.empty() && name == row.onnx))
      return row.op;
  for (const PolicyFollower &row : followerRows)
    if (name == row.op)
      return row.op;
  for (const AliasRow &row : aliasRows)
    if (name == row.onnx)
      return row.op;
  return {};
}

std::vector<std::string> mpc::getPolicyNames() {
  std::vector<std::string> names;
  for (const PolicyRow &row : tableRows) {
    names.push_back(row.op.str());
    if (!row.onnx.empty())
      names.push_back(row.onnx.str());
  }
  for (const PolicyFollower &row : followerRows)
    names.push_back(row.op.str());
  for (const AliasRow &row : aliasRows)
    names.push_back(row.onnx.str());
  return names;
}

StringRef mpc::getPolicyLeader(StringRef key) {
  for (const PolicyFollower &row : followerRows)
    if (key == row.op)
      return row.leader;
  return key;
}

std::vector<StringRef> mpc::getONNXNames(StringRef key) {
  std::vector<StringRef> names;
  for (const PolicyRow &row : tableRows)
    if (key == row.op && !row.onnx.empty())
      names.push_back(row.onnx);
  for (const AliasRow &row : aliasRows)
    if (key == row.op)
      names.push_back(row.onnx);
  return names;
}

// The masks of operands and results of `key` that stay fp32.
static std::pair<unsigned, unsigned> getMasks(StringRef key) {
  for (const PolicyRow &row : tableRows)
    if (key == row.op)
      return {row.fp32Operands, row.fp32Results};
  for (const PolicyFollower &row : followerRows)
    if (key == row.op)
      return {row.fp32Operands, row.fp32Results};
  return {0, 0};
}

bool mpc::policyKeepsOperandFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).first >> index & 1);
}

bool mpc::policyKeepsResultFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).second >> index & 1);
}
