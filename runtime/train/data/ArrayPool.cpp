// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/ArrayPool.h"

#include "runtime/train/data/CSV.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mpc::runtime::train {

/// Lists at most 20 names: "'a', 'b'".
static std::string listArrayNames(const std::vector<std::string> &names) {
  constexpr size_t most = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  return names.size() > most
             ? text + " and " + std::to_string(names.size() - most) + " more"
             : text;
}

StatusOr<ArrayPool> ArrayPool::create(std::vector<Array> arrays) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Array &array : arrays)
    if (!seen.emplace(array.source, array.name).second)
      return invalid(locate(array), "two arrays have this name");
  ArrayPool pool;
  pool.arrays = std::move(arrays);
  return pool;
}

bool ArrayPool::has(const std::string &name) const {
  return std::any_of(arrays.begin(), arrays.end(),
                     [&](const Array &array) { return array.name == name; });
}

std::vector<Array> ArrayPool::take(const std::string &name) {
  std::vector<Array> found;
  for (const Array &array : arrays)
    if (array.name == name)
      found.push_back(array);
  if (!found.empty())
    taken.insert(name);
  return found;
}

bool ArrayPool::hasColumns() const {
  return std::any_of(arrays.begin(), arrays.end(),
                     [](const Array &array) { return array.isColumn; });
}

static std::vector<std::string> namesOf(const std::vector<Array> &arrays) {
  std::vector<std::string> names;
  for (const Array &array : arrays)
    names.push_back(array.name);
  return names;
}

StatusOr<std::vector<Array>>
ArrayPool::takeColumns(const std::string &name, int64_t count,
                       const std::vector<std::string> &others) {
  // Collect the columns of each table, in the order of the files.
  std::vector<std::vector<Array>> tables;
  for (const Array &array : arrays) {
    if (!array.isColumn ||
        std::find(others.begin(), others.end(), array.name) != others.end())
      continue;
    if (tables.empty() || tables.back()[0].source != array.source)
      tables.emplace_back();
    tables.back().push_back(array);
  }
  // Each table becomes one part of the input's data, with a row per sample.
  std::vector<Array> parts;
  for (const std::vector<Array> &table : tables) {
    const std::vector<std::string> names = namesOf(table);
    const char *help = int64_t(table.size()) < count
                           ? "; a row is one sample"
                           : ", and name labels with --target-array";
    // If the number of columns does not fit, mpc cannot know which to take.
    if (int64_t(table.size()) != count)
      return invalid(table[0].source,
                     std::to_string(table.size()) +
                         " columns are left for "
                         "the input '" +
                         name + "', which takes " + std::to_string(count) +
                         ": " + listArrayNames(names) +
                         "; choose with --csv-columns " + name + "=..." + help);
    // A second table must have the columns of the first, in the same order.
    if (names != namesOf(tables[0]))
      return invalid(table[0].source, "has other columns than " +
                                          tables[0][0].source + ": " +
                                          listArrayNames(names));
    StatusOr<Array> array = stackColumns(table, name);
    if (!array.ok())
      return array.status();
    parts.push_back(std::move(*array));
    taken.insert(names.begin(), names.end());
  }
  if (parts.empty())
    return invalid("no columns are left for the input '" + name +
                   "'; choose with --csv-columns " + name + "=...");
  return parts;
}

Status ArrayPool::missing(const Port &port,
                          const std::optional<std::string> &target) const {
  std::set<std::string> sources;
  std::vector<std::string> names;
  for (const Array &array : arrays) {
    if (!array.source.empty())
      sources.insert(array.source);
    if (std::find(names.begin(), names.end(), array.name) == names.end())
      names.push_back(array.name);
  }
  std::string text;
  for (const std::string &source : sources)
    text += (text.empty() ? "" : ", ") + source;
  text += (text.empty() ? "" : ": ");
  text += "no array is called '" + port.name + "'";
  if (target && *target != port.name)
    text += " or '" + *target + "'";
  text += ", which the model takes as " + std::string(stringify(port.role)) +
          "; the data has " +
          (names.empty() ? "no arrays" : listArrayNames(names));
  // Suggest a remedy that fits the data: naming the labels, choosing columns,
  // or renaming arrays.
  if (target && !names.empty())
    text += "; help: name the labels with --target-array";
  else if (hasColumns())
    text += "; help: say which columns it takes, --csv-columns " + port.name +
            "=...";
  else if (!names.empty())
    text += "; help: save the array under that name, or name a file with one "
            "array: --data " +
            port.name + "=FILE";
  return invalid(text);
}

std::vector<std::string> ArrayPool::describeUnused() const {
  std::map<std::string, std::vector<std::string>> unused;
  for (const Array &array : arrays)
    if (!taken.count(array.name))
      unused[array.source].push_back(array.name);
  // If many files have the same arrays, name only the first file.
  std::map<std::vector<std::string>, std::vector<std::string>> files;
  for (const auto &[source, names] : unused)
    files[names].push_back(source);
  std::vector<std::string> notes;
  for (const auto &[names, sources] : files)
    notes.push_back(
        (sources[0].empty() ? "" : sources[0] + ": ") + "no input takes " +
        listArrayNames(names) +
        (sources.size() > 1
             ? ", nor those of " + std::to_string(sources.size() - 1) +
                   (sources.size() > 2 ? " more files" : " more file")
             : ""));
  return notes;
}

} // namespace mpc::runtime::train
