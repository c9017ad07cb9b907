// Draws charts as SVG, so that a page shows them without scripts. A script adds
// the values under the pointer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_REPORT_CHART_H
#define MPC_TOOLS_MPC_REPORT_CHART_H

#include "tools/mpc/report/RunMetrics.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// A quantity of a run.
struct ChartLine {
  std::string label;
  const Series *series;
  size_t colour = 0;
  bool isDashed = false;
  bool hasPoints = false; ///< few values, each drawn as a point
};

/// Steps to mark with ticks at the foot of the chart.
struct ChartMarks {
  const std::vector<double> *steps;
  size_t colour = 0;
};

enum class ChartScale {
  Linear,
  Automatic, ///< logarithmic if values span several magnitudes
  PowersOfTwo,
};

/// The method that turns the values of many steps into a line.
enum class ChartStyle {
  Smooth, ///< a moving mean over a band from least to greatest value
  Steps,  ///< each value holds until the next
  Plain,
};

struct Chart {
  std::string title;
  std::string unit; ///< of values; may be empty
  ChartScale scale = ChartScale::Linear;
  ChartStyle style = ChartStyle::Plain;
  bool cutsOutliers = false;
  std::string caption = ""; ///< more text beside the title
  std::vector<ChartLine> lines = {};
  std::vector<ChartMarks> marks = {};
};

/// Draws the chart as a <figure>; empty if no line has a finite value.
std::string drawChart(const Chart &chart);

/// Escapes text for HTML, inside elements and attributes.
std::string escapeHTML(llvm::StringRef text);

/// Formats a value for a table or a tooltip.
std::string formatValue(double value);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_CHART_H
