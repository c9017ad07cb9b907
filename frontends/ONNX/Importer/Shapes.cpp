// Binds dynamic dimensions of graph inputs to the extents that the options
// give.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Shapes.h"

#include "compiler/Support/NearestNames.h"
#include "frontends/ONNX/Model/Limits.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;
using Dimension = proto::TensorShapeProto::Dimension;

// Old exporters write -1 for an unknown dimension.
static bool isDynamic(const Dimension &dim) {
  return !dim.has_dim_value() || dim.dim_value() == -1;
}

// The symbol of a dimension, such as "N"; empty if none. Exporters write "?",
// "-1" and "None" for any unknown dimension. These are no symbols: two
// dimensions called "?" need not be equal.
static StringRef findSymbol(const Dimension &dim) {
  StringRef name = dim.dim_param();
  const bool isUnknown = name == "?" || name == "-1" || name == "None";
  return isUnknown ? StringRef() : name;
}

// Returns a value of --shape that binds the open dimension `dim` of `input`: by
// the symbol, as in "N=SIZE", or else by the input, as in "x=SIZEx3".
static std::string suggestShape(const proto::ValueInfoProto &input,
                                const Dimension &dim) {
  if (StringRef symbol = findSymbol(dim); !symbol.empty())
    return symbol.str() + "=SIZE";
  std::string text;
  for (const Dimension &other : input.type().tensor_type().shape().dim())
    text += (text.empty() ? "" : "x") +
            (isDynamic(other) ? "SIZE" : std::to_string(other.dim_value()));
  return input.name() + "=" + text;
}

// The name by which --shape binds a dynamic dimension: its symbol, "N", or its
// position, "x[0]".
static std::string getSymbol(const proto::ValueInfoProto &input, int index) {
  const Dimension &dim = input.type().tensor_type().shape().dim(index);
  if (StringRef symbol = findSymbol(dim); !symbol.empty())
    return symbol.str();
  return input.name() + "[" + std::to_string(index) + "]";
}

Error ShapeBinder::bind(StringRef symbol, int64_t extent, StringRef input) {
  auto [entry, isNew] = symbols.try_emplace(symbol, extent);
  if (isNew || entry->second == extent)
    return Error::success();
  return model.error(ErrorKind::Usage, "dimension '" + symbol + "' of input '" +
                                           input + "' is bound twice, to " +
                                           Twine(entry->second) + " and " +
                                           Twine(extent));
}

int ShapeBinder::getBatchAxis(const proto::ValueInfoProto &input) const {
  int rank = input.type().tensor_type().shape().dim_size();
  auto given = options.batchAxes.find(input.name());
  int64_t axis = given == options.batchAxes.end() ? 0 : given->second;
  return axis < rank ? axis : kNoBatchAxis;
}

Error ShapeBinder::collectShape(const proto::ValueInfoProto &input,
                                ArrayRef<int64_t> shape) {
  const auto &tensor = input.type().tensor_type();
  if (!tensor.has_shape())
    return Error::success(); // any shape goes
  const auto &dims = tensor.shape().dim();
  if (static_cast<size_t>(dims.size()) != shape.size())
    return model.error(ErrorKind::Usage,
                       "the shape given for input '" + input.name() + "' has " +
                           Twine(shape.size()) + " dimensions, expected " +
                           Twine(dims.size()));
  for (int i = 0; i < dims.size(); ++i) {
    // A static dimension must keep its extent, unless it is the batch of an
    // import for another batch size.
    if (!isDynamic(dims[i])) {
      bool isBatch = getBatchAxis(input) == i && isRebatched(input);
      if ((isBatch ? rebatch->getWanted() : dims[i].dim_value()) != shape[i])
        return model.error(
            ErrorKind::Usage,
            "dimension " + Twine(i) + " of input '" + input.name() + "' is " +
                Twine(dims[i].dim_value()) + " in the model, not " +
                Twine(shape[i]) +
                (i == getBatchAxis(input) ? "; for another batch, use "
                                            "--batch-size " +
                                                std::to_string(shape[i])
                                          : std::string()));
      continue;
    }
    // A symbol such as `batch` or `tokens` has one extent wherever it appears.
    if (Error error = bind(getSymbol(input, i), shape[i], input.name()))
      return error;
  }
  return Error::success();
}

Error ShapeBinder::collectBatch(
    ArrayRef<const proto::ValueInfoProto *> inputs) {
  int64_t batch = *options.batchSize;
  std::optional<int64_t> exported = findExportedBatch(inputs);
  if (rebatch || !exported)
    return bindBatch(inputs, batch);
  std::string way =
      batch % *exported == 0 ? " " + std::to_string(batch / *exported) : "";
  return model.error(ErrorKind::Usage,
                     "a batch size of " + Twine(batch) +
                         " does not fit: the model was exported for one of " +
                         Twine(*exported) +
                         "; export it with a dynamic batch dimension "
                         "(dynamic_shapes of torch.onnx.export), or use "
                         "--accumulate-grad-batches" +
                         way);
}

std::optional<int64_t> ShapeBinder::findExportedBatch(
    ArrayRef<const proto::ValueInfoProto *> inputs) const {
  std::optional<int64_t> found;
  for (const proto::ValueInfoProto *input : inputs) {
    int axis = getBatchAxis(*input);
    if (axis == kNoBatchAxis)
      continue;
    const Dimension &dim = input->type().tensor_type().shape().dim(axis);
    if (isDynamic(dim) || dim.dim_value() == options.batchSize)
      return std::nullopt;
    if (!found && dim.dim_value() > 0)
      found = dim.dim_value();
  }
  return options.batchSize ? found : std::nullopt;
}

bool ShapeBinder::isRebatched(const proto::ValueInfoProto &input) const {
  int axis = getBatchAxis(input);
  return rebatch && !rebatch->isRecording() && axis != kNoBatchAxis &&
         input.type().tensor_type().shape().dim(axis).dim_value() ==
             rebatch->getExported();
}

Error ShapeBinder::bindBatch(ArrayRef<const proto::ValueInfoProto *> inputs,
                             int64_t batch) {
  const proto::ValueInfoProto *against = nullptr;
  bool isUsed = false;
  for (const proto::ValueInfoProto *input : inputs) {
    int axis = getBatchAxis(*input);
    if (axis == kNoBatchAxis ||
        !isDynamic(input->type().tensor_type().shape().dim(axis)))
      continue;
    // If --shape gives the shape of an input, it overrides --batch-size for the
    // input.
    auto given = options.shapes.find(input->name());
    if (given == options.shapes.end()) {
      isUsed = true;
      if (Error error = bind(getSymbol(*input, axis), batch, input->name()))
        return error;
    } else if (axis < int(given->second.size()) &&
               given->second[axis] != batch) {
      against = input;
    }
  }
  if (isUsed || !against)
    return Error::success();
  return model.error(ErrorKind::Usage,
                     "--batch-size " + Twine(batch) +
                         " has no effect: the shape given for input '" +
                         against->name() + "' has another batch");
}

// Checks that each name in --shape is an input or a symbolic dimension, and
// binds the symbolic dimensions.
Error ShapeBinder::checkNames(ArrayRef<const proto::ValueInfoProto *> inputs) {
  // `all` lists every name that --shape accepts.
  llvm::StringSet<> names, dims;
  std::vector<std::string> all;
  for (const proto::ValueInfoProto *input : inputs) {
    names.insert(input->name());
    all.push_back(input->name());
    for (const Dimension &dim : input->type().tensor_type().shape().dim())
      if (StringRef symbol = findSymbol(dim); !symbol.empty()) {
        dims.insert(symbol);
        all.push_back(symbol.str());
      }
  }
  for (const auto &[name, shape] : options.shapes) {
    if (names.contains(name))
      continue;
    if (!dims.contains(name))
      return model.error(ErrorKind::Usage,
                         "a shape is given for '" + name +
                             "', which is no input and no dimension; there "
                             "are " +
                             listNearestNames(name, all));
    if (shape.size() != 1)
      return model.error(ErrorKind::Usage,
                         "expected one number for dimension '" + name +
                             "', found " + printShape(shape));
    if (Error error = bind(name, shape[0], name))
      return error;
  }
  return Error::success();
}

static std::string listInputs(ArrayRef<const proto::ValueInfoProto *> inputs,
                              StringRef wanted) {
  std::vector<std::string> names;
  for (const proto::ValueInfoProto *input : inputs)
    names.push_back(input->name());
  return listNearestNames(wanted, names);
}

// Checks that each --batch-axis option names an input and one of its axes.
Error ShapeBinder::checkBatchAxes(
    ArrayRef<const proto::ValueInfoProto *> inputs) {
  for (const auto &entry : options.batchAxes) {
    const std::string &name = entry.first;
    int64_t axis = entry.second;
    const auto *found =
        llvm::find_if(inputs, [&](const proto::ValueInfoProto *input) {
          return input->name() == name;
        });
    // Accept "no batch axis" for inputs of the file that hold state, such as
    // gradient buffers: they have no samples.
    const bool isState = llvm::any_of(model.getProto().graph().input(),
                                      [&](const proto::ValueInfoProto &input) {
                                        return input.name() == name;
                                      });
    if (found == inputs.end() && isState && axis < 0)
      continue;
    if (found == inputs.end())
      return model.error(ErrorKind::Usage, "--batch-axis: there is no input '" +
                                               name + "', but " +
                                               listInputs(inputs, name));
    // An input without a shape gets it later, from --shape.
    const proto::ValueInfoProto &input = **found;
    bool isKnown = input.type().tensor_type().has_shape();
    if (isKnown && axis >= input.type().tensor_type().shape().dim_size())
      return model.error(ErrorKind::Usage, "--batch-axis: input '" + name +
                                               "' has no axis " + Twine(axis) +
                                               ", it is " +
                                               printType(model, input.type()));
  }
  return Error::success();
}

Error ShapeBinder::collect(ArrayRef<const proto::ValueInfoProto *> inputs) {
  // Each check covers another flag, so report all errors at once.
  Error errors = llvm::joinErrors(checkNames(inputs), checkBatchAxes(inputs));
  for (const proto::ValueInfoProto *input : inputs)
    if (auto it = options.shapes.find(input->name());
        it != options.shapes.end())
      errors =
          llvm::joinErrors(std::move(errors), collectShape(*input, it->second));
  if (options.batchSize)
    errors = llvm::joinErrors(std::move(errors), collectBatch(inputs));
  return errors;
}

Expected<RankedTensorType>
ShapeBinder::getType(const proto::ValueInfoProto &input) const {
  std::string what = "input '" + input.name() + "'";
  if (!input.type().has_tensor_type())
    return model.error(ErrorKind::Unsupported,
                       what + ": expected a tensor, found " +
                           printType(model, input.type()));
  const auto &tensor = input.type().tensor_type();
  Expected<Type> element = model.getElementType(tensor.elem_type(), what);
  if (!element)
    return element.takeError();
  if (tensor.shape().dim_size() > kMostDimensions)
    return model.error(ErrorKind::Unsupported,
                       what + ": expected at most " + Twine(kMostDimensions) +
                           " dimensions, found " +
                           Twine(tensor.shape().dim_size()));
  SmallVector<int64_t> shape;
  auto given = options.shapes.find(input.name());
  if (!tensor.has_shape()) {
    if (given == options.shapes.end())
      return model.error(ErrorKind::Unsupported,
                         what + " has no shape; give it with --shape " +
                             input.name() + "=...");
    shape.assign(given->second.begin(), given->second.end());
  }
  // A dynamic dimension has the extent bound to its symbol. A static dimension
  // has the file's extent, except the batch of an import for another batch
  // size.
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const Dimension &dim = tensor.shape().dim(i);
    if (!isDynamic(dim)) {
      bool isBatch = getBatchAxis(input) == i && isRebatched(input);
      shape.push_back(isBatch ? rebatch->getWanted() : dim.dim_value());
      continue;
    }
    auto bound = symbols.find(getSymbol(input, i));
    if (bound == symbols.end())
      return model.error(
          ErrorKind::InvalidInput,
          what + ": dimension " + Twine(i) +
              (findSymbol(dim).empty() ? ""
                                       : " ('" + findSymbol(dim).str() + "')") +
              " is dynamic; bind it with " +
              (i == getBatchAxis(input) ? "--batch-size or " : "") +
              "--shape " + suggestShape(input, dim) + ", model has " +
              printType(model, input.type()));
    shape.push_back(bound->second);
  }
  // Refuse a hostile or mistyped extent here, because later code multiplies
  // extents.
  constexpr int64_t kMostBytes = int64_t(1) << 46;
  if (llvm::any_of(shape, [](int64_t extent) { return extent < 0; }))
    return model.error(ErrorKind::InvalidInput,
                       what + ": expected extents of at least 0, found " +
                           printShape(shape));
  auto bytes = getCheckedBytes(shape, *element);
  if (!bytes || *bytes > kMostBytes)
    return model.error(ErrorKind::Unsupported,
                       what + ": a tensor of type " +
                           printType(model, input.type()) +
                           " does not fit into memory");
  return RankedTensorType::get(shape, *element);
}

/// Prints the name of a dimension. Quotes a name that a reader could take for a
/// number or for several names, such as 'a,b', and doubles quotes inside.
static std::string printSymbol(StringRef name) {
  int64_t number;
  if (name.empty())
    return "?";
  if (name != "?" && name != "..." && name.getAsInteger(10, number) &&
      name.find_first_of(",[]'") == StringRef::npos)
    return name.str();
  std::string quoted = "'";
  for (char letter : name)
    quoted += letter == '\'' ? "''" : std::string(1, letter);
  return quoted + "'";
}

std::string mpc::onnx_frontend::printType(const Model &model,
                                          const proto::TypeProto &type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (type.has_sequence_type())
    return "a sequence";
  if (!type.has_tensor_type())
    return "no tensor";
  const auto &tensor = type.tensor_type();
  Expected<Type> element = model.getElementType(tensor.elem_type(), "");
  // Messages write u8 for the type that the IR writes as ui8.
  if (element && element->isUnsignedInteger())
    os << 'u' << element->getIntOrFloatBitWidth();
  else if (element)
    os << *element;
  else
    os << "type" << tensor.elem_type();
  llvm::consumeError(element.takeError());
  // Print the shape as in the file, with "?" for a dimension without a name:
  // [N,3,?,224].
  if (!tensor.has_shape())
    return text + "[...]";
  os << '[';
  llvm::interleave(
      tensor.shape().dim(), os,
      [&](const Dimension &dim) {
        if (isDynamic(dim))
          os << printSymbol(findSymbol(dim));
        else
          os << dim.dim_value();
      },
      ",");
  os << ']';
  return text;
}
