// Prints decision records as one self-contained HTML page.
//
// The page is complete without its script, which only filters, sorts and folds.
// Names come from models, so all text is escaped. The page's
// Content-Security-Policy admits no other script.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionPageParts.h"
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"

#include "compiler/Dialect/MPC/NodeNames.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

// Escapes `text` for use as HTML text or as a quoted attribute value.
static std::string escapeHTML(StringRef text) {
  std::string escaped;
  // Node names are arbitrary bytes, so replace invalid UTF-8 first.
  for (char c : llvm::json::fixUTF8(text)) {
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    case '\'':
      escaped += "&#39;";
      break;
    // HTML forbids control characters, so they become spaces.
    default:
      escaped += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return escaped;
}

// Returns the Content-Security-Policy source that admits exactly the style or
// script `text`: 'sha256-...'.
static std::string hashSource(StringRef text) {
  auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return "'sha256-" + llvm::encodeBase64(hash) + "'";
}

//===----------------------------------------------------------------------===//
// The page
//===----------------------------------------------------------------------===//

namespace {
class PagePrinter {
public:
  PagePrinter(llvm::raw_ostream &os, ArrayRef<Decision> decisions)
      : os(os), decisions(decisions) {
    for (auto [i, decision] : llvm::enumerate(decisions))
      for (StringRef name : getNodeNames(decision.op))
        rows.try_emplace(name, i);
    // Either all decisions have casts and costs, or none has.
    if (!decisions.empty() && decisions.front().casts)
      titles.append({"casts", "free"});
    if (!decisions.empty() && decisions.front().cost)
      titles.push_back("ns");
  }

  void printHead(StringRef title, ArrayRef<std::string> summary);
  void printFilters();
  void printTable();

private:
  void printChoice(StringRef label, StringRef column,
                   llvm::function_ref<std::string(const Decision &)> get);
  void printRow(unsigned index);
  void printFacts(unsigned index);
  void printPath(DecisionAttr record);

  llvm::raw_ostream &os;
  ArrayRef<Decision> decisions;
  /// The columns. The last three are present if the decisions have the numbers.
  SmallVector<StringRef> titles = {"node",    "op",    "phase", "compute",
                                   "storage", "class", "reason"};
  /// Maps each node name to the first row of an op with this name.
  llvm::StringMap<unsigned> rows;
};
} // namespace

void PagePrinter::printHead(StringRef title, ArrayRef<std::string> summary) {
  std::string name = escapeHTML(title);
  os << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n"
     << "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; style-src "
     << hashSource(page::kStyle) << "; script-src " << hashSource(page::kScript)
     << "\">\n"
     << "<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\">\n"
     << "<title>Precision of " << name << "</title>\n<style>" << page::kStyle
     << "</style>\n</head>\n<body>\n<h1>Precision of " << name << "</h1>\n<p>"
     << llvm::join(llvm::map_range(summary, escapeHTML), "<br>") << "</p>\n";
}

// Prints a menu of the distinct values of a column, in order of first row.
void PagePrinter::printChoice(
    StringRef label, StringRef column,
    llvm::function_ref<std::string(const Decision &)> get) {
  SmallVector<std::string> values;
  for (const Decision &decision : decisions)
    if (std::string value = get(decision); !llvm::is_contained(values, value))
      values.push_back(std::move(value));
  os << "<label>" << label << " <select data-column=\"" << column
     << "\"><option value=\"\">any</option>";
  for (const std::string &value : values)
    os << "<option>" << escapeHTML(value) << "</option>";
  os << "</select></label>\n";
}

void PagePrinter::printFilters() {
  // The script unhides the form, which would do nothing without it.
  os << "<form id=\"filters\" hidden>\n<label>Text <input type=\"search\" "
        "id=\"text\" placeholder=\"node, op or reason\"></label>\n";
  printChoice("Stored as", "storage", [](const Decision &decision) {
    return toString(decision.record.getStorage());
  });
  printChoice("Computed in", "compute", [](const Decision &decision) {
    return toString(decision.record.getCompute());
  });
  printChoice("Reason", "reason", [](const Decision &decision) {
    return stringifyReason(decision.record.getReason()).str();
  });
  printChoice("Class", "class", [](const Decision &decision) {
    return stringifyPrecisionClass(decision.record.getPrecisionClass()).str();
  });
  printChoice("Phase", "phase", [](const Decision &decision) {
    return stringifyPhase(getPhase(decision.op)).str();
  });
  os << "<button type=\"reset\">Clear</button>\n"
     << "<output id=\"shown\"></output>\n</form>\n";
}

// Prints the path of a decision, a → b → c, with a link from each node to the
// node's row.
void PagePrinter::printPath(DecisionAttr record) {
  llvm::ListSeparator separator(" \xe2\x86\x92 ");
  for (auto name : record.getPath().getAsRange<StringAttr>()) {
    os << separator;
    std::string text = escapeHTML(name.getValue());
    if (auto row = rows.find(name.getValue()); row != rows.end())
      os << "<a href=\"#op" << row->second << "\">" << text << "</a>";
    else
      os << text;
  }
}

void PagePrinter::printFacts(unsigned index) {
  const Decision &decision = decisions[index];
  os << "<tr class=\"facts\" id=\"facts" << index << "\"><td colspan=\""
     << titles.size() << "\"><dl>";
  SmallVector<StringRef> names = getNodeNames(decision.op);
  // A fused op stands for several nodes, but the row above names only the
  // first.
  if (names.size() > 1)
    os << "<dt>stands for</dt><dd>" << escapeHTML(llvm::join(names, ", "))
       << "</dd>";
  for (const DecisionFact &fact : explainDecision(decision)) {
    os << "<dt>" << fact.about << "</dt><dd>";
    if (fact.about == "path")
      printPath(decision.record);
    else if (fact.about == "to flip" && decision.record.getFlip())
      os << "<code>" << escapeHTML(fact.text) << "</code>";
    else
      os << escapeHTML(fact.text);
    os << "</dd>";
  }
  // The types of values come last, since they are long.
  auto printTypes = [&](StringRef about, TypeRange types) {
    os << "<dt>" << about << "</dt><dd>"
       << escapeHTML(llvm::join(
              llvm::map_range(types, [](Type type) { return toString(type); }),
              ", "))
       << "</dd>";
  };
  printTypes("operands", decision.op->getOperandTypes());
  printTypes("results", decision.op->getResultTypes());
  os << "</dl></td></tr>";
}

// Prints a table body of two rows for one op: the decision, and its facts,
// which the script unfolds. The script hides and sorts whole bodies, so the
// rows stay together.
void PagePrinter::printRow(unsigned index) {
  const Decision &decision = decisions[index];
  DecisionAttr record = decision.record;
  os << "<tbody id=\"op" << index
     << "\"><tr><th scope=\"row\"><button type=\"button\" "
        "aria-expanded=\"false\" "
        "aria-controls=\"facts"
     << index << "\">" << escapeHTML(decision.id) << "</button></th>";
  // The style sheet colours cells of the class `low`.
  auto printCell = [&](StringRef column, StringRef text, bool isLow = false) {
    os << "<td data-column=\"" << column
       << (isLow ? "\" class=\"low\">" : "\">") << escapeHTML(text) << "</td>";
  };
  auto printType = [&](StringRef column, FloatType type) {
    printCell(column, toString(type),
              record.isLowered() && type.getWidth() < 32);
  };
  // The order of the cells must match the titles.
  printCell("op", decision.op->getName().stripDialect());
  printCell("phase", stringifyPhase(getPhase(decision.op)));
  printType("compute", record.getCompute());
  printType("storage", record.getStorage());
  printCell("class", stringifyPrecisionClass(record.getPrecisionClass()));
  printCell("reason", stringifyReason(record.getReason()));
  if (const auto &casts = decision.casts) {
    printCell("casts", std::to_string(casts->getCasts()));
    printCell("free", std::to_string(casts->free));
  }
  if (const auto &cost = decision.cost)
    printCell("cost", std::to_string(record.isLow() ? cost->low : cost->high));
  os << "</tr>";
  printFacts(index);
  os << "</tbody>\n";
}

void PagePrinter::printTable() {
  os << "<div class=\"scroll\"><table>\n<thead><tr>";
  for (StringRef title : titles)
    os << "<th scope=\"col\"><button type=\"button\">" << title
       << "</button></th>";
  os << "</tr></thead>\n";
  for (unsigned i = 0; i < decisions.size(); ++i)
    printRow(i);
  os << "</table></div>\n";
}

void DecisionReport::printPage(llvm::raw_ostream &os, StringRef title) const {
  PagePrinter printer(os, decisions);
  printer.printHead(title, getSummary());
  printer.printFilters();
  printer.printTable();
  os << "<script>" << page::kScript << "</script>\n</body>\n</html>\n";
}
