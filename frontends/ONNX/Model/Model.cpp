// Reads and parses ONNX files.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Model.h"

#include "frontends/ONNX/Model/FileInput.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include <climits>
#include <google/protobuf/io/coded_stream.h>

using namespace mlir;
using namespace mpc::onnx_frontend;

// The versions that this importer supports: up to ONNX 1.23.
static constexpr int64_t kOldestIRVersion = 3, kNewestIRVersion = 14;
static constexpr int64_t kOldestOpset = 6, kNewestOpset = 28;

StringRef mpc::onnx_frontend::normalizeDomain(StringRef domain) {
  return domain == "ai.onnx" ? StringRef() : domain;
}

int64_t mpc::onnx_frontend::getOldestOpset(StringRef domain) {
  return domain.empty() ? kOldestOpset : 1;
}

llvm::Expected<std::shared_ptr<Model>> Model::read(StringRef path,
                                                   MLIRContext *context) {
  std::shared_ptr<Model> model(new Model(path, context));
  if (llvm::Error error = model->parse())
    return error;
  if (llvm::Error error = model->checkHeader())
    return error;
  model->program = ExportedProgram::read(model->model.graph());
  return model;
}

void Model::readOpsets() {
  for (const proto::OperatorSetIdProto &import : model.opset_import())
    opsets[normalizeDomain(import.domain())] = import.version();
}

// Guesses the format of a file that is not ONNX from its first bytes; empty if
// unknown.
static StringRef guessFormat(StringRef start) {
  StringRef text = start.ltrim();
  // Check for failed downloads first: they are the most frequent case.
  if (start.starts_with("version https://git-lfs"))
    return "a Git LFS pointer: the model itself was not downloaded";
  if (text.starts_with_insensitive("<!doctype") ||
      text.starts_with_insensitive("<html"))
    return "an HTML page";
  if (start.starts_with("\x1f\x8b"))
    return "gzip data";
  // For other model formats the message also has a remedy.
  bool isZip = start.starts_with("PK\x03\x04");
  if ((isZip && start.contains("/data.pkl")) || start.starts_with("\x80\x02"))
    return "a file of torch.save (PyTorch), a Python pickle, which is never "
           "read; export models with torch.onnx.export, and save weights with "
           "safetensors.torch.save_file(model.state_dict(), "
           "\"weights.safetensors\")";
  if (isZip)
    return "a zip archive";
  if (start.starts_with("\x80"))
    return "a Python pickle, which is never read";
  if (start.starts_with("\x89HDF"))
    return "an HDF5 file (Keras); export the model with tf2onnx";
  if (start.substr(4).starts_with("TFL3"))
    return "a TensorFlow Lite file; export the model it is from with tf2onnx";
  if (start.starts_with("\x7f"
                        "ELF"))
    return "an ELF file";
  // A safetensors file starts with the length of a JSON header, far below 4
  // GiB.
  if (start.substr(4).starts_with(StringRef("\0\0\0\0{", 5)))
    return "a safetensors file";
  if (text.starts_with("<") && text.contains("ir_version"))
    return "ONNX text";
  if (!text.empty() && llvm::all_of(start, [](char c) {
        return llvm::isPrint(c) || llvm::isSpace(c);
      }))
    return "a text file";
  return {};
}

llvm::Error Model::parse() {
  llvm::Expected<File> file = File::open(path);
  if (!file)
    return file.takeError();
  FileInput input(*file);
  auto start = input.peek(256);
  if (!start)
    return start.takeError();
  if (start->empty())
    return error(ErrorKind::InvalidInput, "the file is empty");
  // Protobuf counts bytes in 31 bits. The size of a pipe is unknown before it
  // is read, so check again afterwards.
  auto checkSize = [this](int64_t size) -> llvm::Error {
    if (size <= INT_MAX)
      return llvm::Error::success();
    return error(ErrorKind::InvalidInput,
                 "a protobuf file cannot exceed 2 GiB, found " + Twine(size) +
                     " bytes; store the weights as external data");
  };
  if (llvm::Error error = checkSize(file->getSize().value_or(0)))
    return error;
  // Guess the format before parsing: protobuf accepts some text files and
  // archives as a valid message.
  if (StringRef format = guessFormat(*start); !format.empty())
    return error(ErrorKind::InvalidInput,
                 "expected an ONNX file, found " + format);

  // `input` hashes each block that protobuf reads.
  constexpr int blockBytes = 1 << 20;
  google::protobuf::io::CopyingInputStreamAdaptor stream(&input, blockBytes);
  google::protobuf::io::CodedInputStream coded(&stream);
  if (model.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage()) {
    hash = input.getHash();
    return llvm::Error::success();
  }
  // If parsing fails, report the first cause that applies: a read error, a file
  // that is too large, or else bad contents.
  if (llvm::Error error = input.takeError())
    return error;
  if (llvm::Error error = checkSize(input.getCount()))
    return error;
  std::string size = file->getSize() ? " of " + std::to_string(*file->getSize())
                                     : std::string();
  return error(ErrorKind::InvalidInput,
               "not an ONNX file: truncated, damaged or nested too deeply near "
               "byte " +
                   Twine(coded.CurrentPosition()) + size);
}

llvm::Error Model::checkHeader() {
  if (!model.has_graph())
    return error(ErrorKind::InvalidInput,
                 "not an ONNX model: no graph in the file");
  int64_t version = model.ir_version();
  if (version < 1)
    return error(ErrorKind::InvalidInput,
                 "expected an ir_version of at least 1, found " +
                     Twine(version));
  if (version < kOldestIRVersion || version > kNewestIRVersion)
    return error(ErrorKind::Unsupported,
                 "expected ir_version " + Twine(kOldestIRVersion) + " to " +
                     Twine(kNewestIRVersion) + ", found " + Twine(version));
  for (const auto &import : model.opset_import()) {
    StringRef domain = normalizeDomain(import.domain());
    if (import.version() < 1)
      return error(ErrorKind::InvalidInput,
                   "opset '" + domain + "' has version " +
                       Twine(import.version()) + ", expected at least 1");
    // Tools that add nodes often append a second import of a domain. ONNX's own
    // tools use the last import, so do the same.
    int64_t &version = opsets[domain];
    if (version != 0 && version != import.version())
      log.push_back(
          {/*repair=*/{},
           /*isNote=*/false,
           ("opset '" + (domain.empty() ? StringRef("ai.onnx") : domain) +
            "' is imported twice, as version " + Twine(version) + " and " +
            Twine(import.version()) + "; the last one holds")
               .str()});
    version = import.version();
  }
  return checkOpset(getOpset(""), "");
}

llvm::Error Model::checkOpset(int64_t opset, const Twine &where) const {
  if (opset == 0 || (opset >= kOldestOpset && opset <= kNewestOpset))
    return llvm::Error::success();
  return error(ErrorKind::Unsupported,
               where + "expected opset " + Twine(kOldestOpset) + " to " +
                   Twine(kNewestOpset) + ", found " + Twine(opset));
}

bool Model::isFromUnbiasedProducer() const {
  StringRef producer = model.producer_name();
  return producer == "pytorch" || producer == "keras" ||
         producer == "tf2onnx" || producer == "keras2onnx";
}

void Model::warn(const Twine &message) const {
  mlir::emitWarning(mlir::UnknownLoc::get(context)) << message;
}

void Model::note(const llvm::Twine &message) const {
  mlir::emitRemark(mlir::UnknownLoc::get(context)) << message;
}

int64_t Model::getOpset(StringRef domain) const {
  return opsets.lookup(normalizeDomain(domain));
}

int64_t Model::getOpset(const proto::NodeProto &node) const {
  StringRef domain = normalizeDomain(node.domain());
  if (const Opsets *own = nodeOpsets.lookup(&node))
    if (int64_t version = own->lookup(domain))
      return version;
  return opsets.lookup(domain);
}

llvm::Expected<const Model::Opsets *> Model::addOpsets(
    const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>
        &imports,
    const Twine &what) {
  Opsets read;
  for (const proto::OperatorSetIdProto &import : imports) {
    StringRef domain = normalizeDomain(import.domain());
    if (import.version() < 1)
      return error(ErrorKind::InvalidInput,
                   what + ": opset '" + domain + "' has version " +
                       Twine(import.version()) + ", expected at least 1");
    read[domain] = import.version();
  }
  if (llvm::Error error = checkOpset(read.lookup(""), what + ": "))
    return error;
  return &functionOpsets.emplace_back(std::move(read));
}

void Model::restoreCalls() {
  nodeOpsets.clear();
  for (auto &[graph, nodes] : graphsWithCalls)
    graph->mutable_node()->Swap(&nodes);
  graphsWithCalls.clear();
}
