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

  /// In the first import, records the outputs of a node. In the second import,
  /// finds the batch in them, and reports an error if its place is unclear.
  mlir::LogicalResult follow(NodeImporter &node);

  /// Returns the shape for a Reshape to `requested` in the file. Reports an
  /// error if the place of the batch is unclear.
  mlir::FailureOr<Shape> adaptReshape(NodeImporter &node,
                                      llvm::ArrayRef<int64_t> requested);
  /// Returns the shape for an Expand to `requested` in the file.
  Shape adaptExpand(NodeImporter &node, llvm::ArrayRef<int64_t> requested);
  /// The axis on which Expand spreads a constant over the samples; nullopt if
  /// none. The constant has one row per exported sample. `requested`, which the
  /// model computes, already has the wanted batch size on that axis.
  std::optional<int64_t> findSpreadAxis(NodeImporter &node,
                                        llvm::ArrayRef<int64_t> requested);
  /// The extent that axis `axis` of a Concat input must have to match the other
  /// inputs. nullopt unless the axis holds the batch in another input, and this
  /// input does not depend on the batch.
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
  /// Single elements that were computed from the rows of all samples, such as a
  /// loss.
  llvm::StringSet<> joined;
  /// Values that were computed from sums over all samples.
  llvm::StringSet<> sums;
  /// Values that depend on samples, with or without a batch axis; and values
  /// that depend on shapes alone.
  llvm::StringSet<> fromSamples, fromShapes;
  /// For results of products: the number of terms in each sum.
  llvm::StringMap<int64_t> terms;
  std::vector<std::string> numbers;

  /// The value that a constant is combined with, and the axis of that value
  /// that meets the constant's first axis. -1 if the constant's first axis is
  /// known not to be the batch.
  struct Partner {
    std::string name;
    int64_t axis;
  };
  /// From the first import. `expanded` maps each value that is computed
  /// elementwise from an Expand result to that result, if the Expand result
  /// begins with the exported batch size. `partners` maps each such Expand
  /// result to the value that it is combined with.
  llvm::StringMap<std::string> expanded;
  llvm::StringMap<Partner> partners;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_REBATCH_H
