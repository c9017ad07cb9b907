// Divides and adds the rows of a table of which each rank has few that are not
// zero, such as the gradient of an embedding.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_ROWREDUCTION_H
#define MPC_RUNTIME_DISTRIBUTED_ROWREDUCTION_H

#include "runtime/Names.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpc::runtime {

/// A reduction of a table over ranks that send rows. The table is divided into
/// sections, so that the messages of all ranks for one section fit in scratch
/// memory. In each section, all ranks send messages of one size: for the rank
/// with the most rows.
///
/// Vectors of counts hold `ranks * numSections()` numbers, those of rank 0
/// first.
class RowReduction {
public:
  /// `blockBytes` bounds the bytes of a rank's message, unless a row is longer.
  RowReduction(size_t rows, size_t rowElements, DType type, Reduce kind,
               size_t ranks, size_t blockBytes);

  /// False if the table is empty, or has more rows than 32 bits can number.
  bool maySend() const;
  size_t numSections() const { return sections; }

  /// Returns the numbers of the rows with a bit that is not zero, ascending.
  /// Stops after so many rows that the whole table has fewer bytes.
  std::vector<uint32_t> findRows(const std::byte *table) const;
  /// Returns counts of zero, but for the rank `rank` with the rows `own`.
  std::vector<uint32_t> countRows(const std::vector<uint32_t> &own,
                                  size_t rank) const;
  /// Returns the largest count of a rank in each section.
  std::vector<uint32_t> findLongest(const std::vector<uint32_t> &counts) const;
  /// True if rows take fewer bytes on the wire than an all-reduce of the table.
  bool sendsLess(const std::vector<uint32_t> &longest) const;

  /// The bytes of a message with room for `room` rows: their numbers, then
  /// their elements.
  size_t messageBytes(size_t room) const;
  /// Writes the `count` rows `numbers` of the table to `message`, which has
  /// room for `room` rows.
  void pack(const std::byte *table, const uint32_t *numbers, size_t count,
            size_t room, std::byte *message) const;
  /// Replaces rows of `table` by their reductions. The messages of all ranks
  /// for the section lie side by side at `messages`, each with room for `room`
  /// rows. Adds in the order of the ranks. A rank without the row adds zeros,
  /// so the bits are those of an all-reduce.
  void addRows(const std::byte *messages, const std::vector<uint32_t> &counts,
               size_t section, size_t room, std::byte *table) const;

private:
  size_t elementsAt(size_t room) const;

  const size_t rows, rowElements, rowBytes;
  const DType type;
  const Reduce kind;
  const size_t ranks;
  const size_t sectionRows, sections;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_ROWREDUCTION_H
