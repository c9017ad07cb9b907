// Parses and prints untrusted JSON.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_BOUNDEDJSON_H
#define MPC_RUNTIME_BOUNDEDJSON_H

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mpc::runtime {

/// Parses `text`. The result is discarded if the text is malformed or nested so
/// deeply that nlohmann's recursion over the document could overflow the stack.
/// Throws only std::bad_alloc.
nlohmann::json parseBoundedJSON(std::string_view text);

/// A document without repeated keys, or the problem that prevents one.
struct StrictDocument {
  nlohmann::json json;
  std::string problem;
};

/// Like parseBoundedJSON, but reports a key that occurs twice in an object as a
/// problem; nlohmann's parser would take the last value. Values may nest
/// `deepest` levels.
StrictDocument parseStrictJSON(std::string_view text, size_t deepest);

/// Empties a document of parseBoundedJSON, innermost values first. nlohmann's
/// destructor allocates memory for nested values, and would end the process if
/// memory is short.
void clear(nlohmann::json &document) noexcept;

/// A parsed document. The destructor calls clear(), which needs no memory.
struct BoundedDocument {
  explicit BoundedDocument(std::string_view text)
      : json(parseBoundedJSON(text)) {}
  BoundedDocument(const BoundedDocument &) = delete;
  BoundedDocument &operator=(const BoundedDocument &) = delete;
  ~BoundedDocument() { clear(json); }

  nlohmann::json json;
};

/// Prints `document`, compact or with `indent` spaces. JSON must be UTF-8, so
/// invalid bytes, for example in file names, are replaced.
std::string textOf(const nlohmann::json &document, int indent = -1);

/// Returns `text` for a message: only its beginning if it is long.
std::string abbreviated(std::string_view text);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_BOUNDEDJSON_H
