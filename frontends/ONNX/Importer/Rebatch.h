// Models that were exported for one batch size, imported for another.
//
// PyTorch's exporters fix the batch unless they are told not to. The file then
// has it not only in the inputs' shapes but in constants: `x.view(2, -1, 64)`
// is a Reshape to [2, -1, 64]. Which of them mean the batch is told by
// importing twice. The first import, as exported, notes the shape of every
// value; the second one, with the batch asked for, follows where in every value
// the batch is, and changes the constants that say so.
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

  /// The nodes that compute with samples and a number of the file that is the
  /// exported batch: "node 'scale' (Mul)". Some mean it, as `loss * x.shape[0]`
  /// is written; others do not, and nothing in the file tells them apart.
  llvm::ArrayRef<std::string> getNumbers() const { return numbers; }

  /// Whether this is the first import, which takes notes.
  bool isRecording() const { return recording; }
  void finishRecording() { recording = false; }

  /// An input of the model, whose first axis is the batch.
  void addInput(llvm::StringRef name) { places[name] = {0, 1}; }

  /// Notes the outputs of an imported node, or finds where the batch is in
  /// them; fails with a finding where that cannot be told.
  mlir::LogicalResult follow(NodeImporter &node);

  /// The shape that Reshape asks for, `requested` in the file. Fails with a
  /// finding where it cannot be told.
  mlir::FailureOr<Shape> adaptReshape(NodeImporter &node,
                                      llvm::ArrayRef<int64_t> requested);
  /// The same for Expand.
  Shape adaptExpand(NodeImporter &node, llvm::ArrayRef<int64_t> requested);
  /// The axis of a constant that Expand spreads over the samples of an input,
  /// which the constant has as many rows for as the exported batch had:
  /// `requested` there is the batch that is asked for, by itself.
  std::optional<int64_t> findSpreadAxis(NodeImporter &node,
                                        llvm::ArrayRef<int64_t> requested);
  /// The length that the axis of an input of Concat must have to go with the
  /// others, where it holds the batch there and is not of it.
  std::optional<int64_t> getConcatExtent(NodeImporter &node, unsigned input,
                                         int64_t axis);

private:
  /// Where the batch is: in axis `axis` of a value, which has `outer` times the
  /// batch times something elements. [2, batch, 8] flattened to [2 * batch, 8]
  /// has it on axis 0 with 2 outside.
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
  /// As exported: the shape of every value, and the elements of small integer
  /// tensors.
  llvm::StringMap<Shape> shapes, integers;
  /// With the batch asked for: of every value that has it.
  llvm::StringMap<Place> places;
  /// Single elements that were computed of rows of all samples, such as a loss.
  llvm::StringSet<> joined;
  /// What was computed of sums over all samples.
  llvm::StringSet<> sums;
  /// Values that depend on samples, with or without an axis of them; and values
  /// that depend on shapes alone.
  llvm::StringSet<> fromSamples, fromShapes;
  /// Of the results of products: how many terms their sums have.
  llvm::StringMap<int64_t> terms;
  std::vector<std::string> numbers;

  /// The value that a constant is combined with, and the axis of it that the
  /// constant's first one lies on; -1 where that is no batch by itself.
  struct Partner {
    std::string name;
    int64_t axis;
  };
  /// As exported: results of Expand that begin with the exported batch, and
  /// what is computed of them element by element, to the first; and what that
  /// is combined with.
  llvm::StringMap<std::string> expanded;
  llvm::StringMap<Partner> partners;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_REBATCH_H
