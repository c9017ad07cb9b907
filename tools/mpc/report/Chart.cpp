// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/report/Chart.h"

#include "runtime/train/support/Text.h"
#include "tools/mpc/report/Axis.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

using namespace mpc;
using namespace mpc::tools;

// The size of the drawing, and the margins between its edges and the axes.
// report.js reads these numbers from the data in the page.
static constexpr double kWidth = 640, kHeight = 260;
static constexpr double kLeft = 58, kRight = 12, kTop = 10, kBottom = 34;
static constexpr double kAcross = kWidth - kLeft - kRight;
static constexpr double kUp = kHeight - kTop - kBottom;
/// The most points per line; the eye cannot separate more.
static constexpr size_t kMostPoints = 300;
static constexpr size_t kColours = 8;

std::string mpc::tools::escapeHTML(llvm::StringRef text) {
  std::string escaped;
  for (char c : llvm::json::fixUTF8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  return escaped;
}

std::string mpc::tools::formatValue(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.5g", value);
  return text;
}

//===----------------------------------------------------------------------===//
// Points of a line, each for several steps
//===----------------------------------------------------------------------===//

namespace {
/// A point of a line. A point stands for a step, or for several consecutive
/// steps.
struct Point {
  double step;             ///< the last of the steps
  double value, low, high; ///< mean, least, greatest; or NaN
};
using Points = std::vector<Point>;
} // namespace

/// Makes one point of the steps at positions `begin` to `end` of a series.
/// `value` is the mean of the values that are not above `limit`. If there are
/// none, or `limit` is nullopt, it is the last finite value.
static Point join(const Series &series, size_t begin, size_t end,
                  std::optional<double> limit) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  assert(begin < end && end <= series.steps.size() && "a run of steps");
  Point point = {series.steps[end - 1], nan, nan, nan};
  double sum = 0, count = 0;
  for (size_t i = begin; i < end; ++i) {
    const double value = series.values[i];
    if (!std::isfinite(value))
      continue;
    point.low = std::fmin(point.low, value);
    point.high = std::fmax(point.high, value);
    // This sum cannot overflow: values are at most 1e300, so a million of them
    // are finite.
    const bool counts = limit && value <= *limit;
    sum += counts ? value : 0;
    count += counts;
    point.value = count > 0 ? sum / count : value;
  }
  return point;
}

static Points reduce(const Series &series, std::optional<double> limit) {
  const size_t size = series.steps.size();
  const size_t count = std::min(size, kMostPoints);
  Points points;
  for (size_t i = 0; i < count; ++i)
    points.push_back(
        join(series, size * i / count, size * (i + 1) / count, limit));
  return points;
}

/// Returns the points with each value replaced by the mean of the points around
/// it.
static Points smoothed(const Points &points) {
  const size_t reach = points.size() / 50;
  Points smooth = points;
  for (size_t i = 0; i < points.size(); ++i) {
    // Near the beginning, make the window smaller on both sides, to keep the
    // window symmetric: a loss often starts with a steep fall, which a
    // one-sided mean would distort.
    const size_t before = std::min(reach, i);
    const size_t end = std::min(i + before + 1, points.size());
    double sum = 0, count = 0;
    for (size_t j = i - before; j < end; ++j)
      if (std::isfinite(points[j].value)) {
        sum += points[j].value;
        ++count;
      }
    if (std::isfinite(points[i].value))
      smooth[i].value = sum / count;
  }
  return smooth;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

namespace {
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value))
      return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool isEmpty() const { return low > high; }
};
} // namespace

/// If a few values lie far above all others, returns the value at which the
/// axis ends, and so cuts off the outliers; nullopt otherwise.
static std::optional<double> findCut(const Chart &chart) {
  std::vector<double> values;
  for (const ChartLine &line : chart.lines)
    llvm::copy_if(line.series->values, std::back_inserter(values),
                  [](double value) { return std::isfinite(value); });
  if (!chart.cutsOutliers || values.empty())
    return std::nullopt;
  const double greatest = *llvm::max_element(values);
  auto place = values.begin() + ptrdiff_t(values.size() * 98 / 100);
  std::nth_element(values.begin(), place, values.end());
  const double most = 1.5 * *place;
  return most > 0 && greatest > 2 * most ? std::optional(most) : std::nullopt;
}

static size_t countAbove(const Chart &chart, double most) {
  size_t count = 0;
  for (const ChartLine &line : chart.lines)
    count += llvm::count_if(line.series->values,
                            [&](double value) { return value > most; });
  return count;
}

static ChartAxis chooseAxis(const Chart &chart, Range range) {
  constexpr double magnitudes = 50;
  if (chart.scale != ChartScale::Linear && range.low > 0 &&
      (chart.scale == ChartScale::PowersOfTwo ||
       range.high / range.low > magnitudes))
    return ChartAxis(chart.scale == ChartScale::PowersOfTwo
                         ? ChartAxis::Kind::PowersOfTwo
                         : ChartAxis::Kind::Logarithmic,
                     range.low / 1.2, range.high * 1.2);
  // Extend the axis of a constant percentage downwards only, since a percentage
  // cannot exceed 100 %.
  if (llvm::StringRef(chart.unit).starts_with("%") && range.low == range.high &&
      range.high <= 100)
    range.low = std::max(0.0, range.high - 10);
  // Leave room above and below, because a line has a width.
  const double room = (range.high - range.low) / 30;
  return ChartAxis(ChartAxis::Kind::Linear,
                   range.low >= 0 && range.low < 3 * room ? 0
                                                          : range.low - room,
                   range.high + room);
}

//===----------------------------------------------------------------------===//
// Drawing
//===----------------------------------------------------------------------===//

namespace {
/// Draws a chart as the text of an SVG figure.
class Drawing {
public:
  explicit Drawing(const Chart &chart);
  std::string draw();

private:
  double x(double step) const { return kLeft + kAcross * across->place(step); }
  double y(double value) const;
  void drawFrame();
  void drawLine(size_t index);
  void drawBand(const Points &points);
  void drawPath(const Points &points, llvm::StringRef attributes);
  void drawMarks(const ChartMarks &marks, size_t row);
  void writeLegend();
  void writeData();
  std::string label() const;

  const Chart &chart;
  std::vector<Points> points, lines; ///< one entry per line of the chart
  std::optional<ChartAxis> across, up;
  size_t cut = 0; ///< number of values that are cut off
  std::string text;
  llvm::raw_string_ostream os{text};
};
} // namespace

Drawing::Drawing(const Chart &chart) : chart(chart) {
  Range steps, values;
  const std::optional<double> most = findCut(chart);
  const std::optional<double> all = std::numeric_limits<double>::infinity();
  for (const ChartLine &line : chart.lines) {
    assert(line.series &&
           line.series->steps.size() == line.series->values.size() &&
           "a value per step");
    const bool isMean = chart.style == ChartStyle::Smooth;
    points.push_back(reduce(*line.series, !isMean ? std::nullopt
                                          : most  ? most
                                                  : all));
    const bool isSmooth = isMean && !line.hasPoints;
    lines.push_back(isSmooth ? smoothed(points.back()) : points.back());
    for (const Point &point : points.back()) {
      values.add(point.low);
      values.add(point.high);
    }
    if (!line.series->empty()) {
      steps.add(line.series->steps.front());
      steps.add(line.series->steps.back());
    }
  }
  if (values.isEmpty())
    return;
  // Cut off a few values far above the rest, and count them.
  if (most) {
    values.high = *most;
    cut = countAbove(chart, *most);
  }
  across.emplace(ChartAxis::Kind::Linear, steps.low, steps.high);
  up = chooseAxis(chart, values);
}

double Drawing::y(double value) const {
  assert(up && "a chart with values has axes");
  // A value far outside the chart needs no exact position; clamp it to keep the
  // SVG short.
  const double place = std::clamp(up->place(value), -0.5, 1.5);
  return kTop + kUp * (1 - place);
}

static llvm::format_object<double> at(double coordinate) {
  return llvm::format("%.1f", coordinate);
}

void Drawing::drawFrame() {
  os << "<g class=\"grid\">";
  for (const Tick &tick : up->ticks(5))
    os << "<path d=\"M" << at(kLeft) << " " << at(y(tick.value)) << "H"
       << at(kWidth - kRight) << "\"/><text class=\"left\" x=\""
       << at(kLeft - 8) << "\" y=\"" << at(y(tick.value) + 4) << "\">"
       << tick.label << "</text>";
  for (const Tick &tick : across->ticks(6))
    // Skip ticks between whole numbers, since steps are whole numbers.
    if (tick.value == std::floor(tick.value))
      os << "<path class=\"short\" d=\"M" << at(x(tick.value)) << " "
         << at(kHeight - kBottom) << "v5\"/><text x=\"" << at(x(tick.value))
         << "\" y=\"" << at(kHeight - kBottom + 17) << "\">" << tick.label
         << "</text>";
  os << "<path class=\"base\" d=\"M" << at(kLeft) << " "
     << at(kHeight - kBottom) << "H" << at(kWidth - kRight) << "\"/><text x=\""
     << at(kLeft + kAcross / 2) << "\" y=\"" << at(kHeight - 3)
     << "\">step</text></g>\n";
}

void Drawing::drawPath(const Points &points, llvm::StringRef attributes) {
  os << "<path " << attributes << " d=\"";
  bool isOpen = false;
  for (const Point &point : points) {
    if (!std::isfinite(point.value)) {
      isOpen = false;
      continue;
    }
    if (!isOpen)
      os << "M" << at(x(point.step)) << " " << at(y(point.value));
    else if (chart.style == ChartStyle::Steps)
      os << "H" << at(x(point.step)) << "V" << at(y(point.value));
    else
      os << "L" << at(x(point.step)) << " " << at(y(point.value));
    isOpen = true;
  }
  os << "\"/>";
}

/// Fills the band between the least and the greatest value of each point. Gaps
/// without values split the band.
void Drawing::drawBand(const Points &points) {
  os << "<path class=\"band\" d=\"";
  for (auto begin = points.begin(); begin != points.end();) {
    auto has = [](const Point &point) { return std::isfinite(point.value); };
    begin = std::find_if(begin, points.end(), has);
    auto end = std::find_if_not(begin, points.end(), has);
    for (auto point = begin; point != end; ++point)
      os << (point == begin ? "M" : "L") << at(x(point->step)) << " "
         << at(y(point->high));
    for (auto point = end; point != begin;) {
      --point;
      os << "L" << at(x(point->step)) << " " << at(y(point->low));
    }
    os << (begin == end ? "" : "Z");
    begin = end;
  }
  os << "\"/>";
}

void Drawing::drawLine(size_t index) {
  assert(index < lines.size() && lines.size() == points.size() &&
         "a line of the chart");
  const ChartLine &line = chart.lines[index];
  const Points &all = points[index];
  os << "<g class=\"c" << line.colour % kColours << "\" data-label=\""
     << escapeHTML(line.label) << "\">";
  // Behind a smoothed line, show the values before smoothing: as a band, or as
  // a faint line if each point is a step.
  const bool isSmooth = chart.style == ChartStyle::Smooth && !line.hasPoints;
  if (isSmooth && line.series->steps.size() > all.size())
    drawBand(all);
  else if (isSmooth)
    drawPath(all, "class=\"faint\"");
  drawPath(lines[index],
           line.isDashed ? "class=\"line dashed\"" : "class=\"line\"");
  // Draw dots if there are too few points to make a line.
  constexpr size_t fewest = 60;
  if (all.size() == 1 || (line.hasPoints && all.size() <= fewest))
    for (const Point &point : all)
      if (std::isfinite(point.value))
        os << "<circle cx=\"" << at(x(point.step)) << "\" cy=\""
           << at(y(point.value)) << "\" r=\"3\"/>";
  os << "</g>\n";
}

/// Draws the marks of certain steps as ticks at the foot of the chart. Steps at
/// the same pixel share a tick.
void Drawing::drawMarks(const ChartMarks &marks, size_t row) {
  assert(marks.steps && across && "marks lie on the axis of steps");
  os << "<path class=\"mark c" << marks.colour % kColours << "\" d=\"";
  const double foot = kHeight - kBottom - 8 * double(row);
  double last = -1;
  for (double step : *marks.steps) {
    const double place = std::round(x(step));
    if (step < across->low() || step > across->high() || place == last)
      continue;
    last = place;
    os << "M" << at(place) << " " << at(foot) << "v-7";
  }
  os << "\"/>\n";
}

void Drawing::writeLegend() {
  // If the chart has a single line, and the title ends with the line's label,
  // there is no need for a legend.
  if (chart.lines.size() == 1 &&
      llvm::StringRef(chart.title).ends_with(chart.lines.front().label))
    return;
  os << "<p class=\"legend\">";
  for (const ChartLine &line : chart.lines)
    os << "<span class=\"c" << line.colour % kColours
       << (line.isDashed ? " dashed" : "") << "\"><i></i>"
       << escapeHTML(line.label) << "</span> ";
  os << "</p>\n";
}

static void writeNumber(llvm::raw_ostream &os, double value) {
  if (std::isfinite(value))
    os << llvm::format("%.6g", value);
  else
    os << "null";
}

/// Writes the data as JSON, from which report.js shows the values under the
/// mouse pointer.
void Drawing::writeData() {
  // For a point of several steps, also write the least and the greatest value.
  const bool isLinear = up->kind() == ChartAxis::Kind::Linear;
  os << "<script type=\"application/json\">{\"frame\":[" << kLeft << "," << kTop
     << "," << kAcross << "," << kUp << "],\"x\":["
     << llvm::format("%.17g,%.17g", across->low(), across->high())
     << "],\"y\":[" << llvm::format("%.17g,%.17g", up->low(), up->high())
     << "],\"log\":" << (isLinear ? "false" : "true") << ",\"lines\":[";
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    os << (i ? ",\n" : "") << "{\"colour\":" << chart.lines[i].colour % kColours
       << ",\"points\":[";
    for (size_t j = 0; j < points[i].size(); ++j) {
      const Point &point = points[i][j];
      os << (j ? ",[" : "[") << llvm::format("%.0f", point.step) << ",";
      writeNumber(os, lines[i][j].value);
      if (point.low < point.high) {
        os << ",";
        writeNumber(os, point.low);
        os << ",";
        writeNumber(os, point.high);
      }
      os << "]";
    }
    os << "]}";
  }
  os << "]}</script>\n";
}

/// Returns a description of the chart for screen readers.
std::string Drawing::label() const {
  std::string words = chart.title + " by step";
  for (size_t i = 0; i < chart.lines.size(); ++i)
    if (!points[i].empty())
      words += (i ? "; " : ": ") + chart.lines[i].label + " ends at " +
               formatValue(lines[i].back().value);
  return escapeHTML(words);
}

std::string Drawing::draw() {
  if (!up)
    return "";
  os << "<figure>\n<figcaption><h2>" << escapeHTML(chart.title);
  if (!chart.unit.empty())
    os << " <small>" << escapeHTML(chart.unit) << "</small>";
  os << "</h2>";
  std::string caption = chart.caption;
  if (cut > 0)
    caption += (caption.empty() ? "" : "; ") +
               runtime::train::counted(int64_t(cut), "step") + " above " +
               formatValue(up->high()) + " cut off";
  if (up->kind() != ChartAxis::Kind::Linear)
    caption += std::string(caption.empty() ? "" : "; ") + "logarithmic";
  if (!caption.empty())
    os << "<p>" << escapeHTML(caption) << "</p>";
  writeLegend();
  os << "</figcaption>\n<div class=\"chart\"><svg viewBox=\"0 0 " << int(kWidth)
     << " " << int(kHeight) << "\" role=\"img\" aria-label=\"" << label()
     << "\">\n";
  drawFrame();
  // Cut off the lines at the axes, but leave room for half of a dot that lies
  // on an axis.
  const int left = int(kLeft) - 4, top = int(kTop) - 4;
  const int width = int(kAcross) + 8, height = int(kUp) + 8;
  os << "<svg x=\"" << left << "\" y=\"" << top << "\" width=\"" << width
     << "\" height=\"" << height << "\" viewBox=\"" << left << " " << top << " "
     << width << " " << height << "\">\n";
  for (size_t i = 0; i < chart.lines.size(); ++i)
    drawLine(i);
  for (size_t i = 0; i < chart.marks.size(); ++i)
    drawMarks(chart.marks[i], i);
  os << "</svg><g class=\"hover\"></g></svg></div>\n";
  writeData();
  os << "</figure>\n";
  return text;
}

std::string mpc::tools::drawChart(const Chart &chart) {
  return Drawing(chart).draw();
}
