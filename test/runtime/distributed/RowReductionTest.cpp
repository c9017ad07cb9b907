// Tests reductions of tables of which few rows are not zero, over threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/RowReduction.h"
#include "runtime/FloatBits.h"
#include "runtime/Tensor.h"
#include "test/runtime/distributed/ThreadCommunicator.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mpc::runtime;

namespace {

using Bytes = std::vector<std::byte>;

struct Table {
  size_t rows, rowElements;
  DType type;

  size_t count() const { return rows * rowElements; }
  size_t rowBytes() const { return rowElements * size_t(sizeOf(type)); }
  size_t bytes() const { return rows * rowBytes(); }
};

void store(std::byte *to, DType type, float value) {
  const auto copy = [&](auto bits) { std::memcpy(to, &bits, sizeof(bits)); };
  switch (type) {
  case DType::F16:
    return copy(floatToF16(value));
  case DType::BF16:
    return copy(floatToBF16(value));
  case DType::F64:
    return copy(static_cast<double>(value));
  case DType::I32:
    return copy(static_cast<int32_t>(value));
  default:
    return copy(value);
  }
}

/// Fills `numbers` of a table of zeros with values whose sum depends on the
/// order of the additions.
Bytes fillRows(const Table &table, const std::vector<size_t> &numbers,
               int rank) {
  Bytes data(table.bytes());
  std::mt19937 engine(static_cast<unsigned>(rank) + 1);
  for (size_t row : numbers)
    for (size_t i = 0; i < table.rowElements; ++i) {
      const unsigned bits = static_cast<unsigned>(engine());
      const float value =
          std::ldexp(static_cast<float>(bits >> 8), int(bits & 15) - 24);
      store(data.data() + row * table.rowBytes() +
                i * size_t(sizeOf(table.type)),
            table.type, bits & 16 ? -value : value);
    }
  return data;
}

/// The bytes that rank 0 sends for a table by rows and as a whole.
struct Sent {
  size_t rows, whole;
};

/// Reduces `data(rank)` by rows and as a whole, and expects equal bits.
template <typename Data>
Sent expectBitsOfAllReduce(int ranks, const Table &table, Reduce kind,
                           Data data) {
  Sent sent = {};
  runRanks(ranks, [&](Communicator &communicator) {
    Bytes byRows = data(communicator.rank());
    Bytes whole = byRows;
    Status status = communicator.allReduceRows(
        byRows.data(), table.rows, table.rowElements, table.type, kind);
    EXPECT_TRUE(status.ok()) << status.message();
    const size_t bytes = communicator.bytesSent();
    status =
        communicator.allReduce(whole.data(), table.count(), table.type, kind);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(byRows == whole)
        << "rank " << communicator.rank() << " of " << ranks << ", "
        << stringify(table.type) << ", " << stringify(kind);
    if (communicator.isFirst())
      sent = {bytes, communicator.bytesSent() - bytes};
  });
  return sent;
}

/// Rows of a table of 1000: each rank has rows alone and rows that other ranks
/// have too. Rank 2 has none.
std::vector<size_t> rowsOf(int rank) {
  switch (rank) {
  case 0:
    return {0, 7, 63, 64, 999};
  case 1:
    return {1, 7, 64, 500};
  case 2:
    return {};
  default:
    return {7, 998, 999};
  }
}

} // namespace

TEST(RowReduction, HasTheBitsOfAnAllReduce) {
  for (int ranks : {2, 3, 4})
    for (DType type : {DType::F32, DType::F16, DType::BF16, DType::F64})
      for (Reduce kind : {Reduce::Mean, Reduce::Sum, Reduce::Max})
        for (size_t rowElements : {size_t(1), size_t(3), size_t(64)}) {
          const Table table{1000, rowElements, type};
          const Sent sent =
              expectBitsOfAllReduce(ranks, table, kind, [&](int rank) {
                return fillRows(table, rowsOf(rank), rank);
              });
          // Five rows, padded to whole words, and a count.
          const size_t message = 5 * (table.rowBytes() + 4) + 16 + 4;
          EXPECT_LE(sent.rows, size_t(ranks - 1) * message);
          EXPECT_LT(sent.rows, sent.whole);
        }
}

TEST(RowReduction, AddsIntegers) {
  const Table table{1000, 4, DType::I32};
  for (Reduce kind : {Reduce::Sum, Reduce::Max})
    expectBitsOfAllReduce(3, table, kind, [&](int rank) {
      return fillRows(table, rowsOf(rank), rank);
    });
  runRanks(2, [&](Communicator &communicator) {
    Bytes data(table.bytes());
    EXPECT_EQ(communicator
                  .allReduceRows(data.data(), table.rows, table.rowElements,
                                 table.type, Reduce::Mean)
                  .getCode(),
              StatusCode::Internal);
  });
}

// A sum of -0 and the zero of a rank without the row is +0.
TEST(RowReduction, KeepsSignsAndNonFiniteValues) {
  const Table table{1000, 2, DType::F32};
  const float values[] = {-0.0f, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};
  for (int ranks : {2, 3})
    for (Reduce kind : {Reduce::Mean, Reduce::Sum, Reduce::Max})
      expectBitsOfAllReduce(ranks, table, kind, [&](int rank) {
        Bytes data(table.bytes());
        for (size_t i = 0; i < 4; ++i) {
          // A row of rank 0 alone, of the last rank alone, and of all ranks.
          for (size_t row : {10 + i, 20 + i, 30 + i})
            if (row >= 30 || rank == (row < 20 ? 0 : ranks - 1))
              std::memcpy(data.data() + row * 8 + 4, &values[i], 4);
        }
        return data;
      });
}

TEST(RowReduction, OfZerosSendsNothingButCounts) {
  const Table table{1000, 64, DType::F32};
  const Sent sent = expectBitsOfAllReduce(
      3, table, Reduce::Mean, [&](int) { return Bytes(table.bytes()); });
  EXPECT_EQ(sent.rows, 2u * 4);
}

TEST(RowReduction, OfAnEmptyTableSendsNothing) {
  for (const Table &table :
       {Table{0, 64, DType::F32}, Table{1000, 0, DType::F32}}) {
    const Sent sent = expectBitsOfAllReduce(
        2, table, Reduce::Mean, [&](int) { return Bytes(table.bytes()); });
    EXPECT_EQ(sent.rows, 0u);
  }
}

// All ranks take the same way, although only one of them has many rows.
TEST(RowReduction, OfManyRowsReducesTheTable) {
  const Table table{1000, 64, DType::F32};
  for (int ranks : {2, 3, 4})
    for (int full : {0, 1}) {
      const Sent sent =
          expectBitsOfAllReduce(ranks, table, Reduce::Mean, [&](int rank) {
            if (rank != full)
              return fillRows(table, rowsOf(rank), rank);
            std::vector<size_t> all(table.rows);
            for (size_t row = 0; row < table.rows; ++row)
              all[row] = row;
            return fillRows(table, all, rank);
          });
      EXPECT_EQ(sent.rows, sent.whole + size_t(ranks - 1) * 4);
    }
}

// The choice turns where rows and numbers have the bytes of an all-reduce.
TEST(RowReduction, SendsWhatHasFewerBytes) {
  const Table table{1000, 64, DType::F32};
  const auto sentWith = [&](size_t count) {
    return expectBitsOfAllReduce(3, table, Reduce::Sum, [&](int rank) {
      std::vector<size_t> some;
      for (size_t row = 0; row < count; ++row)
        some.push_back(row * 1000 / count);
      return fillRows(table, some, rank);
    });
  };
  // 3 ranks send 260 bytes a row twice. An all-reduce sends 2 / 3 of 256,000
  // bytes twice.
  const Sent few = sentWith(655);
  EXPECT_LT(few.rows, few.whole + 8);
  EXPECT_GT(few.rows, few.whole * 99 / 100);
  const Sent many = sentWith(657);
  EXPECT_EQ(many.rows, many.whole + 8);
}

// More rows than a message may have.
TEST(RowReduction, DividesLongTables) {
  const Table table{3000001, 1, DType::F32};
  const Sent sent =
      expectBitsOfAllReduce(2, table, Reduce::Mean, [&](int rank) {
        // No row in the second of the sections.
        std::vector<size_t> some;
        for (size_t row = size_t(rank); row < table.rows; row += 13)
          if (row < 1000000 || row > 2200000)
            some.push_back(row);
        return fillRows(table, some, rank);
      });
  EXPECT_LT(sent.rows, sent.whole / 2);
  EXPECT_GT(RowReduction(table.rows, 1, DType::F32, Reduce::Mean, 2, 8 << 20)
                .numSections(),
            2u);
}

TEST(RowReduction, LibrariesWithoutRowsReduceTheTable) {
  class Other : public Communicator {
  public:
    Other() : Communicator(0, 2) {}
    std::string_view backend() const override { return "other"; }
    Status allReduce(void *, size_t count, DType, Reduce) override {
      reduced = count;
      return {};
    }
    Status reduceScatter(void *, size_t, DType, Reduce) override { return {}; }
    Status allGather(void *, size_t) override { return {}; }
    Status broadcast(void *, size_t, int) override { return {}; }
    Status barrier() override { return {}; }
    void abort(const Status &) override {}
    size_t bytesSent() const override { return 0; }
    size_t reduced = 0;
  } other;
  EXPECT_TRUE(
      other.allReduceRows(nullptr, 10, 64, DType::F32, Reduce::Mean).ok());
  EXPECT_EQ(other.reduced, 640u);
}
