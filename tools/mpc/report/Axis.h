// The axis of a chart: maps values to positions, and chooses ticks with labels.
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

  /// Makes an axis from `low` to `high`, both finite. Unless the axis is
  /// linear, both must be above 0. If both are equal, widens the range.
  ChartAxis(Kind kind, double low, double high);

  /// Returns the position of a value on the axis: 0 at the low end, 1 at the
  /// high end.
  double place(double value) const;
  /// Returns about `count` ticks at round values.
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
