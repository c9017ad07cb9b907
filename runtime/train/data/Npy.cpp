// Reads .npy strictly: never evaluates the header, which must have the form
// that NumPy writes, a dictionary of descr, fortran_order and shape.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <set>

namespace mpc::runtime::train {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
/// Limit on the length of a header. NumPy's own limit is 10,000, and usual
/// headers are far shorter.
constexpr size_t kMaxHeader = 65536;
static_assert(kMaxNpyHeader == kMaxHeader + 12, "magic, version, length");

struct Header {
  ElementType type = ElementType::F32;
  /// For elements that are not read: the name of their type, the reason, and
  /// the bytes of an element; nullopt if the header does not tell.
  std::string unread, fault;
  std::optional<int64_t> unreadSize;
  bool bigEndian = false;
  bool fortranOrder = false;
  Shape shape;
};

/// Parses the dictionary in the header from left to right.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text(text) {}

  /// Parses the whole header. Returns the reason for a failure; nullopt on
  /// success.
  std::optional<std::string> parse(Header &header) {
    // Accept only the subset of Python's dictionaries that NumPy writes:
    // {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}.
    if (!accept('{'))
      return "expected '{' at the start of the header";
    std::set<std::string> seen;
    while (!accept('}')) {
      std::string key;
      if (!string(key) || !accept(':'))
        return "expected a quoted key and ':'";
      if (!seen.insert(key).second)
        return "key '" + key + "' occurs twice";
      if (auto reason = value(key, header))
        return reason;
      if (accept(','))
        continue;
      if (accept('}'))
        break;
      return "expected ',' or '}' after '" + key + "'";
    }
    // value() refuses all other keys, so if there are three, they are the right
    // three.
    if (seen.size() != 3)
      return "expected the keys descr, fortran_order and shape";
    skipSpace();
    if (!text.empty())
      return "text after the dictionary";
    return std::nullopt;
  }

private:
  std::optional<std::string> value(const std::string &key, Header &header) {
    if (key == "descr")
      return descr(header);
    if (key == "fortran_order") {
      if (word("True"))
        header.fortranOrder = true;
      else if (!word("False"))
        return "fortran_order is neither True nor False";
      return std::nullopt;
    }
    if (key == "shape")
      return shape(header.shape);
    return "unknown key '" + key + "'";
  }

  std::optional<std::string> descr(Header &header) {
    std::string code;
    if (!string(code)) {
      if (!skipList())
        return "descr is neither a string nor a list of fields";
      header.unread = "structure";
      header.fault = "structured element types are not read";
      return std::nullopt;
    }
    static const struct {
      std::string_view code;
      ElementType type;
    } table[] = {
        {"b1", ElementType::Bool}, {"u1", ElementType::U8},
        {"i1", ElementType::I8},   {"u2", ElementType::U16},
        {"i2", ElementType::I16},  {"u4", ElementType::U32},
        {"i4", ElementType::I32},  {"u8", ElementType::U64},
        {"i8", ElementType::I64},  {"f2", ElementType::F16},
        {"f4", ElementType::F32},  {"f8", ElementType::F64},
    };
    // The code has byte order, kind and size: "<f4".
    const char order = code.empty() ? '\0' : code[0];
    for (const auto &entry : table) {
      if (code.size() != 3 || code.compare(1, 2, entry.code) != 0)
        continue;
      if (order != '<' && order != '>' && order != '=' && order != '|')
        break;
      header.type = entry.type;
      header.bigEndian = order == '>';
      return std::nullopt;
    }
    return unreadDescr(code, header);
  }

  /// Accepts a type that NumPy has and ElementType lacks. Only its name and
  /// size are known then.
  static std::optional<std::string> unreadDescr(const std::string &code,
                                                Header &header) {
    const std::string reason =
        "element type '" + code +
        "' is not one of bool, u1..u8, i1..i8, f2, f4, f8";
    const bool hasOrder =
        !code.empty() && std::string_view("<>=|").find(code[0]) != code.npos;
    std::string_view rest = std::string_view(code).substr(hasOrder);
    if (rest.empty())
      return reason;
    const char kind = rest[0];
    rest.remove_prefix(1);
    int64_t size = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), size);
    const std::string_view unit(end, size_t(rest.data() + rest.size() - end));
    const bool isTime = kind == 'M' || kind == 'm';
    if ((kind == 'O') != rest.empty() ||
        (kind != 'O' && (error != std::errc() || size < 0)) ||
        (!unit.empty() && !isTime))
      return reason;
    const bool isText = kind == 'U' || kind == 'S';
    header.fault = reason;
    if (kind != 'O')
      header.unreadSize = size;
    if (isText) {
      header.unread = "text";
      header.fault += "; help: this is text; numpy.unique(labels, "
                      "return_inverse=True)[1] are numbers";
      // A character of U has four bytes.
      if (kind == 'U' && __builtin_mul_overflow(size, 4, &*header.unreadSize))
        return reason;
    } else if (isTime) {
      header.unread = "time";
    } else if (kind == 'c') {
      header.unread = "complex";
    } else if (kind == 'V' || kind == 'f') {
      header.unread = kind == 'V' ? "bytes" : "f" + std::to_string(size * 8);
    } else if (kind == 'O') {
      header.unread = "object";
      header.fault = "object arrays (pickled Python) are not read";
    } else {
      return reason;
    }
    return std::nullopt;
  }

  /// Skips a list in brackets, which may have other lists and strings inside.
  bool skipList() {
    skipSpace();
    if (text.empty() || text[0] != '[')
      return false;
    for (int64_t depth = 0; !text.empty();) {
      const char c = text[0];
      if (std::string ignored; c == '\'' || c == '"') {
        if (!string(ignored))
          return false;
        continue;
      }
      text.remove_prefix(1);
      depth += c == '[' || c == '(';
      depth -= c == ']' || c == ')';
      if (depth == 0)
        return true;
    }
    return false;
  }

  std::optional<std::string> shape(Shape &shape) {
    if (!accept('('))
      return "expected '(' before the shape";
    bool comma = true;
    while (!accept(')')) {
      int64_t extent;
      if (!comma || !number(extent))
        return "the shape is not a tuple of non-negative integers";
      if (shape.size() == kMaxRank)
        return "more than " + std::to_string(kMaxRank) + " dimensions";
      shape.push_back(extent);
      comma = accept(',');
    }
    if (shape.size() == 1 && !comma)
      return "the shape is not a tuple";
    return std::nullopt;
  }

  bool number(int64_t &value) {
    skipSpace();
    size_t digits = 0;
    value = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9';
         ++digits)
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(text[digits] - '0'), &value))
        return false;
    text.remove_prefix(digits);
    return digits > 0;
  }

  bool string(std::string &value) {
    skipSpace();
    if (text.empty() || (text[0] != '\'' && text[0] != '"'))
      return false;
    const size_t end = text.find(text[0], 1);
    if (end == std::string_view::npos)
      return false;
    value = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return value.find('\\') == std::string::npos;
  }

  bool word(std::string_view expected) {
    skipSpace();
    if (text.substr(0, expected.size()) != expected)
      return false;
    text.remove_prefix(expected.size());
    return true;
  }

  bool accept(char c) {
    skipSpace();
    if (text.empty() || text[0] != c)
      return false;
    text.remove_prefix(1);
    return true;
  }

  void skipSpace() {
    const size_t start = text.find_first_not_of(" \t\r\n");
    text.remove_prefix(std::min(start, text.size()));
  }

  std::string_view text;
};

} // namespace

/// Returns the size of the array in bytes; nullopt if it does not fit in 63
/// bits.
static std::optional<int64_t> byteSize(const Header &header) {
  int64_t bytes = header.fault.empty() ? sizeOf(header.type)
                                       : header.unreadSize.value_or(1);
  for (int64_t extent : header.shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      return std::nullopt;
  return bytes;
}

/// Copies big-endian or Fortran-ordered elements to little-endian C order. The
/// copy is as large as the input, so a small file cannot make it huge.
static std::shared_ptr<const std::byte[]>
reorder(const std::byte *from, const Header &header, int64_t bytes) {
  const int64_t width = sizeOf(header.type);
  std::shared_ptr<std::byte[]> to(new std::byte[size_t(bytes)]);
  // strides[axis] is the distance in the file, in elements, of neighbours along
  // an axis.
  const size_t rank = header.shape.size();
  std::vector<int64_t> strides(rank), index(rank);
  int64_t stride = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = header.fortranOrder ? i : rank - 1 - i;
    strides[axis] = stride;
    stride *= header.shape[axis];
  }
  // Visit elements in C order. `offset` is the position of the element in the
  // file.
  int64_t offset = 0;
  for (int64_t element = 0; element * width < bytes; ++element) {
    std::byte *out = to.get() + element * width;
    std::memcpy(out, from + offset * width, size_t(width));
    if (header.bigEndian)
      std::reverse(out, out + width);
    for (size_t axis = rank; axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < header.shape[axis])
        break;
      offset -= strides[axis] * header.shape[axis];
      index[axis] = 0;
    }
  }
  return to;
}

bool looksLikeNpy(const std::byte *data, size_t size) {
  return size >= kMagic.size() &&
         std::memcmp(data, kMagic.data(), kMagic.size()) == 0;
}

namespace {
/// The header of a file, and the position and size of its values.
struct Beginning {
  Header header;
  size_t values = 0; ///< the offset of the first value
  int64_t bytes = 0; ///< the size of the values
};
} // namespace

/// Parses the header of a file of `size` bytes. Only the first `present` bytes
/// are in memory, at `data`.
static StatusOr<Beginning> readBeginning(const std::byte *data, size_t present,
                                         size_t size,
                                         const std::string &where) {
  if (!looksLikeNpy(data, present))
    return invalid(where, "not a .npy file: it does not begin with \\x93NUMPY");
  if (present < kMagic.size() + 2)
    return invalid(where, "truncated .npy header: the file has " +
                              std::to_string(size) + " bytes");
  // A file begins with magic bytes and version. The length of the header
  // follows, in 2 or 4 bytes, depending on the version.
  const auto byteAt = [&](size_t i) { return size_t(data[i]); };
  const size_t version = byteAt(6);
  if (version < 1 || version > 3)
    return invalid(where, "unknown .npy version " + std::to_string(version) +
                              ", expected 1 to 3");
  const size_t lengthBytes = version == 1 ? 2 : 4;
  const size_t start = kMagic.size() + 2 + lengthBytes;
  if (present < start)
    return invalid(where, "truncated .npy header: the file has " +
                              std::to_string(size) + " bytes");
  size_t length = 0;
  for (size_t i = lengthBytes; i-- > 0;)
    length = length << 8 | byteAt(kMagic.size() + 2 + i);
  if (length > kMaxHeader)
    return invalid(where, "the header claims " + std::to_string(length) +
                              " bytes; at most " + std::to_string(kMaxHeader) +
                              " are read");
  if (length > present - start)
    return invalid(where, "truncated .npy header: the file has " +
                              std::to_string(size) + " bytes");

  // Refuse a file whose shape and type do not account for every byte after the
  // header.
  Beginning beginning;
  Header &header = beginning.header;
  const std::string_view text(reinterpret_cast<const char *>(data + start),
                              length);
  if (auto reason = HeaderParser(text).parse(header))
    return invalid(where, "bad .npy header: " + *reason);
  const std::optional<int64_t> bytes = byteSize(header);
  const size_t found = size - start - length;
  // Only NumPy knows the size of objects and structures.
  const bool isSizeKnown = header.fault.empty() || header.unreadSize;
  if (!bytes || (isSizeKnown && uint64_t(*bytes) != found))
    return invalid(
        where, "shape " + toString(header.shape) + " of " +
                   (header.fault.empty() ? std::string(nameOf(header.type))
                                         : header.unread) +
                   " takes " + (bytes ? std::to_string(*bytes) : "over 2^63") +
                   " bytes, the file has " + std::to_string(found));
  beginning.values = start + length;
  beginning.bytes = *bytes;
  return beginning;
}

static Array describe(const Header &header, const std::string &where) {
  Array array;
  array.type = header.type;
  array.shape = header.shape;
  array.unreadType = header.unread;
  if (!header.fault.empty())
    array.fault = where + ": " + header.fault;
  return array;
}

StatusOr<Array> parseNpyHeader(const std::byte *data, size_t present,
                               size_t size, const std::string &where) {
  StatusOr<Beginning> beginning = readBeginning(data, present, size, where);
  if (!beginning.ok())
    return beginning.status();
  return describe(beginning->header, where);
}

StatusOr<Array> parseNpy(const std::byte *data, size_t size,
                         std::shared_ptr<const void> owner,
                         const std::string &where) {
  StatusOr<Beginning> beginning = readBeginning(data, size, size, where);
  if (!beginning.ok())
    return beginning.status();
  // Use the file's bytes in place, unless the elements must be reordered.
  const Header &header = beginning->header;
  Array array = describe(header, where);
  if (!array.fault.empty())
    return array;
  array.data = data + beginning->values;
  array.owner = std::move(owner);
  if (beginning->bytes == 0 || (!header.fortranOrder && !header.bigEndian))
    return array;
  auto reordered = reorder(array.data, header, beginning->bytes);
  array.data = reordered.get();
  array.owner = std::move(reordered);
  return array;
}

/// Returns the header for elements of the type `code`.
static std::string makeHeader(const std::string &code, const Shape &shape) {
  std::string literal =
      "{'descr': '" + code + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    literal += (i ? ", " : "") + std::to_string(shape[i]);
  literal += shape.size() == 1 ? ",), }" : "), }";
  // Pad the header so that it ends with a newline and the elements start at a
  // multiple of 64 bytes.
  const size_t fixed = kMagic.size() + 2 + 2;
  literal.append(63 - (fixed + literal.size()) % 64, ' ');
  literal += '\n';
  std::string header(kMagic);
  header +=
      {'\x01', '\x00', char(literal.size() & 0xff), char(literal.size() >> 8)};
  return header + literal;
}

/// Decodes UTF-8. Each byte that begins no valid character becomes U+FFFD.
static std::u32string decode(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    const size_t length = first < 0x80                    ? 1
                          : first >= 0xc2 && first < 0xe0 ? 2
                          : first >= 0xe0 && first < 0xf0 ? 3
                          : first >= 0xf0 && first < 0xf5 ? 4
                                                          : 0;
    bool isValid = length > 0 && length <= text.size();
    char32_t character = length < 2 ? first : first & (0x7f >> length);
    for (size_t i = 1; isValid && i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[i]);
      isValid = (next & 0xc0) == 0x80;
      character = character << 6 | (next & 0x3f);
    }
    characters += isValid ? character : U'\ufffd';
    text.remove_prefix(isValid ? length : 1);
  }
  return characters;
}

std::string packTexts(const std::vector<std::string> &texts) {
  std::vector<std::u32string> decoded;
  size_t longest = 1;
  for (const std::string &text : texts)
    longest = std::max(longest, decoded.emplace_back(decode(text)).size());
  std::string bytes =
      makeHeader("<U" + std::to_string(longest), {int64_t(texts.size())});
  for (std::u32string &text : decoded) {
    text.resize(longest, U'\0');
    bytes.append(reinterpret_cast<const char *>(text.data()),
                 longest * sizeof(char32_t));
  }
  return bytes;
}

StatusOr<std::string> npyHeader(const Array &array) {
  static const std::string_view codes[] = {"|b1", "|u1", "|i1", "<u2", "<i2",
                                           "<u4", "<i4", "<u8", "<i8", "<f2",
                                           "",    "<f4", "<f8"};
  const std::string_view code = codes[size_t(array.type)];
  if (code.empty())
    return Status(StatusCode::Unsupported,
                  array.name + ": NumPy has no type for bf16; write a "
                               ".safetensors file");
  return makeHeader(std::string(code), array.shape);
}

} // namespace mpc::runtime::train
