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
  CastCounts casts;

  void add(const Decision &decision) {
    DecisionAttr record = decision.record;
    if (decision.casts)
      casts += *decision.casts;
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
    counts[decision.op->getName().stripDialect()].add(decision);
    total.add(decision);
  }

  // There are two title rows: the group (compute, storage, casts) above the
  // types and the kinds of casts.
  std::vector<std::string> groups = {"", "", ""}, titles = {"op", "ops", "low"};
  auto addTitle = [&](StringRef group, std::string title) {
    groups.push_back(llvm::is_contained(groups, group) ? "" : group.str());
    titles.push_back(std::move(title));
  };
  for (FloatType type : compute)
    addTitle("compute", toString(type));
  for (FloatType type : storage)
    addTitle("storage", toString(type));
  if (casts)
    for (StringRef kind : {"weights", "activations", "free"})
      addTitle("casts", kind.str());

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
    if (casts)
      for (int64_t count :
           {row.casts.weights, row.casts.activations, row.casts.free})
        cells.push_back(std::to_string(count));
    table.addRow(std::move(cells));
  };
  for (const auto &[name, row] : counts)
    addRow(name, row);
  addRow("total", total);
  table.print(os);
}

bool DecisionReport::printTable(llvm::raw_ostream &os, unsigned width) const {
  std::vector<Align> columns(7, Align::Left);
  std::vector<std::string> titles = {"node",    "op",    "phase", "compute",
                                     "storage", "class", "reason"};
  if (casts)
    for (StringRef title : {"casts", "free"}) {
      columns.push_back(Align::Right);
      titles.push_back(title.str());
    }
  TextTable table(std::move(columns));
  table.addRow(std::move(titles));
  for (const Decision &decision : decisions) {
    DecisionAttr record = decision.record;
    std::vector<std::string> cells = {
        decision.id,
        decision.op->getName().stripDialect().str(),
        stringifyPhase(getPhase(decision.op)).str(),
        toString(record.getCompute()),
        toString(record.getStorage()),
        stringifyPrecisionClass(record.getPrecisionClass()).str(),
        stringifyReason(record.getReason()).str()};
    if (casts)
      for (int64_t count : {decision.casts->getCasts(), decision.casts->free})
        cells.push_back(std::to_string(count));
    table.addRow(std::move(cells));
  }
  return table.print(os, width);
}
