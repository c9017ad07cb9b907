// Builds documents value by value from the events of nlohmann's SAX parser.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/BoundedJSON.h"

#include <vector>

namespace mpc::runtime {

using nlohmann::json;

/// Limit on nesting, far deeper than any document of mpc.
static constexpr size_t kDeepest = 256;

namespace {

/// Builds the document `root` from the events of nlohmann's SAX parser.
class Builder {
public:
  explicit Builder(json &root, size_t deepest = kDeepest, bool isStrict = false)
      : root(root), deepest(deepest), isStrict(isStrict) {}

  /// The reason for refusing the document, such as a repeated key; empty if
  /// none.
  std::string problem;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const json::string_t &) {
    return add(value);
  }
  bool string(json::string_t &value) { return add(std::move(value)); }
  bool binary(json::binary_t &) { return false; } // JSON has no binary values
  bool start_object(size_t) { return open(json::value_t::object); }
  bool start_array(size_t) { return open(json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(json::string_t &name) {
    auto &members = *parents.back()->get_ptr<json::object_t *>();
    const auto [found, isNew] = members.try_emplace(std::move(name));
    member = &found->second;
    if (!isNew && isStrict) {
      problem = "key '" + found->first + "' occurs twice";
      return false;
    }
    clear(*member); // for a repeated key the last value counts
    return true;
  }

  bool parse_error(size_t, const std::string &, const json::exception &) {
    return false;
  }

private:
  /// Returns the value to fill next: the root, a new element of an array, or
  /// the member that an object's last key names.
  json &next() {
    if (parents.empty())
      return root;
    if (auto *elements = parents.back()->get_ptr<json::array_t *>())
      return elements->emplace_back();
    return *member;
  }

  template <typename Value>
  bool add(Value &&value) {
    next() = json(std::forward<Value>(value));
    return true;
  }

  bool open(json::value_t kind) {
    if (parents.size() == deepest) {
      problem = "is nested too deeply";
      return false;
    }
    json &value = next();
    value = json(kind);
    parents.push_back(&value);
    return true;
  }

  bool close() {
    parents.pop_back();
    return true;
  }

  json &root;
  const size_t deepest;
  const bool isStrict;
  std::vector<json *> parents; ///< open arrays and objects, outermost first
  json *member = nullptr; ///< the value of the innermost object's current key
};

} // namespace

void clear(json &document) noexcept {
  if (auto *elements = document.get_ptr<json::array_t *>()) {
    for (json &element : *elements)
      clear(element);
    elements->clear();
  } else if (auto *members = document.get_ptr<json::object_t *>()) {
    for (auto &[name, member] : *members)
      clear(member);
    members->clear();
  }
}

json parseBoundedJSON(std::string_view text) {
  json document;
  try {
    Builder builder(document);
    if (json::sax_parse(text.begin(), text.end(), &builder))
      return document;
  } catch (...) {
    clear(document);
    throw;
  }
  clear(document);
  return json(json::value_t::discarded);
}

StrictDocument parseStrictJSON(std::string_view text, size_t deepest) {
  StrictDocument document;
  try {
    Builder builder(document.json, deepest, /*isStrict=*/true);
    if (json::sax_parse(text.begin(), text.end(), &builder))
      return document;
    document.problem =
        builder.problem.empty() ? "is not JSON" : std::move(builder.problem);
  } catch (...) {
    clear(document.json);
    throw;
  }
  clear(document.json);
  return document;
}

std::string textOf(const nlohmann::json &document, int indent) {
  return document.dump(indent, ' ', /*ensure_ascii=*/false,
                       nlohmann::json::error_handler_t::replace);
}

std::string abbreviated(std::string_view text) {
  constexpr size_t kLongest = 120;
  if (text.size() <= kLongest)
    return std::string(text);
  return std::string(text.substr(0, kLongest)) + "... (" +
         std::to_string(text.size()) + " bytes)";
}

} // namespace mpc::runtime
