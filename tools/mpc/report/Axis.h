// A chart's axis: the range, the places of values, and the labels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_REPORT_AXIS_H
#define MPC_TOOLS_MPC_REPORT_AXIS_H

#include <string>
#include <vector>

namespace mpc::tools {

struct Tick {
  double value;
  std::string label;
};

class ChartAxis {
public:
  enum class Kind { Linear, Logarithmic, PowersOfTwo };

  /// Makes an axis from `low` to `high`. Both must be finite and, unless
  /// linear, above 0. An empty range is widened.
  ChartAxis(Kind kind, double low, double high);

  /// The place of a value: 0 at the low end, 1 at the high end.
  double place(double value) const;
  /// About `count` ticks on round values.
  std::vector<Tick> ticks(int count) const;

  Kind kind() const { return axisKind; }
  double low() const { return from; }
  double high() const { return to; }

private:
  std::vector<Tick> linearTicks(int count) const;
  std::vector<Tick> powerTicks(int count) const;

  Kind axisKind;
  double from, to;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_AXIS_H
