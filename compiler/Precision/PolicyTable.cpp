// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PolicyTable.h"

#include "compiler/Dialect/MPC/MPC.h"

#include <tuple>

using namespace mlir;
using namespace mpc;

namespace {
struct PolicyTable {
  std::vector<PolicyRow> rows;
  std::vector<PolicyFollower> followers;
};
} // namespace

static void add(PolicyTable &table, StringRef op, OpPolicy policy) {
  table.rows.push_back({std::move(policy), op});
}

static void add(PolicyTable &table, StringRef op, FollowedPolicy policy) {
  table.followers.push_back({policy, op});
}

// Adds the policy that the definition of `Op` declares. Ops outside graphs,
// such as mpc.variable, declare none.
template <typename Op>
static void addOp(PolicyTable &table) {
  if constexpr (Op::template hasTrait<PolicyTrait>())
    add(table, Op::getOperationName().split('.').second,
        Op::getDefaultPolicy());
}

template <typename... Ops>
static PolicyTable buildTable() {
  PolicyTable table;
  (addOp<Ops>(table), ...);
  // Sort by class and then by name, for people who read the table.
  llvm::sort(table.rows, [](const PolicyRow &a, const PolicyRow &b) {
    return std::tie(a.fp16, a.bf16, a.op) < std::tie(b.fp16, b.bf16, b.op);
  });
  llvm::sort(table.followers,
             [](const PolicyFollower &a, const PolicyFollower &b) {
               return a.op < b.op;
             });
  return table;
}

static const PolicyTable &getTable() {
  static const PolicyTable table = buildTable<
#define GET_OP_LIST
#include "compiler/Dialect/MPC/MPCOps.cpp.inc"
      >();
  return table;
}

ArrayRef<PolicyRow> mpc::getPolicyRows() { return getTable().rows; }

ArrayRef<PolicyFollower> mpc::getPolicyFollowers() {
  return getTable().followers;
}

// Returns the element of `rows` (PolicyRow or PolicyFollower) for the op `key`;
// null if absent.
template <typename Row>
static const Row *find(ArrayRef<Row> rows, StringRef key) {
  const Row *row =
      llvm::find_if(rows, [&](const Row &row) { return row.op == key; });
  return row == rows.end() ? nullptr : row;
}

StringRef mpc::resolvePolicyKey(StringRef name) {
  for (const PolicyRow &row : getPolicyRows())
    if (name == row.op || llvm::is_contained(row.onnx, name))
      return row.op;
  const PolicyFollower *follower = find(getPolicyFollowers(), name);
  return follower ? follower->op : StringRef();
}

std::vector<std::string> mpc::getPolicyNames() {
  std::vector<std::string> names;
  for (const PolicyRow &row : getPolicyRows()) {
    names.push_back(row.op.str());
    names.insert(names.end(), row.onnx.begin(), row.onnx.end());
  }
  for (const PolicyFollower &row : getPolicyFollowers())
    names.push_back(row.op.str());
  return names;
}

StringRef mpc::getPolicyLeader(StringRef key) {
  const PolicyFollower *follower = find(getPolicyFollowers(), key);
  return follower ? follower->leader : key;
}

ArrayRef<StringRef> mpc::getONNXNames(StringRef key) {
  const PolicyRow *row = find(getPolicyRows(), key);
  return row ? ArrayRef<StringRef>(row->onnx) : ArrayRef<StringRef>();
}

// Returns the masks of operands and of results of the op `key` that stay fp32.
// Bit i stands for operand or result i.
static std::pair<unsigned, unsigned> getMasks(StringRef key) {
  if (const PolicyRow *row = find(getPolicyRows(), key))
    return {row->fp32Operands, row->fp32Results};
  if (const PolicyFollower *row = find(getPolicyFollowers(), key))
    return {row->fp32Operands, row->fp32Results};
  return {0, 0};
}

bool mpc::policyKeepsOperandFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).first >> index & 1);
}

bool mpc::policyKeepsResultFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).second >> index & 1);
}
