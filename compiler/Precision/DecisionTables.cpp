// Prints decision records in columns.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"
#include "compiler/Support/TextTable.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;
using Align = TextTable::Align;

namespace {
/// Counts of the ops of one kind.
struct OpCounts {
  unsigned ops = 0, low = 0;
  llvm::DenseMap<Type, unsigned> compute, storage;

  void add(DecisionAttr record) {
    ++ops;
    low += record.isLowered();
    ++compute[record.getCompute()];
    ++storage[record.getStorage()];
  }
};
} // namespace

// Returns the distinct types that `get` finds in the decisions, widest first.
static std::vector<FloatType>
listOccurring(ArrayRef<Decision> decisions,
              llvm::function_ref<FloatType(DecisionAttr)> get) {
  std::vector<FloatType> types;
  for (const Decision &decision : decisions)
    if (FloatType type = get(decision.record); !llvm::is_contained(types, type))
      types.push_back(type);
  llvm::sort(types, [](FloatType a, FloatType b) {
    return std::make_pair(a.getWidth(), toString(a)) >
           std::make_pair(b.getWidth(), toString(b));
  });
  return types;
}

void DecisionReport::printCounts(llvm::raw_ostream &os) const {
  // Only types that occur get a column.
  auto compute = listOccurring(
      decisions, [](DecisionAttr record) { return record.getCompute(); });
  auto storage = listOccurring(
      decisions, [](DecisionAttr record) { return record.getStorage(); });
  llvm::MapVector<StringRef, OpCounts> counts;
  OpCounts total;
  // Rows follow the first occurrence of each kind in the module.
  for (const Decision &decision : decisions) {
    counts[decision.op->getName().stripDialect()].add(decision.record);
    total.add(decision.record);
  }

  // There are two title rows: the group (compute, storage) above the types.
  std::vector<std::string> groups = {"", "", ""}, titles = {"op", "ops", "low"};
  auto addTitles = [&](StringRef group, ArrayRef<FloatType> types) {
    for (auto [i, type] : llvm::enumerate(types)) {
      groups.push_back(i == 0 ? group.str() : "");
      titles.push_back(toString(type));
    }
  };
  addTitles("compute", compute);
  addTitles("storage", storage);

  std::vector<Align> columns(titles.size(), Align::Right);
  columns[0] = Align::Left;
  TextTable table(std::move(columns));
  table.addRow(std::move(groups));
  table.addRow(std::move(titles));
  auto addRow = [&](StringRef name, const OpCounts &row) {
    std::vector<std::string> cells = {name.str(), std::to_string(row.ops),
                                      std::to_string(row.low)};
    for (FloatType type : compute)
      cells.push_back(std::to_string(row.compute.lookup(type)));
    for (FloatType type : storage)
      cells.push_back(std::to_string(row.storage.lookup(type)));
    table.addRow(std::move(cells));
  };
  for (const auto &[name, row] : counts)
    addRow(name, row);
  addRow("total", total);
  table.print(os);
}

bool DecisionReport::printTable(llvm::raw_ostream &os, unsigned width) const {
  TextTable table(std::vector<Align>(7, Align::Left));
  table.addRow(
      {"node", "op", "phase", "compute", "storage", "class", "reason"});
  for (const Decision &decision : decisions) {
    DecisionAttr record = decision.record;
    table.addRow({decision.id, decision.op->getName().stripDialect().str(),
                  stringifyPhase(getPhase(decision.op)).str(),
                  toString(record.getCompute()), toString(record.getStorage()),
                  stringifyPrecisionClass(record.getPrecisionClass()).str(),
                  stringifyReason(record.getReason()).str()});
  }
  return table.print(os, width);
}
