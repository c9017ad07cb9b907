// Reads the JSON of a plan, and tracks the path ("functions.step.steps[3].m").
// Records the first field that is missing, unknown, or of the wrong kind.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_PLANREADER_H
#define MPC_RUNTIME_PLANREADER_H

#include "runtime/Plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mpc::runtime {

/// Reads one object of a document. All readers of the document share the first
/// failure. After a failure every read returns a default, so callers need not
/// check each read.
class PlanReader {
public:
  PlanReader(const nlohmann::json &json, std::string path, Status &failure)
      : json(json), path(std::move(path)), failure(failure) {}

  bool failed() const { return !failure.ok(); }

  void fail(const std::string &what) {
    if (!failed())
      failure = Status(StatusCode::InvalidInput,
                       "invalid plan: " + path + ": " + what);
  }

  /// Returns the member `key`. Fails and returns JSON null if there is none.
  const nlohmann::json &get(const char *key) {
    static const nlohmann::json null;
    if (!json.is_object()) {
      fail(std::string("expected an object, found ") + json.type_name());
      return null;
    }
    auto it = json.find(key);
    if (it == json.end()) {
      fail(std::string("'") + key + "' is missing");
      return null;
    }
    return *it;
  }

  bool has(const char *key) const {
    return json.is_object() && json.contains(key) && !json[key].is_null();
  }

  std::string string(const char *key) {
    const nlohmann::json &value = get(key);
    if (value.is_string())
      return value.get<std::string>();
    fail(std::string("'") + key + "' is not a string, found " +
         value.type_name());
    return {};
  }

  int64_t integer(const char *key) { return toInteger(get(key), key); }

  int64_t integerOr(const char *key, int64_t fallback) {
    return has(key) ? integer(key) : fallback;
  }

  double number(const char *key) {
    const nlohmann::json &value = get(key);
    if (value.is_number())
      return value.get<double>();
    fail(std::string("'") + key + "' is not a number, found " +
         value.type_name());
    return 0;
  }

  bool boolean(const char *key) {
    const nlohmann::json &value = get(key);
    if (value.is_boolean())
      return value.get<bool>();
    fail(std::string("'") + key + "' is not true or false, found " +
         value.type_name());
    return false;
  }

  /// Reads an index; verifyPlan checks its range.
  size_t index(const char *key) { return toIndex(get(key), key); }

  std::vector<int64_t> integers(const char *key) {
    std::vector<int64_t> values;
    for (const nlohmann::json &value : array(key))
      values.push_back(toInteger(value, key));
    return values;
  }

  std::vector<size_t> indices(const char *key) {
    std::vector<size_t> values;
    for (const nlohmann::json &value : array(key))
      values.push_back(toIndex(value, key));
    return values;
  }

  std::vector<std::string> strings(const char *key) {
    std::vector<std::string> values;
    for (const nlohmann::json &value : array(key)) {
      if (!value.is_string())
        fail(std::string("'") + key +
             "' holds something else than strings, found " + value.type_name());
      else
        values.push_back(value.get<std::string>());
    }
    return values;
  }

  const nlohmann::json &array(const char *key) {
    static const nlohmann::json empty = nlohmann::json::array();
    const nlohmann::json &value = get(key);
    if (value.is_array())
      return value;
    fail(std::string("'") + key + "' is not a list, found " +
         value.type_name());
    return empty;
  }

  PlanReader object(const char *key) {
    return PlanReader(get(key), path + "." + key, failure);
  }

  /// Calls `body` with a reader for each element of a list of objects.
  template <typename Body>
  void each(const char *key, Body body) {
    size_t i = 0;
    for (const nlohmann::json &value : array(key)) {
      PlanReader element(
          value, path + "." + key + "[" + std::to_string(i) + "]", failure);
      if (!failed())
        body(element);
      ++i;
    }
  }

  /// Calls `body` with the name of each member of an object, and a reader for
  /// the member.
  template <typename Body>
  void eachMember(const char *key, Body body) {
    PlanReader members = object(key);
    if (!members.json.is_object())
      members.fail(std::string("expected an object, found ") +
                   members.json.type_name());
    if (failed())
      return;
    for (const auto &[name, value] : members.json.items()) {
      PlanReader member(value, members.path + "." + name, failure);
      body(name, member);
    }
  }

  /// Fails if the object has a member outside `known`.
  void expectOnly(const std::vector<std::string_view> &known) {
    if (!json.is_object())
      return fail(std::string("expected an object, found ") + json.type_name());
    for (const auto &[key, value] : json.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail("unknown field '" + key + "'");
  }

  DType type(const char *key) {
    StatusOr<DType> type = parseDType(string(key));
    if (type.ok())
      return *type;
    fail(type.status().message());
    return DType::F32;
  }

  /// Reads a string that names an enumerator by its word in runtime/Names.h.
  template <typename Enum>
  Enum word(const char *key) {
    const std::string text = string(key);
    const std::optional<Enum> value = symbolize<Enum>(text);
    if (!value)
      fail("unknown " + std::string(Words<Enum>::kind) + " '" + text + "'");
    return value.value_or(Enum{});
  }

  std::string text() const { return json.dump(); }

  const nlohmann::json &json;
  std::string path;

private:
  int64_t toInteger(const nlohmann::json &value, const char *key) {
    // An unsigned value above the range of int64_t would wrap silently.
    if (value.is_number_integer() &&
        !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
      return value.get<int64_t>();
    fail(std::string("'") + key + "' is not a 64-bit integer, found " +
         value.type_name());
    return 0;
  }

  size_t toIndex(const nlohmann::json &value, const char *key) {
    int64_t index = toInteger(value, key);
    if (index < 0)
      fail(std::string("'") + key + "' is negative: " + std::to_string(index));
    return static_cast<size_t>(index);
  }

  Status &failure;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_PLANREADER_H
