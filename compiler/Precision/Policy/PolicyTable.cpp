// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Policy/PolicyTable.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/StringMap.h"

#include <tuple>

using namespace mlir;
using namespace mpc;

namespace {
struct PolicyTable {
  std::vector<PolicyRow> rows;
  std::vector<PolicyFollower> followers;
  /// The index of each op in `rows` or `followers`.
  llvm::StringMap<unsigned> rowOf, followerOf;
};
} // namespace

namespace {
struct BF16Reason {
  llvm::StringLiteral op, why;
};
} // namespace

static constexpr BF16Reason bf16Reasons[] = {
#define MPC_BF16_REASON(OP, WHY) {#OP, WHY},
#include "compiler/Precision/Policy/PolicyReasons.def"
};

static void add(PolicyTable &table, StringRef op, OpPolicy policy) {
  const auto *own = llvm::find_if(
      bf16Reasons, [&](const BF16Reason &reason) { return reason.op == op; });
  StringRef bf16Why = policy.why;
  if (own != std::end(bf16Reasons))
    bf16Why = own->why;
  table.rows.push_back({std::move(policy), op, bf16Why});
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
  for (auto [index, row] : llvm::enumerate(table.rows))
    table.rowOf[row.op] = index;
  for (auto [index, row] : llvm::enumerate(table.followers))
    table.followerOf[row.op] = index;
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

// Returns the row of the op `key`; null if the op has no row of its own.
static const PolicyRow *findRow(StringRef key) {
  const PolicyTable &table = getTable();
  auto found = table.rowOf.find(key);
  return found == table.rowOf.end() ? nullptr : &table.rows[found->second];
}

// Returns the row of the op `key` if the op shares the classes of a leader;
// null for other ops.
static const PolicyFollower *findFollower(StringRef key) {
  const PolicyTable &table = getTable();
  auto found = table.followerOf.find(key);
  return found == table.followerOf.end() ? nullptr
                                         : &table.followers[found->second];
}

StringRef mpc::resolvePolicyKey(StringRef name) {
  for (const PolicyRow &row : getPolicyRows())
    if (name == row.op || llvm::is_contained(row.onnx, name))
      return row.op;
  const PolicyFollower *follower = findFollower(name);
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
  const PolicyFollower *follower = findFollower(key);
  return follower ? follower->leader : key;
}

ArrayRef<StringRef> mpc::getONNXNames(StringRef key) {
  const PolicyRow *row = findRow(key);
  return row ? ArrayRef<StringRef>(row->onnx) : ArrayRef<StringRef>();
}

// Returns the masks of operands and of results of the op `key` that stay fp32.
// Bit i stands for operand or result i.
static std::pair<unsigned, unsigned> getMasks(StringRef key) {
  if (const PolicyRow *row = findRow(key))
    return {row->fp32Operands, row->fp32Results};
  if (const PolicyFollower *row = findFollower(key))
    return {row->fp32Operands, row->fp32Results};
  return {0, 0};
}

bool mpc::policyKeepsOperandFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).first >> index & 1);
}

bool mpc::policyKeepsResultFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).second >> index & 1);
}
