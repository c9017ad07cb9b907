// Tests the labelled order against a plain list.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/OrderedList.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace mpc;

static std::vector<unsigned> numbersTo(unsigned size) {
  std::vector<unsigned> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

static void expectOrder(const OrderedList &list,
                        const std::vector<unsigned> &expected) {
  for (size_t i = 0; i + 1 < expected.size(); ++i) {
    ASSERT_TRUE(list.isBefore(expected[i], expected[i + 1])) << "at " << i;
    ASSERT_FALSE(list.isBefore(expected[i + 1], expected[i])) << "at " << i;
  }
}

TEST(OrderedList, StartsInOrder) {
  expectOrder(OrderedList(5), {0, 1, 2, 3, 4});
}

TEST(OrderedList, AgreesWithAPlainList) {
  std::mt19937 random(3);
  for (unsigned size : {2u, 3u, 7u, 64u}) {
    OrderedList list(size);
    std::vector<unsigned> plain = numbersTo(size);
    for (unsigned round = 0; round < 2000; ++round) {
      unsigned item = random() % size, place = random() % size;
      if (item == place)
        continue;
      bool after = random() % 2;
      after ? list.moveAfter(item, place) : list.moveBefore(item, place);
      plain.erase(std::find(plain.begin(), plain.end(), item));
      plain.insert(std::find(plain.begin(), plain.end(), place) + after, item);
      ASSERT_NO_FATAL_FAILURE(expectOrder(list, plain)) << "round " << round;
    }
  }
}

// Labels between the same two numbers run out repeatedly.
TEST(OrderedList, FindsRoomInOnePlace) {
  constexpr unsigned kSize = 20000;
  for (bool after : {false, true})
    for (unsigned place : {0u, kSize / 2, kSize - 1}) {
      OrderedList list(kSize);
      std::vector<unsigned> moved;
      for (unsigned item = 0; item < kSize; ++item) {
        if (item == place)
          continue;
        after ? list.moveAfter(item, place) : list.moveBefore(item, place);
        moved.push_back(item);
      }
      if (after)
        std::reverse(moved.begin(), moved.end());
      moved.insert(after ? moved.begin() : moved.end(), place);
      expectOrder(list, moved);
    }
}

TEST(OrderedList, KeepsTheOrderOfWhatIsLeft) {
  OrderedList list(6);
  list.remove(0);
  list.remove(3);
  list.remove(5);
  list.moveAfter(1, 4);
  expectOrder(list, {2, 4, 1});
}

// Also a negative control of MPC_ASSERTIONS: a build that claims to check
// invariants but defines NDEBUG fails here.
TEST(OrderedListDeathTest, RefusesANumberBesideItself) {
  if (!MPC_ASSERTIONS)
    GTEST_SKIP() << "a build without assertions";
  OrderedList list(3);
  EXPECT_DEATH(list.moveAfter(1, 1), "no place beside itself");
}
