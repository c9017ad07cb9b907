// Charts as SVG: drawn here, so that a page shows them where scripts do not
// run; a script adds the values under the pointer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_REPORT_CHART_H
#define MPC_TOOLS_MPC_REPORT_CHART_H

#include "tools/mpc/report/RunMetrics.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// One quantity of one run.
struct ChartLine {
  std::string label;
  const Series *series;
  size_t colour = 0;
  bool isDashed = false;
  bool hasPoints = false; ///< few values, each of its own
};

/// Steps at which something happened, as ticks at the foot of the chart.
struct ChartMarks {
  const std::vector<double> *steps;
  size_t colour = 0;
};

enum class ChartScale {
  Linear,
  Automatic, ///< logarithmic where values are of several magnitudes
  PowersOfTwo,
};

/// How the values of many steps become a line.
enum class ChartStyle {
  Smooth, ///< a moving mean over a band from the least to the greatest
  Steps,  ///< each value holds until the next
  Plain,
};

struct Chart {
  std::string title;
  std::string unit; ///< of values; may be empty
  ChartScale scale = ChartScale::Linear;
  ChartStyle style = ChartStyle::Plain;
  bool cutsOutliers = false;
  std::string caption = ""; ///< further words beside the title
  std::vector<ChartLine> lines = {};
  std::vector<ChartMarks> marks = {};
};

/// The chart as a <figure>; empty where no line has a finite value.
std::string drawChart(const Chart &chart);

/// Text for HTML, inside elements and attributes.
std::string escapeHTML(llvm::StringRef text);

/// A value as a table or a tooltip shows it.
std::string formatValue(double value);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_CHART_H
