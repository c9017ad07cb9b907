// Imports a model for another batch size than it was exported for.
//
// PyTorch's exporters fix the batch size by default. The file then holds the
// batch size in constants as well as in input shapes: `x.view(2, -1, 64)` is a
// Reshape to [2, -1, 64]. Two imports find the constants that mean the batch.
// The first import, as exported, records the shape of every value. The second
// import, for the wanted batch size, tracks the batch axis of every value and
// changes the constants that hold the batch size.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_REBATCH_H
#define MPC_FRONTENDS_ONNX_IMPORTER_REBATCH_H

#include "frontends/ONNX/Model/HostTensor.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringSet.h"

namespace mpc::onnx_frontend {

class NodeImporter;

class Rebatch {
public:
  using Shape = llvm::SmallVector<int64_t>;

  Rebatch(int64_t exported, int64_t wanted)
      : exported(exported), wanted(wanted) {}

  int64_t getExported() const { return exported; }
  int64_t getWanted() const { return wanted; }

  /// The nodes that combine samples with a number equal to the exported batch
  /// size: "node 'scale' (Mul)". Some mean the batch, such as `loss *
  /// x.shape[0]`; others do not. Nothing in the file tells them apart.
  llvm::ArrayRef<std::string> getNumbers() const { return numbers; }

  /// True during the first import, which records shapes.
  bool isRecording() const { return recording; }
  void finishRecording() { recording = false; }

  /// Adds an input of the model whose first axis is the batch.
  void addInput(llvm::StringRef name) { places[name] = {0, 1}; }

  /// Call after each node is imported. The first import records the shapes of
  /// the node's outputs. The second import finds the batch axis of each output,
  /// and reports an error if the axis is unclear.
  mlir::LogicalResult follow(NodeImporter &node);

  /// Returns the shape for a Reshape in the second import, where the file
  /// states the shape `requested`. Reports an error if it is unclear which
  /// number is the batch.
  mlir::FailureOr<Shape> adaptReshape(NodeImporter &node,
                                      llvm::ArrayRef<int64_t> requested);
  /// Returns the shape for an Expand in the second import, where the file
  /// states the shape `requested`.
  Shape adaptExpand(NodeImporter &node, llvm::ArrayRef<int64_t> requested);
  /// Returns the axis on which an Expand spreads a constant over the samples;
  /// nullopt if there is none. The constant has one row per sample of the
  /// exported batch. `requested`, which the model computes from Shape, already
  /// has the wanted batch size on this axis.
  std::optional<int64_t> findSpreadAxis(NodeImporter &node,
                                        llvm::ArrayRef<int64_t> requested);
  /// Returns the extent that the Concat input `input`, which has no batch,
  /// needs on axis `axis` to match an input with its batch on the axis. nullopt
  /// if no other input has its batch there, or if the exported batch is not 1.
  std::optional<int64_t> getConcatExtent(NodeImporter &node, unsigned input,
                                         int64_t axis);

private:
  /// The batch within a value: on axis `axis`, whose index runs over `outer` *
  /// batch * rest elements. [2, batch, 8] flattened to [2 * batch, 8] has the
  /// batch on axis 0 with `outer` = 2.
  struct Place {
    int64_t axis, outer;
  };

  bool spreadsSample(NodeImporter &node, llvm::ArrayRef<int64_t> shape) const;
  int64_t scale(int64_t extent) const { return extent / exported * wanted; }
  std::optional<Place> findPlace(llvm::StringRef name) const;
  std::optional<Place> moveThroughReshape(llvm::ArrayRef<int64_t> from,
                                          Place place,
                                          llvm::ArrayRef<int64_t> to) const;
  std::optional<Place> moveToAxis(llvm::ArrayRef<int64_t> from, Place place,
                                  llvm::ArrayRef<int64_t> to,
                                  int64_t axis) const;
  mlir::FailureOr<Place> inherit(NodeImporter &node, int64_t axis,
                                 int64_t extent);
  mlir::LogicalResult followOutput(NodeImporter &node, llvm::StringRef name,
                                   llvm::ArrayRef<int64_t> shape);
  mlir::LogicalResult followUnchanged(NodeImporter &node, llvm::StringRef name,
                                      llvm::ArrayRef<int64_t> shape,
                                      std::optional<Place> from);
  mlir::LogicalResult followJoined(NodeImporter &node, llvm::StringRef name,
                                   llvm::ArrayRef<int64_t> shape);
  bool isAmbiguous(llvm::StringRef name) const;
  bool normalizesSamples(NodeImporter &node);
  bool namesSamples(NodeImporter &node);
  bool averagesSum(NodeImporter &node);
  void followSources(NodeImporter &node);
  void noteBeside(NodeImporter &node);
  bool liesBesideBatch(llvm::StringRef expanded) const;
  bool isExportedBatch(NodeImporter &node, unsigned input) const;
  void noteNumber(NodeImporter &node);

  int64_t exported, wanted;
  bool recording = true;
  /// From the first import: the shape of every value, and the elements of small
  /// integer tensors.
  llvm::StringMap<Shape> shapes, integers;
  /// From the second import: the place of the batch in every value that has
  /// one.
  llvm::StringMap<Place> places;
  /// Values computed from all rows of an axis that merges a batch of 1 with
  /// other rows (isAmbiguous), such as a loss.
  llvm::StringSet<> joined;
  /// Values that were computed from sums over all samples.
  llvm::StringSet<> sums;
  /// `fromSamples`: values that depend on the elements of samples.
  /// `fromShapes`: values that depend on shapes alone.
  llvm::StringSet<> fromSamples, fromShapes;
  /// For each result of MatMul and Gemm: the length of the contraction axis.
  llvm::StringMap<int64_t> terms;
  std::vector<std::string> numbers;

  /// The other operand `name` of an elementwise op that reads an Expand result.
  /// `axis` is the axis of that operand that broadcasting aligns with axis 0 of
  /// the Expand result; -1 if axis 0 is known not to be the batch.
  struct Partner {
    std::string name;
    int64_t axis;
  };
  /// From the first import, for Expand results whose axis 0 has the exported
  /// batch size. `expanded` maps each value that elementwise ops compute from
  /// such a result to the result. `partners` maps the result to the operand
  /// that it is combined with.
  llvm::StringMap<std::string> expanded;
  llvm::StringMap<Partner> partners;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_REBATCH_H
