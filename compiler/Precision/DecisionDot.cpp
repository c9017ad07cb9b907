// Prints decision records as a graph for Graphviz.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

// Quotes `text` as a string of the DOT language. Names come from models, so `&`
// is escaped (it starts no entity) and control characters become spaces.
static std::string quote(StringRef text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '\n')
      quoted += "\\n";
    else if (c == '&')
      quoted += "&amp;";
    else if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else
      quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return quoted + "\"";
}

static StringRef getFill(DecisionAttr record) {
  if (!record.isLowered())
    return record.getPrecisionClass() == PrecisionClass::Fixed ? "white"
                                                               : "#dbe4f0";
  // Green: low. Yellow: computed low, but stored as fp32.
  return record.getStorage().getWidth() < 32 ? "#bfe3c6" : "#fdeeb5";
}

namespace {
/// The producer of a value, looking through casts.
struct CodeSource {
  Value value;
  /// Null if the value is an argument of the function.
  Operation *op;
};

class DotPrinter {
public:
  DotPrinter(llvm::raw_ostream &os, ArrayRef<Decision> decisions) : os(os) {
    for (const Decision &decision : decisions)
      shown[decision.op] = &decision;
  }

  void printFunction(FunctionOpInterface function);

private:
  CodeSource findSource(Value value);
  unsigned declare(Operation *op);
  unsigned declare(BlockArgument argument);
  void printEdge(OpOperand &operand);

  llvm::raw_ostream &os;
  llvm::DenseMap<Operation *, const Decision *> shown;
  llvm::DenseMap<const void *, unsigned> numbers;
};
} // namespace

// Finds the op behind `value`, looking through casts. An argument of a loop's
// body comes from the loop.
CodeSource DotPrinter::findSource(Value value) {
  while (auto cast = value.getDefiningOp<amp::CastOp>())
    value = cast.getInput();
  Operation *op = value.getDefiningOp();
  if (!op)
    op = cast<BlockArgument>(value).getOwner()->getParentOp();
  return {value, isa<FunctionOpInterface>(op) ? nullptr : op};
}

// Prints the node of `op` on the first call and returns its number. An op that
// was not selected, or has no decision, is grey and dashed.
unsigned DotPrinter::declare(Operation *op) {
  auto [it, isNew] = numbers.try_emplace(op, numbers.size());
  unsigned number = it->second;
  if (!isNew)
    return number;
  StringRef kind = op->getName().stripDialect();
  auto found = shown.find(op);
  if (found == shown.end()) {
    std::string label = getNodeName(op).str();
    label += (label.empty() ? "" : "\n") + kind.str();
    os << "  n" << number << " [label=" << quote(label)
       << ", style=dashed, color=gray, fontcolor=gray];\n";
    return number;
  }
  // The label holds the types and the reason code, the tooltip the whole
  // decision.
  const Decision &decision = *found->second;
  DecisionAttr record = decision.record;
  std::string label =
      decision.id + "\n" + kind.str() + " " + toString(record.getStorage());
  if (record.getCompute() != record.getStorage())
    label += ", compute " + toString(record.getCompute());
  label += "\n" + stringifyReason(record.getReason()).str();
  if (decision.casts && decision.casts->getCasts() != 0)
    label += "\n" + describeCasts(*decision.casts);
  os << "  n" << number << " [label=" << quote(label) << ", fillcolor=\""
     << getFill(record)
     << "\", tooltip=" << quote(describeDecision(record, decision.isFast))
     << "];\n";
  return number;
}

unsigned DotPrinter::declare(BlockArgument argument) {
  auto [it, isNew] =
      numbers.try_emplace(argument.getAsOpaquePointer(), numbers.size());
  if (!isNew)
    return it->second;
  std::string label = "argument " + std::to_string(argument.getArgNumber());
  const PortAttrs port = getArgumentPort(argument);
  if (StringAttr name = port.getInput())
    label = name.getValue().str();
  else if (FlatSymbolRefAttr state = port.getState())
    label = state.getValue().str();
  os << "  n" << it->second << " [label=" << quote(label)
     << ", shape=ellipse, style=solid];\n";
  return it->second;
}

// Prints an edge from the producer of `operand` to its user if either op was
// selected.
void DotPrinter::printEdge(OpOperand &operand) {
  // Terminators are not drawn: a value that a loop's body yields goes to the
  // loop.
  Operation *reader = operand.getOwner();
  if (reader->hasTrait<OpTrait::IsTerminator>())
    reader = reader->getParentOp();
  CodeSource source = findSource(operand.get());
  if (isa<FunctionOpInterface>(reader) ||
      (!shown.count(reader) && !shown.count(source.op)))
    return;
  // The edge is red if a cast changes the type on the way.
  Type from = getElementTypeOrSelf(source.value.getType());
  Type to = getElementTypeOrSelf(operand.get().getType());
  unsigned begin = source.op ? declare(source.op)
                             : declare(cast<BlockArgument>(source.value));
  unsigned end = declare(reader);
  os << "  n" << begin << " -> n" << end;
  if (from == to)
    os << " [label=" << quote(toString(to));
  else
    os << " [color=\"#b03020\", fontcolor=\"#b03020\", label="
       << quote(toString(from) + " -> " + toString(to));
  os << ", tooltip=" << quote(toString(operand.get().getType())) << "];\n";
}

void DotPrinter::printFunction(FunctionOpInterface function) {
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (shown.count(op))
      declare(op);
    if (!isa<amp::CastOp>(op))
      for (OpOperand &operand : op->getOpOperands())
        printEdge(operand);
  });
}

void DecisionReport::printDot(llvm::raw_ostream &os) const {
  os << "digraph precision {\n"
     << "  label=" << quote(llvm::join(getSummary(), "\n")) << ";\n"
     << "  labelloc=t;\n"
     << "  fontname=\"sans-serif\";\n"
     << "  node [shape=box, style=filled, fontname=\"sans-serif\"];\n"
     << "  edge [fontname=\"sans-serif\", fontsize=10];\n";
  DotPrinter printer(os, decisions);
  for (FunctionOpInterface function : functions)
    printer.printFunction(function);
  os << "}\n";
}
