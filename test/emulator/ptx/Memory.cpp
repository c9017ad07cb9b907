// Loads, stores and asynchronous copies.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Decoder.h"
#include "test/emulator/ptx/Lanewise.h"

#include <cstring>

using namespace mpc::emulator::ptx;

namespace {

void checkAlignment(uint64_t address, unsigned bytes, unsigned lane) {
  if (address % bytes)
    throw KernelFault{KernelFault::MisalignedAddress,
                      "access of " + std::to_string(bytes) + " bytes at " +
                          std::to_string(address) +
                          ", which is not a multiple of that",
                      lane};
}

/// Host memory behind an address of the space. A generic address encodes its
/// space.
template <Space space>
auto resolve(Warp &warp, uint64_t address, unsigned bytes, bool write,
             unsigned lane) {
  checkAlignment(address, bytes, lane);
  if constexpr (space == Space::Shared) {
    return warp.sharedMemory(address, bytes, write, lane);
  } else if constexpr (space == Space::Local) {
    return warp.localMemory(address, bytes, lane);
  } else if constexpr (space == Space::Param) {
    return warp.parameter(address, bytes, lane);
  } else {
    uint64_t window = address & kWindowMask;
    if (space == Space::Generic && window == kSharedWindow)
      return warp.sharedMemory(address - window, bytes, write, lane);
    if (space == Space::Generic && window == kLocalWindow)
      return warp.localMemory(address - window, bytes, lane);
    return warp.global(address, bytes, write, lane);
  }
}

uint64_t addressOf(Warp &warp, const Inst &i, unsigned lane) {
  // Slot 0 is the base. `mode` says that it has 32 bits.
  uint64_t base = i.mode ? warp.lanes<uint32_t>(i.slots[0])[lane]
                         : warp.lanes<uint64_t>(i.slots[0])[lane];
  uint64_t address = base + static_cast<uint64_t>(i.offset);
  return i.mode ? address & 0xffffffff : address;
}

/// Slots 1, 2... are the elements' registers, of `registerBytes` each. Memory
/// has `elementBytes` of each.
template <Space space>
void load(Warp &warp, const Inst &i, uint32_t lanes) {
  unsigned part = i.elementBytes, whole = i.registerBytes;
  forLanes(lanes, [&](unsigned l) {
    const uint8_t *from =
        resolve<space>(warp, addressOf(warp, i, l), part * i.count, false, l);
    for (unsigned e = 0; e < i.count; ++e) {
      uint8_t *to = warp.file + i.slots[1 + e] + l * whole;
      if (part == 4 && whole == 4) {
        std::memcpy(to, from + e * 4, 4);
        continue;
      }
      uint64_t value = 0;
      std::memcpy(&value, from + e * part, part);
      if (i.isSigned && part < 8) {
        unsigned unused = 64 - 8 * part;
        value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >>
                                      unused);
      }
      std::memcpy(to, &value, whole);
    }
  });
}

template <Space space>
void store(Warp &warp, const Inst &i, uint32_t lanes) {
  unsigned part = i.elementBytes, whole = i.registerBytes;
  forLanes(lanes, [&](unsigned l) {
    uint8_t *to =
        resolve<space>(warp, addressOf(warp, i, l), part * i.count, true, l);
    for (unsigned e = 0; e < i.count; ++e) {
      const uint8_t *from = warp.file + i.slots[1 + e] + l * whole;
      if (part == 4)
        std::memcpy(to + e * 4, from, 4);
      else
        std::memcpy(to + e * part, from, part);
    }
  });
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

Space takeSpace(Decoder &d) {
  if (d.take("param")) {
    d.take("entry");
    return Space::Param;
  }
  if (d.take("global"))
    return Space::Global;
  if (d.take("shared")) {
    d.take("cta");
    return Space::Shared;
  }
  if (d.take("local"))
    return Space::Local;
  return d.take("const") ? Space::Const : Space::Generic;
}

/// Cache hints, which are ignored.
void takeHints(Decoder &d) {
  static const char *const hints[] = {"nc",
                                      "ca",
                                      "cg",
                                      "cs",
                                      "cv",
                                      "wb",
                                      "wt",
                                      "lu",
                                      "L1::evict_normal",
                                      "L1::evict_unchanged",
                                      "L1::evict_first",
                                      "L1::evict_last",
                                      "L1::no_allocate",
                                      "L2::64B",
                                      "L2::128B",
                                      "L2::256B",
                                      "L2::evict_first",
                                      "L2::evict_last",
                                      "L2::evict_normal"};
  for (bool found = true; found;) {
    found = false;
    for (const char *hint : hints)
      found |= d.take(hint);
  }
}

/// The elements: one operand, or a vector's.
void decodeElements(Decoder &d, const Operand &operand, Type type,
                    unsigned count, bool isLoad) {
  std::vector<Operand> elements = operand.elements;
  if (operand.kind != Operand::Vector)
    elements.assign(1, operand);
  if (elements.size() != count)
    d.fail("the vector has " + std::to_string(elements.size()) + " elements");
  unsigned bytes = type.bytes();
  // A register may be wider than the value. All registers of a vector have one
  // size.
  unsigned registerBytes = bytes;
  for (const Operand &element : elements)
    registerBytes = std::max(registerBytes, d.registerBytes(element, bytes));
  if (bytes == 1 && registerBytes == 1)
    registerBytes = 2; // a number stored as a byte
  for (size_t e = 0; e < count; ++e)
    d.inst->slots[1 + e] = isLoad ? d.destination(elements[e], registerBytes)
                                  : d.source(elements[e], registerBytes);
  d.inst->elementBytes = static_cast<uint8_t>(bytes);
  d.inst->registerBytes = static_cast<uint8_t>(registerBytes);
  d.inst->count = static_cast<uint8_t>(count);
  d.inst->isSigned = isLoad && type.kind == Type::Signed;
}

template <template <Space> class Pick>
Handler pickSpace(Space space) {
  switch (space) {
  case Space::Shared:
    return Pick<Space::Shared>::handler;
  case Space::Local:
    return Pick<Space::Local>::handler;
  case Space::Generic:
    return Pick<Space::Generic>::handler;
  default:
    return Pick<Space::Global>::handler;
  }
}
template <Space space>
struct PickLoad {
  static constexpr Handler handler = &load<space>;
};
template <Space space>
struct PickStore {
  static constexpr Handler handler = &store<space>;
};

void decodeAccess(Decoder &d, bool isLoad) {
  // The emulator already orders accesses as .volatile and .relaxed require.
  d.take("volatile");
  d.take("weak");
  if (d.take("relaxed") && !d.take("cta") && !d.take("gpu"))
    d.expect("sys");
  Space space = takeSpace(d);
  takeHints(d);
  unsigned count = d.take("v2") ? 2 : d.take("v4") ? 4 : 1;
  Type type = d.takeType();
  if (type.bytes() * count > 16 || type.kind == Type::Pred)
    d.fail("no such access");
  d.operands(2);
  decodeElements(d, d.operand(isLoad ? 0 : 1), type, count, isLoad);
  const Operand &address = d.operand(isLoad ? 1 : 0);
  if (!isLoad && space == Space::Param)
    d.fail("parameters of a kernel are not written");
  if (!isLoad && space == Space::Const)
    d.fail("constants are not written");
  bool isWide;
  d.address(address, space, d.inst->slots[0], d.inst->offset, isWide);
  d.inst->mode = !isWide;
  if (space == Space::Param)
    d.inst->run = &load<Space::Param>;
  else
    d.inst->run =
        isLoad ? pickSpace<PickLoad>(space) : pickSpace<PickStore>(space);
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

/// Starts copies into shared memory. The data arrive at the wait, and the old
/// contents are lost at once: the worst that a device may do to a kernel that
/// reads early or waits too little.
void startCopies(Warp &warp, const Inst &i, uint32_t lanes) {
  const uint64_t *from64 = warp.lanes<uint64_t>(i.slots[1]);
  const uint32_t *read = warp.lanes<uint32_t>(i.slots[2]);
  auto fromOffset = i.slots[3];
  forLanes(lanes, [&](unsigned l) {
    uint64_t to = addressOf(warp, i, l);
    uint64_t from =
        from64[l] + static_cast<uint64_t>(static_cast<int32_t>(fromOffset));
    checkAlignment(to, i.count, l);
    checkAlignment(from, i.count, l);
    unsigned bytes = std::min<unsigned>(read[l], i.count);
    if (bytes)
      warp.global(from, bytes, false, l);
    std::memset(warp.shared.beginCopy(to, i.count, warp.accessor(l), l), 0xff,
                i.count);
    warp.copies.push_back({l, warp.committed[l], static_cast<uint32_t>(to),
                           from, i.count, static_cast<uint8_t>(bytes)});
  });
}

void finishCopies(Warp &warp, uint32_t lanes, unsigned pending) {
  auto isPending = [&](const AsyncCopy &copy) {
    if (!(lanes >> copy.lane & 1) ||
        copy.group + pending >= warp.committed[copy.lane])
      return true;
    uint8_t *to = warp.shared.endCopy(copy.to, copy.bytes,
                                      warp.accessor(copy.lane), copy.lane);
    std::memset(to, 0, copy.bytes);
    if (copy.read)
      std::memcpy(to, warp.global(copy.from, copy.read, false, copy.lane),
                  copy.read);
    return false;
  };
  size_t kept = 0;
  for (const AsyncCopy &copy : warp.copies)
    if (isPending(copy))
      warp.copies[kept++] = copy;
  warp.copies.resize(kept);
}

void commitCopies(Warp &warp, const Inst &, uint32_t lanes) {
  forLanes(lanes, [&](unsigned l) { ++warp.committed[l]; });
}

void decodeCopy(Decoder &d) {
  if (!d.take("ca"))
    d.expect("cg");
  Space space = takeSpace(d);
  if (space != Space::Shared)
    d.fail("expected .shared");
  d.expect("global");
  takeHints(d);
  d.operands(3, 4);
  uint64_t bytes = d.immediate(d.operand(2));
  if (bytes != 4 && bytes != 8 && bytes != 16)
    d.fail("copies have 4, 8 or 16 bytes");
  d.inst->count = static_cast<uint8_t>(bytes);
  bool isWide;
  d.address(d.operand(0), Space::Shared, d.inst->slots[0], d.inst->offset,
            isWide);
  d.inst->mode = !isWide;
  int64_t fromOffset;
  d.address(d.operand(1), Space::Global, d.inst->slots[1], fromOffset, isWide);
  d.inst->slots[3] = static_cast<uint32_t>(fromOffset);
  if (static_cast<int32_t>(d.inst->slots[3]) != fromOffset)
    d.fail("the offset is too large");
  d.inst->slots[2] =
      d.operandCount() == 4 ? d.source(d.operand(3), 4) : d.constant(4, bytes);
  d.inst->run = &startCopies;
}

void decodeAsync(Decoder &d) {
  d.expect("async");
  if (d.take("commit_group")) {
    d.operands(0);
    d.inst->run = &commitCopies;
  } else if (d.take("wait_group")) {
    d.operands(1);
    d.inst->mode = static_cast<uint16_t>(d.immediate(d.operand(0)));
    d.inst->run = [](Warp &warp, const Inst &i, uint32_t lanes) {
      finishCopies(warp, lanes, i.mode);
    };
  } else if (d.take("wait_all")) {
    d.operands(0);
    d.inst->run = [](Warp &warp, const Inst &i, uint32_t lanes) {
      commitCopies(warp, i, lanes);
      finishCopies(warp, lanes, 0);
    };
  } else {
    decodeCopy(d);
  }
}

} // namespace

void mpc::emulator::ptx::addMemoryInstructions(DecodeTable &table) {
  table["ld"] = [](Decoder &d) { decodeAccess(d, true); };
  table["ldu"] = table["ld"];
  table["st"] = [](Decoder &d) { decodeAccess(d, false); };
  table["cp"] = decodeAsync;
  // Threads of a block never see each other's writes out of order here.
  table["membar"] = table["fence"] = [](Decoder &d) {
    for (const char *part : {"acq_rel", "sc", "cta", "gl", "gpu", "sys"})
      d.take(part);
    d.operands(0);
    d.inst->run = [](Warp &, const Inst &, uint32_t) {};
  };
}
