// An ONNX file in memory. Reading checks the header. Tensors are decoded on
// demand, after a check of their sizes.
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

/// True if the tensor's elements are of a float type that mpc supports: f16,
/// bf16, f32 or f64.
bool holdsFloats(const proto::TensorProto &tensor);

/// An entry of the log: a defect of a file that the reader or a repair found,
/// and what was done.
struct LogEntry {
  /// The name, in Repair/Repairs.def, of the repair that made the entry; empty
  /// if the reader made it.
  llvm::StringRef repair;
  /// True if the message is a guess that may be wrong and matters only for
  /// training. False for a certain defect of the file.
  bool isNote = false;
  std::string message;
};

class Model : public std::enable_shared_from_this<Model> {
public:
  /// Reads and parses the file at `path`, and checks versions and opset
  /// imports. Does not run repairs (see Repair/Repair.h).
  static llvm::Expected<std::shared_ptr<Model>>
  read(llvm::StringRef path, mlir::MLIRContext *context);

  const proto::ModelProto &getProto() const { return model; }
  /// The program that the metadata of the main graph describe. Read once,
  /// before any repair.
  const ExportedProgram &getProgram() const { return program; }
  /// The parsed file, which repairs and the export change.
  proto::ModelProto &getProto() { return model; }
  llvm::StringRef getPath() const { return path; }
  /// The XXH3 hash of the file's bytes, as 16 hexadecimal digits.
  llvm::StringRef getHash() const { return hash; }
  mlir::MLIRContext *getContext() const { return context; }
  /// Makes later calls use `other`. A model keeps no data of a context, so it
  /// may outlive its first context.
  void setContext(mlir::MLIRContext *other) { context = other; }

  /// Opset versions by domain.
  using Opsets = llvm::StringMap<int64_t>;

  /// Returns the imported version of a domain; 0 if it is not imported.
  int64_t getOpset(llvm::StringRef domain) const;
  /// Returns the version of `node`'s domain. For a node inlined from a
  /// function, the function's imports come first, then the model's.
  int64_t getOpset(const proto::NodeProto &node) const;
  /// Stores the opset imports of a function and returns them. `what` names the
  /// function in errors. For a domain that `imports` lacks, the model's version
  /// applies.
  llvm::Expected<const Opsets *>
  addOpsets(const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>
                &imports,
            const llvm::Twine &what);
  /// Records that `node` was inlined from a function with the imports `opsets`;
  /// null if it is a node of the model itself.
  void setOpsets(const proto::NodeProto &node, const Opsets *opsets) {
    if (opsets)
      nodeOpsets[&node] = opsets;
  }
  /// True if `node` was inlined from a function. The names of its values are
  /// then made up, not in the file.
  bool isOfFunction(const proto::NodeProto &node) const {
    return nodeOpsets.contains(&node);
  }
  /// Keeps a copy of the graph's nodes, before inlining replaces calls of
  /// functions.
  void keepCalls(proto::GraphProto &graph) {
    graphsWithCalls.emplace_back(&graph, graph.node());
  }
  /// Puts the nodes that `keepCalls` kept back into their graphs, so that the
  /// file has its calls again.
  void restoreCalls();

  /// True if the tool that produced the model trains with unbiased running
  /// variances, as PyTorch and Keras do.
  bool isFromUnbiasedProducer() const;
  /// Emits a warning about a defect of the file that does not stop the import.
  void warn(const llvm::Twine &message) const;
  /// Emits a note, which MLIR calls a remark: a guess about the file that may
  /// be wrong.
  void note(const llvm::Twine &message) const;
  /// The messages of the reader and the repairs, kept until the importer emits
  /// them by `warn` and `note`.
  llvm::ArrayRef<LogEntry> getLog() const { return log; }
  void addToLog(LogEntry entry) { log.push_back(std::move(entry)); }
  /// Makes the repairs with these names not run on the model.
  void skipRepairs(llvm::ArrayRef<std::string> names) {
    skipped.assign(names.begin(), names.end());
  }
  llvm::ArrayRef<std::string> getSkippedRepairs() const { return skipped; }
  bool skipsRepair(llvm::StringRef name) const {
    return llvm::is_contained(skipped, name);
  }
  /// Reads the opset versions again, after a repair has changed the file's
  /// imports.
  void readOpsets();

  /// Returns an error that begins with the path of the file.
  llvm::Error error(ErrorKind kind, const llvm::Twine &message) const {
    return makeError(kind, path + ": " + message);
  }

  /// Returns the MLIR type of an ONNX element type (TensorProto.DataType).
  llvm::Expected<mlir::Type> getElementType(int32_t dataType,
                                            const llvm::Twine &what) const;

  /// Decodes the elements of `tensor`. Shares the memory of the parsed file if
  /// the layout allows it. `what` names the tensor in errors. Reads external
  /// data again on every call; error (kind IO) if the external file has changed
  /// since an earlier call.
  llvm::Expected<HostTensor> decode(const proto::TensorProto &tensor,
                                    const llvm::Twine &what) const;
  /// Records that a repair has transposed the matrix `tensor`, whose external
  /// file still has the old layout. decode() then transposes the data; the
  /// shape in `tensor` is the shape after decoding.
  void readTransposed(const proto::TensorProto &tensor) {
    transposed.insert(&tensor);
  }
  /// Records that a repair has renamed and transposed a matrix: the file, and
  /// so the user, calls it `former`, the model `name`.
  void setFormerName(llvm::StringRef name, llvm::StringRef former) {
    formerNames[name] = former.str();
    presentNames[former] = name.str();
  }
  /// Returns the name that the file uses for the initializer `name`; empty if
  /// no repair has renamed it.
  std::string findFormerName(llvm::StringRef name) const {
    return formerNames.lookup(name);
  }
  /// Returns the name that the model uses for the initializer that the file
  /// calls `former`; empty if no repair has renamed it.
  std::string findPresentName(llvm::StringRef former) const {
    return presentNames.lookup(former);
  }
  /// Decodes an initializer. If `readsValues` is false and the initializer is
  /// large, returns zeros of the right type.
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
  /// The graphs in which calls were inlined, each with the nodes before
  /// inlining.
  std::vector<std::pair<proto::GraphProto *,
                        google::protobuf::RepeatedPtrField<proto::NodeProto>>>
      graphsWithCalls;
  /// The opset imports of functions, and the imports that apply to each inlined
  /// node.
  std::deque<Opsets> functionOpsets;
  llvm::DenseMap<const proto::NodeProto *, const Opsets *> nodeOpsets;
  std::vector<LogEntry> log;
  std::vector<std::string> skipped;
  /// Tensors whose external data is stored transposed.
  llvm::DenseSet<const proto::TensorProto *> transposed;
  llvm::StringMap<std::string> formerNames, presentNames;
  /// The identity of each external file when it was first read, by its location
  /// in the model.
  mutable std::map<std::string, FileVersion, std::less<>> externalFiles;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_MODEL_H
