// An ONNX file in memory: parsed, its header checked, its tensors decoded on
// demand and only after every size in them was checked.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_MODEL_H
#define MPC_FRONTENDS_ONNX_MODEL_MODEL_H

#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/File.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <map>
#include <memory>

namespace mpc::onnx_frontend {

/// ONNX's own domain has two spellings; this is the one used here.
llvm::StringRef normalizeDomain(llvm::StringRef domain);

/// The oldest version of a domain that is read.
int64_t getOldestOpset(llvm::StringRef domain);

/// Whether elements are floats that a file may store.
bool holdsFloats(const proto::TensorProto &tensor);

class Model : public std::enable_shared_from_this<Model> {
public:
  /// Reads and parses the file, and checks versions and opset imports.
  static llvm::Expected<std::shared_ptr<Model>>
  read(llvm::StringRef path, mlir::MLIRContext *context);

  const proto::ModelProto &getProto() const { return model; }
  /// For the exporter, which owns the model it changes.
  proto::ModelProto &getProto() { return model; }
  llvm::StringRef getPath() const { return path; }
  /// XXH3 of the file's bytes, as 16 hexadecimal digits.
  llvm::StringRef getHash() const { return hash; }
  mlir::MLIRContext *getContext() const { return context; }
  /// Exchanges the context, which a model may outlive: it holds nothing of it.
  void setContext(mlir::MLIRContext *other) { context = other; }

  /// Versions by domain.
  using Opsets = llvm::StringMap<int64_t>;

  /// The imported version of a domain; 0 if it is not imported.
  int64_t getOpset(llvm::StringRef domain) const;
  /// That of a node's domain, for a node of a function as that says.
  int64_t getOpset(const proto::NodeProto &node) const;
  /// The opsets that `what` imports, kept here; where it says nothing of a
  /// domain, the model's hold.
  llvm::Expected<const Opsets *>
  addOpsets(const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>
                &imports,
            const llvm::Twine &what);
  /// A node is a function's, of these opsets; null: it is the model's.
  void setOpsets(const proto::NodeProto &node, const Opsets *opsets) {
    if (opsets)
      nodeOpsets[&node] = opsets;
  }
  /// Whether the node is of a function: its values have no names in the file.
  bool isOfFunction(const proto::NodeProto &node) const {
    return nodeOpsets.contains(&node);
  }
  /// Keeps the nodes of a graph whose calls of functions are to be replaced.
  void keepCalls(proto::GraphProto &graph) {
    graphsWithCalls.emplace_back(&graph, graph.node());
  }
  /// Gives the graphs the nodes back that the file has.
  void restoreCalls();

  /// Whether the program that made the model trains with unbiased running
  /// variances: PyTorch and Keras do.
  bool isFromUnbiasedProducer() const;
  /// Says something about the file that is no reason to give up.
  void warn(const llvm::Twine &message) const;
  /// Says what was found out about the file and could be meant otherwise.
  void note(const llvm::Twine &message) const;
  /// What reading the file gave reason to say, for `warn` once it is imported.
  llvm::ArrayRef<std::string> getWarnings() const { return warnings; }
  /// Likewise for `note`.
  llvm::ArrayRef<std::string> getNotes() const { return notes; }
  /// For the repairs of the file's graph (Repair/Repair.h), which say what they
  /// did.
  std::vector<std::string> &getWarnings() { return warnings; }
  std::vector<std::string> &getNotes() { return notes; }
  /// Reads the versions of the imports anew, after a repair has changed them.
  void readOpsets();

  /// A finding about this file.
  llvm::Error error(ErrorKind kind, const llvm::Twine &message) const {
    return makeError(kind, path + ": " + message);
  }

  /// The MLIR type of an ONNX element type (TensorProto.DataType).
  llvm::Expected<mlir::Type> getElementType(int32_t dataType,
                                            const llvm::Twine &what) const;

  /// The values of `tensor`, sharing memory with this model where they are
  /// stored as they are used.
  /// External data is read anew by every call; where its file is not the one
  /// that an earlier call read, that is an error (kind IO).
  llvm::Expected<HostTensor> decode(const proto::TensorProto &tensor,
                                    const llvm::Twine &what) const;
  /// A matrix of external data lies transposed in its file: `tensor` has the
  /// shape that it is to be decoded to.
  void readTransposed(const proto::TensorProto &tensor) {
    transposed.insert(&tensor);
  }
  /// The matrix that is called `name` here is in the file the transposition of
  /// it, called `former`, by which the user may know it, too.
  void setFormerName(llvm::StringRef name, llvm::StringRef former) {
    formerNames[name] = former.str();
    presentNames[former] = name.str();
  }
  /// What the file calls an initializer; empty where it has the same name.
  std::string findFormerName(llvm::StringRef name) const {
    return formerNames.lookup(name);
  }
  /// The initializer that the file calls `former`; empty where none has another
  /// name there.
  std::string findPresentName(llvm::StringRef former) const {
    return presentNames.lookup(former);
  }
  /// The elements of an initializer; without `readsValues`, zeros in place of
  /// those of a large one.
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
  Opsets opsets;
  /// As they are in the file.
  std::vector<std::pair<proto::GraphProto *,
                        google::protobuf::RepeatedPtrField<proto::NodeProto>>>
      graphsWithCalls;
  /// Of functions, and of the nodes that they have become.
  std::deque<Opsets> functionOpsets;
  llvm::DenseMap<const proto::NodeProto *, const Opsets *> nodeOpsets;
  std::vector<std::string> warnings, notes;
  /// Tensors whose external data is that of their transposition.
  llvm::DenseSet<const proto::TensorProto *> transposed;
  llvm::StringMap<std::string> formerNames, presentNames;
  /// The files of external data that were read, by their locations.
  mutable std::map<std::string, FileVersion, std::less<>> externalFiles;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_MODEL_H
