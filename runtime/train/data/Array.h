// Defines arrays from files, which are read in place from a mapped file if
// possible.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_ARRAY_H
#define MPC_RUNTIME_TRAIN_DATA_ARRAY_H

#include "runtime/Status.h"
#include "runtime/Tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

class ImageFolder;
class PackedArray;

// clang-format off
enum class ElementType {
  Bool, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64
};
// clang-format on

int64_t sizeOf(ElementType type);
/// Returns the type's name, like "u8", "bf16" or "bool". Types that DType has
/// too have the names that DType gives them.
std::string_view nameOf(ElementType type);
bool isFloat(ElementType type);
ElementType toElementType(DType type);
DType toDType(ElementType type);

/// The largest rank of an array in a file. No honest file has a larger one.
inline constexpr size_t kMaxRank = 32;

/// The place of a table's values in its file, for messages.
struct TablePlace {
  /// The line, from 1, on which each row begins.
  std::shared_ptr<const std::vector<int64_t>> lines;
  /// The names of the columns that are side by side in a row.
  std::vector<std::string> columns;
};

/// A dense, row-major, little-endian array. The bytes belong to `owner` (a
/// mapping or a buffer) and need not be aligned.
struct Array {
  std::string name;
  std::string source; ///< the file, for messages; may be empty
  ElementType type = ElementType::F32;
  Shape shape;
  const std::byte *data = nullptr;
  std::shared_ptr<const void> owner;

  /// True for a column of a table, [N], or for several columns side by side,
  /// [N, columns]. A column fits an input of any shape that has as many
  /// elements per sample.
  bool isColumn = false;
  /// The place of the values in the table; null for other arrays.
  std::shared_ptr<const TablePlace> table = nullptr;
  /// True if each sample comes from a file of its own, or if the format knows
  /// no channels. Then axes of extent 1 do not matter: samples [N,40,60] fit an
  /// input [N,1,40,60].
  bool isOfSamples = false;
  /// For labels that are the names of folders: the names, in the order of the
  /// labels' numbers. Empty for other arrays.
  std::vector<std::string> classes = {};
  /// True if the note about the images beside names the classes.
  bool areClassesNoted = false;
  /// The reason why the array has no values; empty if there are values. An
  /// error only if the array is used.
  std::string fault = "";
  /// The name of an element type that no ElementType equals, such as "text".
  /// Empty for other arrays. The array has a fault, and `type` means nothing.
  std::string unreadType = "";
  /// Image files that are not decoded yet; null for other arrays. The input
  /// decides the shape of the images; until then the array has no elements.
  std::shared_ptr<const ImageFolder> images = nullptr;
  /// The array's values in an archive, still compressed; null for other arrays.
  /// The array has no values until `unpack`.
  std::shared_ptr<const PackedArray> packed = nullptr;

  int64_t size() const { return numElements(shape); }
  int64_t bytes() const { return size() * sizeOf(type); }
};

/// A member of an archive, whose values are decompressed only when needed.
/// Copies of an Array share the PackedArray.
class PackedArray {
public:
  virtual ~PackedArray();
  /// Returns the array with its values; InvalidInput if they are damaged.
  virtual StatusOr<Array> unpack() const = 0;
};

/// Returns the name of the type of the array's elements, also if they are not
/// read: "f32", "text".
std::string_view typeNameOf(const Array &array);

/// Reads the values of a packed array into memory; does nothing for other
/// arrays. InvalidInput if the array has a fault, IO if memory is too short.
Status unpack(Array &array);

/// Returns an array that owns a copy of the tensor's bytes.
Array toArray(std::string name, const Tensor &tensor);

/// The reason why a value cannot be converted to another type.
enum class ConversionFault {
  NotFinite,   ///< NaN or infinity where only numbers are allowed
  OutOfRange,  ///< outside the range of the type
  NotIntegral, ///< a fraction where an integer is wanted
  Inexact,     ///< an integer that the floating-point type rounds
};

struct BadElement {
  int64_t index = 0; ///< row-major position in the array
  ConversionFault fault = ConversionFault::NotFinite;
  std::string value; ///< as text
};

/// Decides whether NaN and infinities may pass between floating-point types.
enum class NonFinite { Allow, Reject };

/// Converts elements [begin, begin + count) of `array` into `out`, or only
/// checks them if `out` is null. Floating-point values are rounded to nearest
/// even; all other conversions preserve the value. Returns the first element
/// that cannot be converted; earlier elements have been written.
std::optional<BadElement> convertElements(const Array &array, int64_t begin,
                                          int64_t count, DType type,
                                          NonFinite nonFinite, void *out);

/// Return InvalidInput with the message `what`. The second form puts `where`
/// and a colon before the message.
Status invalid(const std::string &what);
Status invalid(const std::string &where, const std::string &what);

/// Returns "data.npz: x", or only the name without a source.
std::string locate(const Array &array);
/// Names the element at row-major position `index`: "data.npz: x[3,0,2]", or
/// "data.csv: line 5, column 'age'".
std::string locate(const Array &array, int64_t index);

/// Describes a failed conversion: "data.npz: x[3,0,2]: nan is not a finite
/// number".
std::string describe(const Array &array, const BadElement &bad, DType type);

/// Converts the whole array to a tensor of `type`. InvalidInput names an
/// element that cannot be converted.
StatusOr<Tensor> toTensor(const Array &array, DType type);

/// Copies the whole array to a tensor of the same type.
StatusOr<Tensor> toTensor(const Array &array);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAY_H
