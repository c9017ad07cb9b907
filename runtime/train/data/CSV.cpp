// Parses tables strictly: a field that is no number is an error, never a guess.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/CSV.h"

#include "runtime/BoundedJSON.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>

namespace mpc::runtime::train {

static std::string lowerExtension(const std::filesystem::path &path) {
  std::string extension = path.extension().string();
  for (char &c : extension)
    c = char(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return extension;
}

bool isCSV(const std::string &path) { return lowerExtension(path) == ".csv"; }

bool isReadableCSV(const std::string &path) {
  return isCSV(path) || (lowerExtension(path) == ".gz" &&
                         isCSV(std::filesystem::path(path).stem().string()));
}

namespace {

/// Reads a table record by record. A record is a line, or several lines if a
/// quoted field contains line breaks.
class RecordReader {
public:
  explicit RecordReader(std::string_view text) : text(text) {
    if (text.substr(0, 3) == "\xef\xbb\xbf") // a byte order mark
      position = 3;
  }

  bool atEnd() const { return position == text.size(); }
  /// The line, from 1, on which the last record begins.
  int64_t line() const { return startLine; }
  /// True if the last record has a quoted field.
  bool hasQuotes() const { return quoted; }

  /// Reads the fields of the next record. Returns the reason for a failure;
  /// nullopt on success.
  std::optional<std::string> read(std::vector<std::string> &fields) {
    fields.clear();
    startLine = nextLine;
    quoted = false;
    for (;;) {
      fields.emplace_back();
      if (auto reason = readField(fields.back()))
        return reason;
      if (atEnd())
        return std::nullopt;
      if (text[position] == ',') {
        ++position;
        continue;
      }
      endLine();
      return std::nullopt;
    }
  }

private:
  static bool isBreak(char c) { return c == '\n' || c == '\r'; }

  std::optional<std::string> readField(std::string &field) {
    if (!atEnd() && text[position] == '"')
      return readQuoted(field);
    const size_t begin = position;
    while (!atEnd() && text[position] != ',' && !isBreak(text[position]))
      ++position;
    field = text.substr(begin, position - begin);
    return std::nullopt;
  }

  std::optional<std::string> readQuoted(std::string &field) {
    quoted = true;
    for (++position; !atEnd(); ++position) {
      const char c = text[position];
      if (c != '"') {
        nextLine += c == '\n';
        field += c;
        continue;
      }
      ++position;
      if (atEnd() || text[position] == ',' || isBreak(text[position]))
        return std::nullopt;
      if (text[position] != '"')
        return "text after a closing quote";
      field += '"';
    }
    return "a quote that is not closed";
  }

  void endLine() {
    if (text[position] == '\r' && position + 1 < text.size() &&
        text[position + 1] == '\n')
      ++position;
    ++position;
    ++nextLine;
  }

  std::string_view text;
  size_t position = 0;
  int64_t nextLine = 1, startLine = 1;
  bool quoted = false;
};

/// A column while the table is being read.
struct ColumnBuilder {
  std::string name;
  std::vector<double> values;
  std::string fault;  ///< about the first field that is no number
  int64_t faults = 0; ///< the number of such fields
};

} // namespace

static std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos)
    return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Converts a number that is out of range for from_chars, as strtod does:
/// 1e-400 becomes 0, 1e400 becomes infinity.
static double roundToRange(std::string_view text) {
  const std::string number(text);
  char *end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  // In a locale with a decimal comma, strtod stops at the point. NaN makes the
  // caller refuse the number.
  return end == number.c_str() + number.size()
             ? value
             : std::numeric_limits<double>::quiet_NaN();
}

/// Parses a field that is a finite number; nullopt for other fields.
static std::optional<double> parseNumber(std::string_view text) {
  if (!text.empty() && text[0] == '+' && text.substr(0, 2) != "+-")
    text.remove_prefix(1);
  double value = 0;
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (rest != end)
    return std::nullopt;
  if (error == std::errc::result_out_of_range)
    value = roundToRange(text);
  else if (error != std::errc())
    return std::nullopt;
  if (!std::isfinite(value))
    return std::nullopt;
  return value;
}

/// Returns the message for a field that is no number.
static std::string describeField(std::string_view field) {
  static const std::set<std::string, std::less<>> missing{
      "", "na", "n/a", "nan", "null", "none", "#n/a", "?"};
  std::string lower(field);
  for (char &c : lower)
    c = char(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  if (missing.count(lower))
    return "a value is missing; fill it in or leave the line out";
  std::string shown(field.substr(0, 40));
  if (shown.size() < field.size())
    shown += "...";
  return "'" + shown + "' is not a finite number; encode text as numbers";
}

/// Adds a column for each name in the table's first line. Returns the reason
/// for a failure; nullopt on success.
static std::optional<std::string>
nameColumns(const std::vector<std::string> &header,
            std::vector<ColumnBuilder> &columns) {
  std::set<std::string> seen;
  for (size_t i = 0; i < header.size(); ++i) {
    const std::string name(trimmed(header[i]));
    if (name.empty() && i > 0)
      return "column " + std::to_string(i + 1) + " has no name";
    if (!seen.insert(name).second)
      return "two columns are called '" + name + "'";
    if (parseNumber(name))
      return "the first line has the number " + name +
             " where the name of a column is expected; add a line of names";
    columns.push_back({name, {}, "", 0});
  }
  if (header.size() == 1 && header[0].find_first_of(";\t") != std::string::npos)
    return "one column, '" + abbreviated(header[0]) +
           "'; columns have commas between them, not semicolons or tabs";
  return std::nullopt;
}

/// True if `text` is an integer that f64 cannot hold, like 9007199254740993.
/// `value` is the f64 nearest to `text`.
static bool isRounded(double value, std::string_view text) {
  if (text.find_first_of(".eE") != std::string_view::npos)
    return false;
  if (!text.empty() && text[0] == '+')
    text.remove_prefix(1);
  int64_t integer = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), integer);
  // Near 2^63 the double may be too large to convert back.
  constexpr double limit = 9e18;
  return error != std::errc() || std::abs(value) > limit ||
         int64_t(value) != integer;
}

static void addField(ColumnBuilder &column, std::string_view field,
                     int64_t line) {
  const std::string_view text = trimmed(field);
  const std::optional<double> value = parseNumber(text);
  const bool isFault = !value || isRounded(*value, text);
  column.faults += isFault;
  if (!column.fault.empty())
    return;
  if (!isFault) {
    column.values.push_back(*value);
    return;
  }
  column.fault = "line " + std::to_string(line) + ", column '" + column.name +
                 "': " +
                 (value ? std::string(text) + " has no exact value in f64"
                        : describeField(text));
  column.values = {};
}

static Array toArray(ColumnBuilder &&column,
                     std::shared_ptr<const std::vector<int64_t>> lines,
                     const std::string &path) {
  auto values = std::make_shared<std::vector<double>>(std::move(column.values));
  Array array;
  array.name = std::move(column.name);
  array.source = path;
  array.type = ElementType::F64;
  array.shape = {int64_t(values->size())};
  array.data = reinterpret_cast<const std::byte *>(values->data());
  array.owner = std::move(values);
  array.isColumn = true;
  array.table = std::make_shared<const TablePlace>(
      TablePlace{std::move(lines), {array.name}});
  if (!column.fault.empty())
    array.fault = path + ": " + column.fault;
  if (column.faults > 1)
    array.fault +=
        " (" + std::to_string(column.faults) + " such values in the column)";
  return array;
}

StatusOr<std::vector<Array>> parseCSV(std::string_view text,
                                      const std::string &path) {
  RecordReader reader(text);
  std::vector<std::string> fields;
  std::vector<ColumnBuilder> columns;
  const auto at = [&](const std::string &reason) {
    return invalid(path,
                   "line " + std::to_string(reader.line()) + ": " + reason);
  };
  if (reader.atEnd())
    return invalid(path, "the file is empty");
  if (auto reason = reader.read(fields))
    return at(*reason);
  if (auto reason = nameColumns(fields, columns))
    return at(*reason);
  // Skip empty lines. But in a table of one column, an empty line with data
  // after it is a missing value, like "".
  int64_t blank = 0;
  auto lines = std::make_shared<std::vector<int64_t>>();
  while (!reader.atEnd()) {
    if (auto reason = reader.read(fields))
      return at(*reason);
    if (fields.size() == 1 && trimmed(fields[0]).empty() &&
        !reader.hasQuotes()) {
      blank = blank ? blank : reader.line();
      continue;
    }
    if (blank && columns.size() == 1)
      addField(columns[0], "", blank);
    if (fields.size() != columns.size())
      return at("has " + std::to_string(fields.size()) +
                " values, the first line names " +
                std::to_string(columns.size()) + " columns");
    lines->push_back(reader.line());
    for (size_t i = 0; i < fields.size(); ++i)
      addField(columns[i], fields[i], reader.line());
  }
  // Columns without a name, like pandas' index, are left out.
  std::vector<Array> arrays;
  for (ColumnBuilder &column : columns)
    if (!column.name.empty())
      arrays.push_back(toArray(std::move(column), lines, path));
  return arrays;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

static std::string listNames(const std::vector<Array> &columns) {
  constexpr size_t most = 20;
  std::string text;
  for (size_t i = 0; i < std::min(columns.size(), most); ++i)
    text += (i ? ", '" : "'") + columns[i].name + "'";
  return columns.size() > most ? text + ", ..." : text;
}

StatusOr<std::vector<Array>> chooseColumns(const std::vector<Array> &columns,
                                           std::string_view names) {
  const auto find = [&](std::string_view name) {
    return std::find_if(columns.begin(), columns.end(),
                        [&](const Array &array) { return array.name == name; });
  };
  std::vector<Array> chosen;
  for (;;) {
    const size_t comma = std::min(names.find(','), names.size());
    const std::string_view part = names.substr(0, comma);
    // If a column's name contains a colon, the text means this column, not a
    // range.
    const size_t colon = find(part) == columns.end()
                             ? std::min(part.find(':'), part.size())
                             : part.size();
    // A range includes both ends. Its columns are in the order of the file.
    const auto first = find(part.substr(0, colon));
    const auto last =
        colon == part.size() ? first : find(part.substr(colon + 1));
    if (first == columns.end() || last == columns.end())
      return invalid("no column is called '" +
                     std::string(first == columns.end()
                                     ? part.substr(0, colon)
                                     : part.substr(colon + 1)) +
                     "'; the file has " + listNames(columns));
    if (last < first)
      return invalid("column '" + last->name + "' is before '" + first->name +
                     "'");
    chosen.insert(chosen.end(), first, last + 1);
    if (comma == names.size())
      return chosen;
    names.remove_prefix(comma + 1);
  }
}

StatusOr<Array> stackColumns(const std::vector<Array> &columns,
                             const std::string &name) {
  // A column with a fault may be in the file, but may not be used. Name all, so
  // that the table need be repaired only once.
  std::string fault, others;
  for (const Array &column : columns)
    if (!column.fault.empty() && !fault.empty())
      others += (others.empty() ? "'" : ", '") + column.name + "'";
    else if (!column.fault.empty())
      fault = column.fault;
  if (!fault.empty())
    return invalid(fault + (others.empty() ? "" : "; likewise in " + others));
  const int64_t rows = columns[0].shape[0];
  const int64_t width = int64_t(columns.size());
  // Transpose: columns are contiguous, but samples must be rows.
  auto values = std::make_shared<std::vector<double>>(size_t(rows * width));
  for (int64_t i = 0; i < width; ++i) {
    const auto *from =
        reinterpret_cast<const double *>(columns[size_t(i)].data);
    for (int64_t row = 0; row < rows; ++row)
      (*values)[size_t(row * width + i)] = from[row];
  }
  Array array = columns[0];
  array.name = name;
  array.shape = {rows, width};
  TablePlace place{columns[0].table->lines, {}};
  for (const Array &column : columns)
    place.columns.push_back(column.name);
  array.table = std::make_shared<const TablePlace>(std::move(place));
  array.data = reinterpret_cast<const std::byte *>(values->data());
  array.owner = std::move(values);
  return array;
}

} // namespace mpc::runtime::train
