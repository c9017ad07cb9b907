// An ONNX file in memory. The header is checked on reading. Tensors are decoded
// on demand, after all their sizes are checked.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_MODEL_H
#define MPC_FRONTENDS_ONNX_MODEL_MODEL_H

#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/File.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <map>
#include <memory>

namespace mpc::onnx_frontend {

/// Returns the canonical spelling of a domain: "" for "ai.onnx".
llvm::StringRef normalizeDomain(llvm::StringRef domain);

/// Returns the oldest supported version of a domain.
int64_t getOldestOpset(llvm::StringRef domain);

/// True if the elements have a float type that a file may store.
bool holdsFloats(const proto::TensorProto &tensor);

/// A defect of a file, and the repair or warning that followed.
struct LogEntry {
  /// The repair's name in Repair/Repairs.def; empty for the reader.
  llvm::StringRef repair;
  /// True for a guess that may be wrong, and that only training needs. False
  /// for a defect of the file.
  bool isNote = false;
  std::string message;
};

class Model : public std::enable_shared_from_this<Model> {
public:
  /// Reads and parses the file, and checks versions and opset imports. Repairs
  /// are a stage of their own (Repair/Repair.h).
  static llvm::Expected<std::shared_ptr<Model>>
  read(llvm::StringRef path, mlir::MLIRContext *context);

  const proto::ModelProto &getProto() const { return model; }
  /// The exporter's metadata of the main graph, read once.
  const ExportedProgram &getProgram() const { return program; }
  /// The mutable model, for repairs and for the export.
  proto::ModelProto &getProto() { return model; }
  llvm::StringRef getPath() const { return path; }
  /// The XXH3 hash of the file's bytes, as 16 hexadecimal digits.
  llvm::StringRef getHash() const { return hash; }
  mlir::MLIRContext *getContext() const { return context; }
  /// Sets another context. A model keeps no data of a context, and may outlive
  /// the first.
  void setContext(mlir::MLIRContext *other) { context = other; }

  /// Opset versions by domain.
  using Opsets = llvm::StringMap<int64_t>;

  /// Returns the imported version of a domain; 0 if it is not imported.
  int64_t getOpset(llvm::StringRef domain) const;
  /// Returns the version of the domain of `node`: from the imports of its
  /// function, if any, else from the model's.
  int64_t getOpset(const proto::NodeProto &node) const;
  /// Stores the imports of a function. `what` names the function in errors. A
  /// domain that `imports` lacks has the model's version.
  llvm::Expected<const Opsets *>
  addOpsets(const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>
                &imports,
            const llvm::Twine &what);
  /// Marks `node` as inlined from a function with `opsets`; null for a node of
  /// the model.
  void setOpsets(const proto::NodeProto &node, const Opsets *opsets) {
    if (opsets)
      nodeOpsets[&node] = opsets;
  }
  /// True if `node` comes from a function. The file does not name its values.
  bool isOfFunction(const proto::NodeProto &node) const {
    return nodeOpsets.contains(&node);
  }
  /// Saves the nodes of a graph before inlining replaces calls.
  void keepCalls(proto::GraphProto &graph) {
    graphsWithCalls.emplace_back(&graph, graph.node());
  }
  /// Restores the nodes saved by `keepCalls`.
  void restoreCalls();

  /// True if the model's producer trains with unbiased running variances, as
  /// PyTorch and Keras do.
  bool isFromUnbiasedProducer() const;
  /// Emits a warning: a defect of the file that does not stop the import.
  void warn(const llvm::Twine &message) const;
  /// Emits a note: a guess about the file that may be wrong.
  void note(const llvm::Twine &message) const;
  /// The findings of the reader and the repairs. The importer passes them to
  /// `warn` and `note`.
  llvm::ArrayRef<LogEntry> getLog() const { return log; }
  void addToLog(LogEntry entry) { log.push_back(std::move(entry)); }
  /// Leaves out the repairs of these names.
  void skipRepairs(llvm::ArrayRef<std::string> names) {
    skipped.assign(names.begin(), names.end());
  }
  llvm::ArrayRef<std::string> getSkippedRepairs() const { return skipped; }
  bool skipsRepair(llvm::StringRef name) const {
    return llvm::is_contained(skipped, name);
  }
  /// Reads the versions of the imports anew, after a repair has changed them.
  void readOpsets();

  /// Returns an error that begins with the path of the file.
  llvm::Error error(ErrorKind kind, const llvm::Twine &message) const {
    return makeError(kind, path + ": " + message);
  }

  /// Returns the MLIR type of an ONNX element type (TensorProto.DataType).
  llvm::Expected<mlir::Type> getElementType(int32_t dataType,
                                            const llvm::Twine &what) const;

  /// Decodes the values of `tensor`; shares the model's memory if the stored
  /// layout allows it. Reads external data again on every call. Error (kind IO)
  /// if the external file has changed since an earlier call.
  llvm::Expected<HostTensor> decode(const proto::TensorProto &tensor,
                                    const llvm::Twine &what) const;
  /// Notes that the external data of matrix `tensor` is stored transposed. The
  /// declared shape is the shape after decoding.
  void readTransposed(const proto::TensorProto &tensor) {
    transposed.insert(&tensor);
  }
  /// Records that matrix `name` was transposed on reading. The file, and so the
  /// user, calls the stored matrix `former`.
  void setFormerName(llvm::StringRef name, llvm::StringRef former) {
    formerNames[name] = former.str();
    presentNames[former] = name.str();
  }
  /// Returns the file's name of an initializer; empty if the name has not
  /// changed.
  std::string findFormerName(llvm::StringRef name) const {
    return formerNames.lookup(name);
  }
  /// Returns the present name of the initializer that the file calls `former`;
  /// empty if the name has not changed.
  std::string findPresentName(llvm::StringRef former) const {
    return presentNames.lookup(former);
  }
  /// Decodes an initializer. Without `readsValues`, zeros replace the elements
  /// of a large one.
  llvm::Expected<HostTensor> decodeInitializer(const proto::TensorProto &tensor,
                                               bool readsValues) const;

private:
  Model(llvm::StringRef path, mlir::MLIRContext *context)
      : path(path.str()), context(context) {}

  llvm::Error parse();
  llvm::Error checkHeader();
  llvm::Error checkOpset(int64_t opset, const llvm::Twine &where) const;
  llvm::Expected<HostTensor> decodeRaw(llvm::ArrayRef<char> bytes,
                                       std::shared_ptr<const void> owner,
                                       mlir::RankedTensorType type,
                                       const llvm::Twine &what) const;
  llvm::Expected<HostTensor> decodeTyped(const proto::TensorProto &tensor,
                                         mlir::RankedTensorType type,
                                         const llvm::Twine &what) const;
  llvm::Expected<HostTensor> decodeExternal(const proto::TensorProto &tensor,
                                            mlir::RankedTensorType type,
                                            const llvm::Twine &what) const;

  std::string path, hash;
  mlir::MLIRContext *context;
  proto::ModelProto model;
  ExportedProgram program;
  Opsets opsets;
  /// Graphs with their nodes before inlining.
  std::vector<std::pair<proto::GraphProto *,
                        google::protobuf::RepeatedPtrField<proto::NodeProto>>>
      graphsWithCalls;
  /// Opsets of functions, and the opsets of each inlined node.
  std::deque<Opsets> functionOpsets;
  llvm::DenseMap<const proto::NodeProto *, const Opsets *> nodeOpsets;
  std::vector<LogEntry> log;
  std::vector<std::string> skipped;
  /// Tensors whose external data is stored transposed.
  llvm::DenseSet<const proto::TensorProto *> transposed;
  llvm::StringMap<std::string> formerNames, presentNames;
  /// The identity of each external file that was read, by location.
  mutable std::map<std::string, FileVersion, std::less<>> externalFiles;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_MODEL_H
