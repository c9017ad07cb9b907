// Tests the exchanges of parts that one rank each owns, over threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/distributed/ThreadCommunicator.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mpc::runtime;

namespace {

/// Returns values whose sum depends on the order of the additions.
std::vector<float> valuesOf(size_t count, int rank, size_t part) {
  std::mt19937 engine(static_cast<unsigned>(rank) * 100 + unsigned(part) + 1);
  std::vector<float> values(count);
  for (float &value : values) {
    const unsigned bits = static_cast<unsigned>(engine());
    value = std::ldexp(static_cast<float>(bits >> 8), int(bits & 15) - 24);
  }
  return values;
}

/// Parts of an owner each: nothing, few elements, and more than a block.
const std::vector<std::pair<size_t, int>> kParts = {
    {3, 1}, {0, 0}, {3000001, 0}, {1000, 1}, {1, 1}, {200000, 2}};

struct Parts {
  Parts(int rank, int ranks) {
    for (size_t i = 0; i < kParts.size(); ++i)
      values.push_back(valuesOf(kParts[i].first, rank, i));
    for (size_t i = 0; i < kParts.size(); ++i)
      list.push_back({values[i].data(), values[i].size() * 4, owner(i, ranks)});
  }
  static int owner(size_t part, int ranks) {
    return kParts[part].second % ranks;
  }

  std::vector<std::vector<float>> values;
  std::vector<RankPart> list;
};

} // namespace

TEST(OwnedParts, ReduceAsAnAllReduce) {
  for (int ranks : {2, 3, 4})
    runRanks(ranks, [&](Communicator &communicator) {
      Parts whole(communicator.rank(), ranks);
      Parts parts(communicator.rank(), ranks);
      const Parts before(communicator.rank(), ranks);
      for (std::vector<float> &values : whole.values)
        if (!values.empty())
          EXPECT_TRUE(communicator
                          .allReduce(values.data(), values.size(), DType::F32,
                                     Reduce::Mean)
                          .ok());
      const Status status =
          communicator.reduceToOwners(parts.list, DType::F32, Reduce::Mean);
      EXPECT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < kParts.size(); ++i)
        EXPECT_EQ(parts.values[i], Parts::owner(i, ranks) == communicator.rank()
                                       ? whole.values[i]
                                       : before.values[i])
            << "part " << i << " of rank " << communicator.rank();
    });
}

TEST(OwnedParts, GatherTheBytesOfTheOwners) {
  for (int ranks : {2, 3, 4})
    runRanks(ranks, [&](Communicator &communicator) {
      Parts parts(communicator.rank(), ranks);
      const Status status = communicator.gatherFromOwners(parts.list);
      EXPECT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < kParts.size(); ++i)
        EXPECT_EQ(parts.values[i],
                  valuesOf(kParts[i].first, Parts::owner(i, ranks), i))
            << "part " << i << " of rank " << communicator.rank();
    });
}

TEST(OwnedParts, RefuseAMeanOfIntegers) {
  runRanks(2, [&](Communicator &communicator) {
    std::vector<int32_t> values(4);
    EXPECT_EQ(
        communicator
            .reduceToOwners({{values.data(), 16, 0}}, DType::I32, Reduce::Mean)
            .getCode(),
        StatusCode::Internal);
  });
}

TEST(OwnedParts, AreForLibrariesThatMoveHostMemory) {
  class Other : public Communicator {
  public:
    Other() : Communicator(0, 2) {}
    std::string_view backend() const override { return "other"; }
    Status allReduce(void *, size_t, DType, Reduce) override { return {}; }
    Status reduceScatter(void *, size_t, DType, Reduce) override { return {}; }
    Status allGather(void *, size_t) override { return {}; }
    Status broadcast(void *, size_t, int) override { return {}; }
    Status barrier() override { return {}; }
    void abort(const Status &) override {}
    size_t bytesSent() const override { return 0; }
  } other;
  EXPECT_EQ(other.gatherFromOwners({}).getCode(), StatusCode::Unsupported);
  EXPECT_EQ(other.reduceToOwners({}, DType::F32, Reduce::Sum).getCode(),
            StatusCode::Unsupported);
}
