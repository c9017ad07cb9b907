// JSON of text that nobody vouches for.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_BOUNDEDJSON_H
#define MPC_RUNTIME_BOUNDEDJSON_H

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mpc::runtime {

/// The document; discarded where it is not well-formed, or nested so deeply
/// that the library, which recurses over what it has parsed, would run out of
/// stack on it. Throws std::bad_alloc alone.
nlohmann::json parseBoundedJSON(std::string_view text);

/// A document without repeated keys, or why there is none.
struct StrictDocument {
  nlohmann::json json;
  std::string problem;
};

/// The same for formats that refuse a key that stands twice in one object, of
/// which the library takes the last, with at most `deepest` values in another.
StrictDocument parseStrictJSON(std::string_view text, size_t deepest);

/// Empties a document that parseBoundedJSON made, the innermost values first.
/// The library's destructor allocates where there are values within values,
/// and where memory is short it would end the process.
void clear(nlohmann::json &document) noexcept;

/// A document that is emptied when it is not needed any longer.
struct BoundedDocument {
  explicit BoundedDocument(std::string_view text)
      : json(parseBoundedJSON(text)) {}
  BoundedDocument(const BoundedDocument &) = delete;
  BoundedDocument &operator=(const BoundedDocument &) = delete;
  ~BoundedDocument() { clear(json); }

  nlohmann::json json;
};

/// The document's text, compact or with that indentation. Bytes that are no
/// UTF-8, such as those of a file's name, are replaced, as JSON has none.
std::string textOf(const nlohmann::json &document, int indent = -1);

/// `text` for a message: its first characters where it is long.
std::string abbreviated(std::string_view text);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_BOUNDEDJSON_H
