// Arrays as files hold them, read in place from a mapped file where that is
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
/// "u8", "bf16", "bool": the names of DType where both have the type.
std::string_view nameOf(ElementType type);
bool isFloat(ElementType type);
ElementType toElementType(DType type);
DType toDType(ElementType type);

/// Dimensions that an array of a file may have: what says more is hostile.
inline constexpr size_t kMaxRank = 32;

/// A dense, row-major, little-endian array. The bytes belong to `owner` (a
/// mapping or a buffer) and need not be aligned.
struct Array {
  std::string name;
  std::string source; ///< the file it is from, for messages; may be empty
  ElementType type = ElementType::F32;
  Shape shape;
  const std::byte *data = nullptr;
  std::shared_ptr<const void> owner;

  /// A column of a table, or several side by side: inputs of as many elements
  /// take it, whatever their shape.
  bool isColumn = false;
  /// Samples of files of their own, which say nothing of axes of 1: inputs of
  /// the same axes otherwise take them.
  bool isOfSamples = false;
  /// Of labels that are folders, their names.
  std::vector<std::string> classes = {};
  /// Why there are no values, where only their use is an error.
  std::string fault = "";
  /// Images in files, whose shape an input decides: until then the array has no
  /// elements.
  std::shared_ptr<const ImageFolder> images = nullptr;
  /// Inflates a member of an archive: until `unpack` there are no
  /// values.
  std::shared_ptr<const PackedArray> packed = nullptr;

  int64_t size() const { return numElements(shape); }
  int64_t bytes() const { return size() * sizeOf(type); }
};

/// An array whose values are not in memory yet. Copies of it share them.
class PackedArray {
public:
  virtual ~PackedArray();
  /// The array with its values; InvalidInput where they are damaged.
  virtual StatusOr<Array> unpack() const = 0;
};

/// Brings the values of an array into memory, where they are not. IO where they
/// do not fit.
Status unpack(Array &array);

/// An array that owns a copy of the tensor's bytes.
Array toArray(std::string name, const Tensor &tensor);

/// Why a value of an array cannot be had in another type.
enum class ConversionFault {
  NotFinite,   ///< NaN or infinity where only numbers are allowed
  OutOfRange,  ///< too large for the type
  NotIntegral, ///< a fraction where an integer is wanted
  Inexact,     ///< an integer that the floating-point type rounds
};

struct BadElement {
  int64_t index = 0; ///< flat
  ConversionFault fault = ConversionFault::NotFinite;
  std::string value; ///< as text
};

/// Whether NaN and infinities may pass between floating-point types.
enum class NonFinite { Allow, Reject };

/// Converts elements [begin, begin + count) of `array` into `out`, where that
/// is not null. Floating point narrows by rounding to nearest even; all else
/// preserves the value. Returns the first element for which that is
/// impossible, having written those before it.
std::optional<BadElement> convertElements(const Array &array, int64_t begin,
                                          int64_t count, DType type,
                                          NonFinite nonFinite, void *out);

/// InvalidInput with a message, or with "WHERE: WHAT".
Status invalid(const std::string &what);
Status invalid(const std::string &where, const std::string &what);

/// "data.npz: x", or the name alone without a source.
std::string locate(const Array &array);
/// "data.npz: x[3,0,2]": an element by its flat index.
std::string locate(const Array &array, int64_t index);

/// "data.npz: x[3,0,2]: nan is not a finite number".
std::string describe(const Array &array, const BadElement &bad, DType type);

/// The whole array as a tensor of `type`; InvalidInput names the element that
/// has no value there.
StatusOr<Tensor> toTensor(const Array &array, DType type);

/// The whole array in its own type.
StatusOr<Tensor> toTensor(const Array &array);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAY_H
