// Defines the records of PlanSchema.def as structs, and lists the fields of
// each struct with JSON key, presence and range. The plan's reader, the checks,
// the compiler's writer and its attributes loop over these lists, so a new
// field needs no code there.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_PLANSCHEMA_H
#define MPC_RUNTIME_PLANSCHEMA_H

#include "runtime/ArtifactFormat.h"
#include "runtime/Names.h"

#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace mpc::runtime {

using format::kMaxExtent;

//===----------------------------------------------------------------------===//
// Descriptions of fields
//===----------------------------------------------------------------------===//

/// The values that a field may have on one kind of device, CPU or GPU, and the
/// message for any other value.
struct FieldRange {
  int64_t low = INT64_MIN, high = INT64_MAX;
  const char *message = "";

  constexpr bool contains(int64_t value) const {
    return low <= value && value <= high;
  }
};

enum class Presence {
  Required,
  Nullable, ///< required; null means nullopt
  Optional, ///< may be absent; the member then has its default
  Inlined,  ///< optional record whose keys are in the enclosing object
};

/// A field as PlanSchema.def states it. For an inlined record, `key` is the
/// first of the record's keys: the record is present if the object has this
/// key.
struct Field {
  const char *key;
  Presence presence;
  FieldRange cpu = {}, gpu = {};

  /// Limits a field to [low, high] on CPUs and GPUs. For a list, limits each
  /// integer; for an enumeration, the enumerator's number.
  constexpr Field within(int64_t low, int64_t high, const char *message) const {
    return onCPU(low, high, message).onGPU(low, high, message);
  }
  constexpr Field onCPU(int64_t low, int64_t high, const char *message) const {
    return {key, presence, {low, high, message}, gpu};
  }
  constexpr Field onGPU(int64_t low, int64_t high, const char *message) const {
    return {key, presence, cpu, {low, high, message}};
  }
};

/// The constructors of fields that PlanSchema.def uses.
namespace schema {
constexpr Field required(const char *key) { return {key, Presence::Required}; }
constexpr Field nullable(const char *key) { return {key, Presence::Nullable}; }
constexpr Field optional(const char *key) { return {key, Presence::Optional}; }
constexpr Field inlined(const char *key) { return {key, Presence::Inlined}; }

constexpr Field extent(const char *key) {
  return required(key).within(1, kMaxExtent, "an extent is out of range");
}
constexpr Field channels(const char *key) {
  return required(key).within(
      1, kMaxExtent,
      "channels are out of range or not a multiple of the groups");
}
constexpr Field padding(const char *key) {
  return required(key).within(0, kMaxExtent, "padding is out of range");
}
constexpr Field tileSize(const char *key) {
  return required(key)
      .onCPU(1, kMaxExtent, "a tile size is out of range")
      .onGPU(0, 0, "a GPU's library chooses its tiles");
}
} // namespace schema

//===----------------------------------------------------------------------===//
// Structs
//===----------------------------------------------------------------------===//

struct Step;

#define RECORD(Name) struct Name {
#define RECORD_ON(Name, ...) struct Name : __VA_ARGS__ {
#define FIELD(Type, member, initial, presence) Type member = initial;
#define END(Name)                                                              \
  }                                                                            \
  ;
#include "runtime/PlanSchema.def"

struct Step {
  std::string name; ///< the ONNX node that reports show for the step
  std::variant<LaunchStep, MatMulStep, ConvStep, AttentionStep, CopyStep,
               CheckIndicesStep, AllReduceStep, ReduceScatterStep,
               AllGatherStep, IfStep, ForStep>
      op;
  /// Other nodes that the step computes, as far as the artifact names them.
  std::vector<std::string> others = {};
  /// The parameter, an index in Plan::state, whose owner alone runs the step;
  /// nullopt if all ranks run the step. Only the owner of a sharded variable
  /// has its memory.
  std::optional<size_t> owner = std::nullopt;
};

//===----------------------------------------------------------------------===//
// Fields of structs
//===----------------------------------------------------------------------===//

template <typename Record>
struct Fields;

/// Calls `visit(field, member)` for each field of a record, beginning with the
/// fields of its bases. `member` is a pointer to the struct's member.
template <typename Record, typename Visit>
void visitFields(Visit &&visit) {
  Fields<Record>::visit(visit);
}

#define RECORD(Name)                                                           \
  template <>                                                                  \
  struct Fields<Name> {                                                        \
    using Record = Name;                                                       \
    template <typename Visit>                                                  \
    static void visit([[maybe_unused]] Visit &visitor) {                       \
      using namespace schema;
#define RECORD_ON(Name, ...)                                                   \
  RECORD(Name)                                                                 \
  visitBases<__VA_ARGS__>(visitor);
#define FIELD(Type, member, initial, presence)                                 \
  visitor(presence, &Record::member);
#define END(Name)                                                              \
  }                                                                            \
  }                                                                            \
  ;

template <typename... Bases, typename Visit>
void visitBases(Visit &visitor) {
  (Fields<Bases>::visit(visitor), ...);
}

#include "runtime/PlanSchema.def"

template <typename T, typename = void>
struct IsRecord : std::false_type {};
template <typename T>
struct IsRecord<T, std::void_t<typename Fields<T>::Record>> : std::true_type {};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
struct IsList : std::false_type {};
template <typename T>
struct IsList<std::vector<T>> : std::true_type {};

/// True if T is a list of steps or a list of launches.
template <typename T>
inline constexpr bool isSteps = std::is_same_v<T, std::vector<Step>> ||
                                std::is_same_v<T, std::vector<LaunchStep>>;

template <typename Record>
std::enable_if_t<IsRecord<Record>::value, bool> operator==(const Record &a,
                                                           const Record &b) {
  bool isEqual = true;
  visitFields<Record>([&](const Field &, auto member) {
    isEqual = isEqual && a.*member == b.*member;
  });
  return isEqual;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

template <typename Record>
const char *findOutOfRange(const Record &record, bool isGPU);

/// Returns the message of `range` if `value`, or an integer in the list
/// `value`, is out of range. Checks a record by the ranges of its own fields.
/// Null if all is in range. Indices of buffers and optional records have no
/// range.
template <typename T>
const char *findOutOfRange(const T &value, const FieldRange &range,
                           bool isGPU) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_enum_v<T>) {
    return range.contains(static_cast<int64_t>(value)) ? nullptr
                                                       : range.message;
  } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    for (int64_t element : value)
      if (!range.contains(element))
        return range.message;
  } else if constexpr (IsRecord<T>::value) {
    return findOutOfRange(value, isGPU);
  }
  return nullptr;
}

/// Returns the message of the first field of `record` that is out of range on
/// the device; null if there is none.
template <typename Record>
const char *findOutOfRange(const Record &record, bool isGPU) {
  const char *found = nullptr;
  visitFields<Record>([&](const Field &field, auto member) {
    if (!found)
      found =
          findOutOfRange(record.*member, isGPU ? field.gpu : field.cpu, isGPU);
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The buffers that a fused operation takes besides a, b and c: true for each.
struct FusedBuffers {
  bool bias = false, aux = false, biasGrad = false;

  /// True if the operation writes aux; false if it reads aux or takes none.
  constexpr bool writesAux() const { return aux && bias; }
};

constexpr FusedBuffers getFusedBuffers(FusedKind kind) {
  switch (kind) {
  case FusedKind::Bias:
  case FusedKind::ReluBias:
    return {true, false, false};
  case FusedKind::ReluAuxBias:
    return {true, true, false};
  case FusedKind::DRelu:
    return {false, true, false};
  case FusedKind::DReluBGrad:
    return {false, true, true};
  case FusedKind::BGradA:
  case FusedKind::BGradB:
    return {false, false, true};
  }
  return {};
}

/// True if the library sums an operand, and no op follows the product.
constexpr bool isSumOfOperand(FusedKind kind) {
  return kind == FusedKind::BGradA || kind == FusedKind::BGradB;
}

/// Returns the bits in a row of aux: n, rounded up to a multiple of 128.
constexpr int64_t auxRowBits(int64_t n) { return (n + 127) / 128 * 128; }

} // namespace mpc::runtime

#endif // MPC_RUNTIME_PLANSCHEMA_H
