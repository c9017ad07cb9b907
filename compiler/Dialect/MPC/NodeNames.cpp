// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/NodeNames.h"

using namespace mlir;
using namespace mpc;

SmallVector<StringRef> mpc::getNodeNames(Operation *op) {
  return getNodeNames(op->getLoc());
}

SmallVector<StringRef> mpc::getNodeNames(LocationAttr location) {
  // Most ops come from a single node, for which a walk takes long.
  if (auto name = dyn_cast<NameLoc>(location))
    return {name.getName().getValue()};
  SmallVector<StringRef> names;
  location.walk([&](Location part) {
    auto name = dyn_cast<NameLoc>(part);
    if (name && !llvm::is_contained(names, name.getName().getValue()))
      names.push_back(name.getName().getValue());
    // Skip the location inside a NameLoc, which is a position in a file.
    return name ? WalkResult::skip() : WalkResult::advance();
  });
  return names;
}

Location mpc::namedLocation(MLIRContext *context, const Twine &name) {
  return NameLoc::get(StringAttr::get(context, name));
}

Location mpc::addSuffix(Location location, StringRef suffix) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    SmallVector<Location> locations;
    for (Location part : fused.getLocations())
      locations.push_back(addSuffix(part, suffix));
    return FusedLoc::get(location.getContext(), locations, fused.getMetadata());
  }
  auto name = location->findInstanceOf<NameLoc>();
  if (!name)
    return location;
  auto text = StringAttr::get(location.getContext(),
                              name.getName().getValue() + "#" + suffix);
  return NameLoc::get(text, name.getChildLoc());
}
