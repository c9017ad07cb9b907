// Parsing of JSON that nobody vouches for.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_BOUNDEDJSON_H
#define MPC_RUNTIME_BOUNDEDJSON_H

#include <nlohmann/json.hpp>
#include <string_view>

namespace mpc::runtime {

/// The document; discarded where it is not well-formed, or nested so deeply
/// that the library, which recurses over what it has parsed, would run out of
/// stack on it.
inline nlohmann::json parseBoundedJSON(std::string_view text) {
  using nlohmann::json;
  constexpr int kDeepest = 256;
  bool tooDeep = false;
  const auto watch = [&](int depth, json::parse_event_t, json &) {
    tooDeep = tooDeep || depth > kDeepest;
    return !tooDeep;
  };
  json document = json::parse(text.begin(), text.end(), watch,
                              /*allow_exceptions=*/false);
  return tooDeep ? json(json::value_t::discarded) : document;
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_BOUNDEDJSON_H
