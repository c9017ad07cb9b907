// Decodes a TensorProto. Its elements are raw bytes, a typed field such as
// float_data, or external data.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/File.h"
#include "frontends/ONNX/Model/Limits.h"
#include "frontends/ONNX/Model/Model.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemAlloc.h"
#include "llvm/Support/Path.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static Type lookUpElementType(MLIRContext *context, int32_t dataType) {
  // The IR has signless types for signed integers. Returns null for strings,
  // complex numbers and floats of 8 bits or less.
  Builder builder(context);
  switch (dataType) {
  case proto::TensorProto::FLOAT:
    return builder.getF32Type();
  case proto::TensorProto::DOUBLE:
    return builder.getF64Type();
  case proto::TensorProto::FLOAT16:
    return builder.getF16Type();
  case proto::TensorProto::BFLOAT16:
    return builder.getBF16Type();
  case proto::TensorProto::BOOL:
    return builder.getI1Type();
  case proto::TensorProto::UINT8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case proto::TensorProto::INT8:
    return builder.getIntegerType(8);
  case proto::TensorProto::UINT16:
    return builder.getIntegerType(16, /*isSigned=*/false);
  case proto::TensorProto::INT16:
    return builder.getI16Type();
  case proto::TensorProto::UINT32:
    return builder.getIntegerType(32, /*isSigned=*/false);
  case proto::TensorProto::INT32:
    return builder.getI32Type();
  case proto::TensorProto::UINT64:
    return builder.getIntegerType(64, /*isSigned=*/false);
  case proto::TensorProto::INT64:
    return builder.getI64Type();
  default:
    return {};
  }
}

// The largest element type that ONNX 1.23 defines (INT2).
static constexpr int32_t kNewestDataType = 26;

Expected<Type> Model::getElementType(int32_t dataType,
                                     const Twine &what) const {
  if (Type type = lookUpElementType(context, dataType))
    return type;
  if (dataType < 1 || dataType > kNewestDataType)
    return error(ErrorKind::InvalidInput,
                 what + ": expected an element type from 1 to " +
                     Twine(kNewestDataType) + ", found " + Twine(dataType));
  return error(ErrorKind::Unsupported,
               what + ": element type " +
                   proto::TensorProto::DataType_Name(
                       static_cast<proto::TensorProto::DataType>(dataType)) +
                   " is not supported");
}

//===----------------------------------------------------------------------===//
// Inline data
//===----------------------------------------------------------------------===//

Expected<HostTensor> Model::decodeRaw(ArrayRef<char> bytes,
                                      std::shared_ptr<const void> owner,
                                      RankedTensorType type,
                                      const Twine &what) const {
  auto expected = getCheckedBytes(type.getShape(), type.getElementType());
  if (static_cast<int64_t>(bytes.size()) != *expected)
    return error(ErrorKind::InvalidInput,
                 what + ": expected " + Twine(*expected) +
                     " bytes of data, found " + Twine(bytes.size()));
  if (type.getElementType().isInteger(1))
    for (char byte : bytes)
      if (byte != 0 && byte != 1)
        return error(ErrorKind::InvalidInput,
                     what + ": expected booleans of 0 or 1, found " +
                         Twine(static_cast<int>(byte)));
  return HostTensor{type, bytes, std::move(owner)};
}

// Converts elements that the file stores in a wider type, such as i8 in
// int32_data; false if an element does not fit `type`.
template <typename Wide>
static bool narrow(ArrayRef<Wide> values, RankedTensorType type, char *data) {
  Type element = type.getElementType();
  int64_t width = getElementBytes(element);
  int64_t low = 0, high = (int64_t(1) << (8 * width)) - 1;
  if (element.isInteger(1))
    high = 1;
  else if (element.isSignlessInteger())
    low = -(int64_t(1) << (8 * width - 1)), high = -low - 1;
  for (auto [i, value] : llvm::enumerate(values)) {
    // An unsigned element above the range of int64_t becomes negative here, so
    // the check refuses it.
    auto number = static_cast<int64_t>(value);
    if (number < low || number > high)
      return false;
    std::memcpy(data + i * width, &value, width);
  }
  return true;
}

Expected<HostTensor> Model::decodeTyped(const proto::TensorProto &tensor,
                                        RankedTensorType type,
                                        const Twine &what) const {
  // Elements stored in their own type need no copy.
  auto share = [&](auto &field) {
    using T = std::remove_reference_t<decltype(field[0])>;
    const char *data = reinterpret_cast<const char *>(field.data());
    return decodeRaw(ArrayRef<char>(data, field.size() * sizeof(T)),
                     shared_from_this(), type, what);
  };
  // Other types are stored in a wider field, such as i8 and f16 in int32_data.
  // Each element must fit its type.
  auto narrowed = [&](auto &field) -> Expected<HostTensor> {
    if (field.size() != type.getNumElements())
      return error(ErrorKind::InvalidInput,
                   what + ": expected " + Twine(type.getNumElements()) +
                       " elements, found " + Twine(field.size()));
    auto [result, data] = HostTensor::allocate(type);
    if (!narrow(ArrayRef(field.data(), field.size()), type, data))
      return error(ErrorKind::InvalidInput,
                   what + ": an element does not fit the type " +
                       printElementType(type.getElementType()));
    return result;
  };
  // The ONNX specification fixes the field for each element type.
  switch (tensor.data_type()) {
  case proto::TensorProto::FLOAT:
    return share(tensor.float_data());
  case proto::TensorProto::DOUBLE:
    return share(tensor.double_data());
  case proto::TensorProto::INT64:
    return share(tensor.int64_data());
  case proto::TensorProto::INT32:
    return share(tensor.int32_data());
  case proto::TensorProto::UINT64:
    return share(tensor.uint64_data());
  case proto::TensorProto::UINT32:
    return narrowed(tensor.uint64_data());
  default:
    return narrowed(tensor.int32_data());
  }
}

Expected<HostTensor> Model::decode(const proto::TensorProto &tensor,
                                   const Twine &what) const {
  Expected<Type> element = getElementType(tensor.data_type(), what);
  if (!element)
    return element.takeError();
  // Check the size before computing with `dims`: the product of untrusted
  // extents may overflow.
  ArrayRef<int64_t> dims(tensor.dims().data(), tensor.dims().size());
  if (int64_t(dims.size()) > kMostDimensions)
    return error(ErrorKind::Unsupported,
                 what + ": expected at most " + Twine(kMostDimensions) +
                     " dimensions, found " + Twine(dims.size()));
  if (!getCheckedBytes(dims, *element))
    return error(ErrorKind::InvalidInput,
                 what + ": the dimensions " + printShape(dims) +
                     " are negative or their product overflows");
  if (tensor.has_segment())
    return error(
        ErrorKind::Unsupported,
        what +
            ": tensors in segments are not supported; store the tensor whole");
  auto type = RankedTensorType::get(dims, *element);
  // The external file still has the matrix in the layout from before a repair
  // transposed it.
  if (transposed.contains(&tensor)) {
    auto stored = RankedTensorType::get({dims[1], dims[0]}, *element);
    Expected<HostTensor> matrix = decodeExternal(tensor, stored, what);
    return matrix ? matrix->transpose() : std::move(matrix);
  }
  if (tensor.data_location() == proto::TensorProto::EXTERNAL)
    return decodeExternal(tensor, type, what);

  // Exactly one field may hold the data.
  int fields =
      tensor.has_raw_data() + (tensor.float_data_size() != 0) +
      (tensor.int32_data_size() != 0) + (tensor.int64_data_size() != 0) +
      (tensor.double_data_size() != 0) + (tensor.uint64_data_size() != 0) +
      (tensor.string_data_size() != 0);
  if (fields > 1)
    return error(ErrorKind::InvalidInput,
                 what + ": expected data in one field, found data in " +
                     Twine(fields) + " fields");
  if (!tensor.has_raw_data())
    return decodeTyped(tensor, type, what);
  const std::string &raw = tensor.raw_data();
  return decodeRaw({raw.data(), raw.size()}, shared_from_this(), type, what);
}

//===----------------------------------------------------------------------===//
// External data
//===----------------------------------------------------------------------===//

namespace {
/// The parsed entries of external_data.
struct ExternalLocation {
  StringRef location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};
} // namespace

// Returns the part of the real path `path` below the real folder `directory`;
// nullopt if `path` lies elsewhere.
static std::optional<StringRef> stripDirectory(StringRef path,
                                               StringRef directory) {
  if (!path.consume_front(directory))
    return std::nullopt;
  if (directory != "/" && !path.consume_front("/"))
    return std::nullopt;
  return path;
}

// Opens the file `location` of external data, which must lie below a trusted
// folder once all links are followed: the folder of the model, or, if the model
// is a link, the folder that the link leads to. Download caches link model and
// data into one folder of blobs.
static Expected<File> openExternal(StringRef model, StringRef location) {
  // Refuse absolute paths, and paths with a part "..".
  bool leaves =
      llvm::sys::path::is_absolute(location) ||
      llvm::is_contained(llvm::make_range(llvm::sys::path::begin(location),
                                          llvm::sys::path::end(location)),
                         "..");
  if (leaves)
    return makeError(ErrorKind::InvalidInput,
                     "external data '" + location +
                         "' is not below the folder of the model");
  Expected<std::string> folder = getRealDirectory(model, /*followFile=*/false);
  if (!folder)
    return folder.takeError();
  Expected<std::string> real = getRealDirectory(model, /*followFile=*/true);
  if (!real)
    return real.takeError();
  std::string joined = (*folder + "/" + location).str();
  std::unique_ptr<char, void (*)(void *)> target(
      realpath(joined.c_str(), nullptr), std::free);
  if (!target)
    return makeError(ErrorKind::IO,
                     "external data '" + location + "' is not in " + *folder);
  for (StringRef directory : {StringRef(*folder), StringRef(*real)})
    if (auto rest = stripDirectory(target.get(), directory))
      return File::openBeneath(directory, *rest);
  return makeError(ErrorKind::InvalidInput, "external data '" + location +
                                                "' is a link out of " +
                                                *folder);
}

static Expected<ExternalLocation>
parseLocation(const proto::TensorProto &tensor) {
  ExternalLocation result;
  for (const auto &entry : tensor.external_data()) {
    // ONNX requires readers to ignore unknown keys.
    StringRef key = entry.key(), value = entry.value();
    int64_t number = 0;
    bool isNumber =
        llvm::all_of(value, llvm::isDigit) && !value.getAsInteger(10, number);
    if (key == "location")
      result.location = value;
    else if ((key == "offset" || key == "length") && !isNumber)
      return makeError(ErrorKind::InvalidInput,
                       "expected a number as " + key +
                           " of external data, found '" + value + "'");
    else if (key == "offset")
      result.offset = number;
    else if (key == "length")
      result.length = number;
  }
  if (result.location.empty())
    return makeError(ErrorKind::InvalidInput, "external data has no location");
  // Refuse NUL characters: the system would end the name at the first, and open
  // another file.
  if (result.location.contains('\0'))
    return makeError(ErrorKind::InvalidInput,
                     "the location of external data has a NUL byte after '" +
                         result.location.split('\0').first + "'");
  return result;
}

// Prepends `where` (the tensor's name) to the messages of an error.
static llvm::Error prefix(llvm::Error error, const Twine &where) {
  std::string start = where.str();
  return llvm::handleErrors(std::move(error), [&](const ImportError &finding) {
    return makeError(finding.getKind(), start + ": " + finding.getMessage());
  });
}

Expected<HostTensor> Model::decodeExternal(const proto::TensorProto &tensor,
                                           RankedTensorType type,
                                           const Twine &what) const {
  std::string where = (path + ": " + what).str();
  // openExternal only opens files beside or below the model.
  Expected<ExternalLocation> place = parseLocation(tensor);
  if (!place)
    return prefix(place.takeError(), where);
  Expected<File> file = openExternal(path, place->location);
  if (!file)
    return prefix(file.takeError(), where);
  // Fail if the file has changed since an earlier tensor was read: a training
  // may be overwriting it, and tensors would come from two models.
  const FileVersion &version = *file->getVersion();
  auto [known, isNew] =
      externalFiles.try_emplace(place->location.str(), version);
  if (!isNew && known->second != version)
    return error(ErrorKind::IO, what + ": external data '" + place->location +
                                    "' has changed since it was read; start "
                                    "again when it is complete");
  // Check offset and length: both are untrusted.
  int64_t size = *file->getSize();
  int64_t bytes = *getCheckedBytes(type.getShape(), type.getElementType());
  if (place->length && *place->length != bytes)
    return error(ErrorKind::InvalidInput,
                 what + ": expected " + Twine(bytes) +
                     " bytes of external data, found a length of " +
                     Twine(*place->length));
  if (place->offset > size || bytes > size - place->offset)
    return error(ErrorKind::InvalidInput,
                 what + ": external data '" + place->location +
                     "' ends at byte " + Twine(size) + ", expected " +
                     Twine(bytes) + " bytes from byte " + Twine(place->offset));
  // Copy the data: the file may change or disappear.
  auto [result, data] = HostTensor::allocate(type);
  if (llvm::Error error =
          file->read(place->offset, {data, static_cast<size_t>(bytes)}))
    return prefix(std::move(error), where);
  // decodeRaw also checks the elements: a boolean must be 0 or 1.
  return decodeRaw(result.data, result.owner, type, what);
}

bool mpc::onnx_frontend::holdsFloats(const proto::TensorProto &tensor) {
  switch (tensor.data_type()) {
  case proto::TensorProto::FLOAT:
  case proto::TensorProto::FLOAT16:
  case proto::TensorProto::BFLOAT16:
  case proto::TensorProto::DOUBLE:
    return true;
  default:
    return false;
  }
}

Expected<HostTensor> Model::decodeInitializer(const proto::TensorProto &tensor,
                                              bool readsValues) const {
  const std::string what = "initializer '" + tensor.name() + "'";
  if (readsValues)
    return decode(tensor, what);
  Expected<Type> element = getElementType(tensor.data_type(), what);
  if (!element)
    return element.takeError();
  ArrayRef<int64_t> dims(tensor.dims().data(), tensor.dims().size());
  std::optional<int64_t> bytes = getCheckedBytes(dims, *element);
  constexpr int64_t widest = sizeof(int64_t);
  if (!bytes || *bytes <= kMostFoldedElements * widest)
    return decode(tensor, what);
  // calloc maps zero pages on demand, so zeros that nobody reads take no
  // memory.
  std::shared_ptr<void> zeros(llvm::safe_calloc(1, size_t(*bytes)), std::free);
  ArrayRef<char> data(static_cast<const char *>(zeros.get()), size_t(*bytes));
  return HostTensor{RankedTensorType::get(dims, *element), data, zeros};
}
