// Draws charts as SVG, so that a page shows them without scripts. report.js
// adds the values under the mouse pointer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_REPORT_CHART_H
#define MPC_TOOLS_MPC_REPORT_CHART_H

#include "tools/mpc/report/RunMetrics.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// One line of a chart: a quantity of one run.
struct ChartLine {
  std::string label;
  const Series *series;
  size_t colour = 0;
  bool isDashed = false;
  bool hasPoints = false; ///< few values, drawn as dots
};

/// Steps that the chart marks by ticks at the foot, for example skipped steps.
struct ChartMarks {
  const std::vector<double> *steps;
  size_t colour = 0;
};

enum class ChartScale {
  Linear,
  Automatic, ///< logarithmic if values differ by magnitudes
  PowersOfTwo,
};

/// How a chart draws the values of many steps as a line.
enum class ChartStyle {
  Smooth, ///< a moving mean, over a band of all values
  Steps,  ///< a staircase: a value holds until the next
  Plain,
};

struct Chart {
  std::string title;
  std::string unit; ///< the unit of the values; may be empty
  ChartScale scale = ChartScale::Linear;
  ChartStyle style = ChartStyle::Plain;
  bool cutsOutliers = false;
  std::string caption = ""; ///< text beside the title
  std::vector<ChartLine> lines = {};
  std::vector<ChartMarks> marks = {};
};

/// Returns the chart as a <figure> element; empty if no line has a finite
/// value.
std::string drawChart(const Chart &chart);

/// Escapes text for HTML, inside elements and attributes.
std::string escapeHTML(llvm::StringRef text);

/// Formats a value for a table or a tooltip.
std::string formatValue(double value);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_CHART_H
