// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/report/Axis.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace mpc::tools;

template <typename... Ts>
static std::string print(const char *pattern, Ts... values) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(pattern, values...);
  return text;
}

ChartAxis::ChartAxis(Kind kind, double low, double high)
    : axisKind(kind), from(low), to(high) {
  assert(std::isfinite(low) && std::isfinite(high) && low <= high &&
         "a range of numbers");
  assert((kind == Kind::Linear || low > 0) && "logarithms of numbers above 0");
  if (from < to)
    return;
  if (kind == Kind::Linear) {
    const double room = from == 0 ? 1 : std::fabs(from) / 10;
    from -= room;
    to += room;
  } else {
    from /= 2;
    to *= 2;
  }
}

double ChartAxis::place(double value) const {
  if (axisKind == Kind::Linear)
    return (value - from) / (to - from);
  return std::log(value / from) / std::log(to / from);
}

std::vector<Tick> ChartAxis::ticks(int count) const {
  return axisKind == Kind::Linear ? linearTicks(count) : powerTicks(count);
}

// Formats the label of a tick, like "20k" or "1.5M". `step` is the distance of
// two ticks, so labels have enough digits to differ. `size` is the largest
// absolute value on the axis, and determines the unit.
static std::string labelOf(double value, double step, double size) {
  if (value == 0)
    return "0";
  for (auto [unit, name] : {std::pair(1e9, "G"), {1e6, "M"}, {1e4, "k"}})
    if (size >= unit && size < 1e12) {
      const double divisor = unit == 1e4 ? 1e3 : unit;
      const int digits =
          std::clamp(int(std::ceil(-std::log10(step / divisor) - 1e-9)), 0, 6);
      return print("%.*f", digits, value / divisor) + name;
    }
  if (size >= 1e12 || step < 1e-5)
    return print("%.3g", value);
  const int digits = std::clamp(int(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return print("%.*f", digits, value);
}

std::vector<Tick> ChartAxis::linearTicks(int count) const {
  const double rough = (to - from) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (double factor : {1., 2., 5., 10.})
    if (std::fabs(factor * power - rough) < std::fabs(step - rough))
      step = factor * power;
  std::vector<Tick> ticks;
  if (!(step > 0) || !std::isfinite(step))
    return ticks;
  const double first = std::ceil(from / step - 1e-9);
  const double most = 4.0 * count;
  for (double i = 0; i < most && (first + i) * step <= to + step * 1e-9; ++i)
    ticks.push_back({(first + i) * step,
                     labelOf((first + i) * step, step,
                             std::max(std::fabs(from), std::fabs(to)))});
  return ticks;
}

std::vector<Tick> ChartAxis::powerTicks(int count) const {
  const double base = axisKind == Kind::PowersOfTwo ? 2 : 10;
  const double first = std::ceil(std::log(from) / std::log(base) - 1e-9);
  const double last = std::floor(std::log(to) / std::log(base) + 1e-9);
  std::vector<Tick> ticks;
  const double stride = std::max(1.0, std::ceil((last - first) / count));
  // On a range of less than two powers of ten, also put ticks at 2 and 5 times
  // a power.
  const bool isSparse = base == 10 && last - first < 2;
  for (double power = first - (isSparse ? 1 : 0); power <= last;
       power += stride)
    for (double factor : {1., 2., 5.}) {
      const double value = factor * std::pow(base, power);
      const bool isIn = value >= from * (1 - 1e-9) && value <= to * (1 + 1e-9);
      if (!isIn || (factor != 1 && !isSparse))
        continue;
      if (base == 10)
        ticks.push_back({value, print("%.4g", value)});
      else
        ticks.push_back({value, value >= 1 && value < 1e6
                                    ? print("%.0f", value)
                                    : print("2^%.0f", power)});
    }
  return ticks;
}
