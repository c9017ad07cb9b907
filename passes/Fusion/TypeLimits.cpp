// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/TypeLimits.h"

#include "compiler/Dialect/AMP/AMP.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;

FloatType mpc::toNarrowType(Type tensor) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(tensor));
  return type && type.getWidth() < 32 ? type : FloatType();
}

bool mpc::isMixed(ModuleOp module) {
  auto mode = module->getAttrOfType<amp::PrecisionModeAttr>(amp::kModeAttr);
  return mode && amp::isMixed(mode.getValue());
}

// Returns the limits that are metadata of `location`; null if there are none.
static DictionaryAttr getMetadata(LocationAttr location) {
  auto fused = dyn_cast<FusedLoc>(location);
  return fused ? dyn_cast_or_null<DictionaryAttr>(fused.getMetadata())
               : DictionaryAttr();
}

TypeLimits TypeLimits::of(LocationAttr location) {
  DictionaryAttr found = getMetadata(location);
  if (found)
    return TypeLimits(found);
  bool isUnique = true;
  location.walk([&](Location part) {
    DictionaryAttr metadata = getMetadata(part);
    isUnique &= !metadata || !found || metadata == found;
    found = found ? found : metadata;
    return metadata ? WalkResult::skip() : WalkResult::advance();
  });
  return isUnique ? TypeLimits(found) : TypeLimits();
}

Location TypeLimits::addTo(Location location) const {
  return FusedLoc::get(location.getContext(), {location}, attributes);
}

bool TypeLimits::contains(StringRef key, Attribute element) const {
  auto list = attributes ? attributes.getAs<ArrayAttr>(key) : ArrayAttr();
  return list && llvm::is_contained(list, element);
}

bool TypeLimits::contains(StringRef key, Type type) const {
  return contains(key, TypeAttr::get(type));
}

bool TypeLimits::allowsElements(int64_t count) const {
  auto counts = attributes ? attributes.getAs<DenseI64ArrayAttr>(kElements)
                           : DenseI64ArrayAttr();
  return !counts || llvm::is_contained(counts.asArrayRef(), count);
}

bool TypeLimits::isOfSameOp(TypeLimits other) const {
  return has(kOp) && other.has(kOp) &&
         attributes.get(kOp) == other.attributes.get(kOp);
}

StringRef TypeLimits::getReason() const {
  auto reason =
      attributes ? attributes.getAs<StringAttr>(kReason) : StringAttr();
  return reason ? reason.getValue() : StringRef();
}

Location LimitRemover::remove(Location location) {
  auto fused = dyn_cast<FusedLoc>(location);
  if (!fused)
    return location;
  // Most ops have limits of their own: do not keep their locations in `known`.
  if (getMetadata(fused) && fused.getLocations().size() == 1)
    return remove(fused.getLocations().front());
  if (LocationAttr found = known.lookup(location))
    return found;
  SmallVector<Location> parts;
  for (Location part : fused.getLocations())
    parts.push_back(remove(part));
  Attribute metadata = getMetadata(fused) ? Attribute() : fused.getMetadata();
  Location removed = FusedLoc::get(parts, metadata, location.getContext());
  known[location] = removed;
  return removed;
}
