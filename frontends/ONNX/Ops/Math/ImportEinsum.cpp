// Imports Einsum: an equation such as "bij,bjk->bik" names the axes of every
// operand. Operands are contracted in pairs from the left, by a matrix product
// if axes are summed and an elementwise product otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// Names an axis: a letter of the equation or, for the axes of an ellipsis, a
/// number from kEllipsis on, counted from the last axis.
using Label = int;
using Labels = SmallVector<Label>;
constexpr Label kEllipsis = 256;

/// A value whose axes have distinct labels.
struct EinsumTerm {
  Value value;
  Labels labels;

  ArrayRef<int64_t> getShape() const { return NodeImporter::shapeOf(value); }
  std::optional<int64_t> find(Label label) const {
    auto it = llvm::find(labels, label);
    return it == labels.end() ? std::nullopt
                              : std::optional<int64_t>(it - labels.begin());
  }
  int64_t getExtent(Label label) const { return getShape()[*find(label)]; }
};

class Einsum {
public:
  explicit Einsum(NodeImporter &node) : node(node) {}
  LogicalResult run();

private:
  LogicalResult parse();
  FailureOr<Labels> parseTerm(StringRef text, int64_t ellipsisAxes);
  FailureOr<EinsumTerm> readOperand(unsigned index, StringRef text);
  LogicalResult deduceOutput();
  EinsumTerm takeDiagonals(EinsumTerm term);
  LogicalResult dropBroadcast(EinsumTerm &a, EinsumTerm &b);
  EinsumTerm sumOut(EinsumTerm term, llvm::function_ref<bool(Label)> isKept);
  EinsumTerm arrange(EinsumTerm term, ArrayRef<Label> order);
  EinsumTerm contract(EinsumTerm a, EinsumTerm b,
                      llvm::function_ref<bool(Label)> isKept);
  EinsumTerm multiply(const EinsumTerm &a, const EinsumTerm &b);
  EinsumTerm multiplyMatrices(const EinsumTerm &a, const EinsumTerm &b,
                              ArrayRef<Label> batch, ArrayRef<Label> summed);

  NodeImporter &node;
  std::vector<EinsumTerm> terms;
  Labels output;
  /// The largest number of axes that an operand's ellipsis stands for.
  int64_t ellipsisAxes = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// The equation
//===----------------------------------------------------------------------===//

FailureOr<Labels> Einsum::parseTerm(StringRef text, int64_t axes) {
  Labels labels;
  bool hasEllipsis = false;
  while (!text.empty()) {
    // An ellipsis stands for the axes without letters, counted from the end.
    if (text.consume_front("...")) {
      if (hasEllipsis)
        return node.invalid(
            "expected at most one ellipsis per term of equation '" +
            node.string("equation", "") + "', found two");
      hasEllipsis = true;
      for (int64_t i = axes; i-- > 0;)
        labels.push_back(kEllipsis + i);
      continue;
    }
    if (!llvm::isAlpha(text.front()))
      return node.invalid("expected a letter in equation '" +
                          node.string("equation", "") + "', found '" +
                          text.take_front(1) + "'");
    labels.push_back(text.front());
    text = text.drop_front();
  }
  return labels;
}

FailureOr<EinsumTerm> Einsum::readOperand(unsigned index, StringRef text) {
  Value value = node.operand(index);
  int64_t rank = NodeImporter::shapeOf(value).size();
  // The ellipsis takes the axes that the letters leave.
  int64_t letters = llvm::count_if(text, llvm::isAlpha);
  int64_t axes = text.contains("...") ? rank - letters : 0;
  FailureOr<Labels> labels = parseTerm(text, std::max<int64_t>(axes, 0));
  if (failed(labels))
    return failure();
  if (static_cast<int64_t>(labels->size()) != rank)
    return node.invalid("term '" + text + "' of the equation names " +
                        Twine(labels->size()) + " axes, but input " +
                        Twine(index) + " has rank " + Twine(rank));
  ellipsisAxes = std::max(ellipsisAxes, axes);
  return EinsumTerm{value, *labels};
}

// Without "->", the output has the axes of ellipses, then all letters that
// appear once, sorted.
LogicalResult Einsum::deduceOutput() {
  std::map<Label, int> counts;
  for (const EinsumTerm &term : terms)
    for (Label label : term.labels)
      ++counts[label];
  for (int64_t i = ellipsisAxes; i-- > 0;)
    output.push_back(kEllipsis + i);
  for (auto [label, count] : counts)
    if (label < kEllipsis && count == 1)
      output.push_back(label);
  return success();
}

LogicalResult Einsum::parse() {
  std::string equation = node.string("equation", "");
  llvm::erase(equation, ' ');
  auto [left, right] = StringRef(equation).split("->");
  SmallVector<StringRef> texts;
  left.split(texts, ',');
  if (texts.size() != node.getNumInputs())
    return node.invalid("the equation has " + Twine(texts.size()) +
                        " terms for " + Twine(node.getNumInputs()) + " inputs");
  for (auto [index, text] : llvm::enumerate(texts)) {
    FailureOr<EinsumTerm> term = readOperand(index, text);
    if (failed(term))
      return failure();
    terms.push_back(*term);
  }
  if (!StringRef(equation).contains("->"))
    return deduceOutput();
  FailureOr<Labels> labels = parseTerm(right, ellipsisAxes);
  if (failed(labels))
    return failure();
  output = *labels;
  if (ellipsisAxes > 0 && !right.contains("..."))
    return node.invalid("expected an ellipsis in the result '" + right +
                        "' of the equation, because inputs have one");
  // Each output axis must be an axis of an input, and appear once.
  llvm::SmallDenseSet<Label> seen;
  for (Label label : output) {
    bool isKnown = llvm::any_of(
        terms, [&](const EinsumTerm &term) { return term.find(label); });
    if (!isKnown || !seen.insert(label).second)
      return node.invalid("expected each axis of the result '" + right +
                          "' to be an axis of an input, and to appear once");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

// Turns "ii" into "i": merges the two axes to one of n * n elements and takes
// every (n + 1)th.
EinsumTerm Einsum::takeDiagonals(EinsumTerm term) {
  // Find the first label that appears twice.
  for (size_t first = 0; first < term.labels.size(); ++first) {
    size_t second = first + 1;
    while (second < term.labels.size() &&
           term.labels[second] != term.labels[first])
      ++second;
    if (second == term.labels.size())
      continue;
    SmallVector<int64_t> shape(term.getShape());
    int64_t extent = shape[first];
    if (shape[second] != extent) {
      (void)node.invalid("one label of equation '" +
                         node.string("equation", "") +
                         "' names axes of different sizes, " + Twine(extent) +
                         " and " + Twine(shape[second]));
      return {};
    }
    if (!canList(node, extent))
      return {};
    // Move the second axis beside the first, so that a reshape can merge them.
    auto perm = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    perm.erase(perm.begin() + second);
    perm.insert(perm.begin() + first + 1, second);
    shape.erase(shape.begin() + second);
    shape[first] = extent * extent;
    // For n = 3, the diagonal is at 0, 4 and 8.
    SmallVector<int64_t> places;
    for (int64_t i = 0; i < extent; ++i)
      places.push_back(i * (extent + 1));
    Value joined = node.reshape(transpose(node, term.value, perm), shape);
    term.value = take(node, joined, first, places);
    term.labels.erase(term.labels.begin() + second);
    if (!term.value)
      return {};
    --first; // the label may stand a third time
  }
  return term;
}

// Sums over the labels that `isKept` rejects.
EinsumTerm Einsum::sumOut(EinsumTerm term,
                          llvm::function_ref<bool(Label)> isKept) {
  SmallVector<int64_t> axes;
  Labels kept;
  for (auto [axis, label] : llvm::enumerate(term.labels)) {
    if (isKept(label))
      kept.push_back(label);
    else
      axes.push_back(axis);
  }
  if (axes.empty())
    return term;
  return {reduce<ReduceSumOp>(node, term.value, axes, /*keepDims=*/false),
          kept};
}

// Transposes the term's axes to the labels `order`. A label that the term lacks
// becomes an axis of size 1.
EinsumTerm Einsum::arrange(EinsumTerm term, ArrayRef<Label> order) {
  SmallVector<int64_t> perm, shape;
  for (Label label : order) {
    std::optional<int64_t> axis = term.find(label);
    if (axis)
      perm.push_back(*axis);
    shape.push_back(axis ? term.getShape()[*axis] : 1);
  }
  return {node.reshape(transpose(node, term.value, perm), shape),
          Labels(order)};
}

//===----------------------------------------------------------------------===//
// Two operands
//===----------------------------------------------------------------------===//

// Compares the labels that both terms have. If one term has an axis of size 1
// and the other a longer axis, drops the axis of size 1.
LogicalResult Einsum::dropBroadcast(EinsumTerm &a, EinsumTerm &b) {
  for (Label label : Labels(a.labels)) {
    if (!b.find(label) || a.getExtent(label) == b.getExtent(label))
      continue;
    EinsumTerm &single = a.getExtent(label) == 1 ? a : b;
    if (single.getExtent(label) != 1)
      return node.invalid(
          "one label of equation '" + node.string("equation", "") +
          "' names axes of different sizes, " + Twine(a.getExtent(label)) +
          " and " + Twine(b.getExtent(label)));
    SmallVector<int64_t> shape(single.getShape());
    int64_t axis = *single.find(label);
    shape.erase(shape.begin() + axis);
    single.labels.erase(single.labels.begin() + axis);
    single.value = node.reshape(single.value, shape);
    if (!single.value)
      return failure();
  }
  return success();
}

EinsumTerm Einsum::multiply(const EinsumTerm &a, const EinsumTerm &b) {
  Labels order = a.labels;
  for (Label label : b.labels)
    if (!a.find(label))
      order.push_back(label);
  return {node.emit<MulOp>({arrange(a, order).value, arrange(b, order).value}),
          order};
}

// Multiplies (batch, rows, summed) by (batch, summed, columns).
EinsumTerm Einsum::multiplyMatrices(const EinsumTerm &a, const EinsumTerm &b,
                                    ArrayRef<Label> batch,
                                    ArrayRef<Label> summed) {
  auto isShared = [&](Label label) {
    return llvm::is_contained(batch, label) ||
           llvm::is_contained(summed, label);
  };
  // Labels that only `a` has are rows; labels that only `b` has are columns.
  Labels rows, columns, result(batch);
  llvm::copy_if(a.labels, std::back_inserter(rows),
                [&](Label label) { return !isShared(label); });
  llvm::copy_if(b.labels, std::back_inserter(columns),
                [&](Label label) { return !isShared(label); });
  // Each group of axes is merged into one axis.
  auto matrices = [&](const EinsumTerm &term, ArrayRef<Label> first,
                      ArrayRef<Label> second) {
    Labels order(batch);
    SmallVector<int64_t> shape;
    auto count = [&](ArrayRef<Label> group) {
      shape.push_back(1);
      for (Label label : group)
        shape.back() *= term.getExtent(label);
    };
    if (!batch.empty())
      count(batch);
    count(first);
    count(second);
    llvm::append_range(order, first);
    llvm::append_range(order, second);
    return node.reshape(arrange(term, order).value, shape);
  };
  Value product = node.emit<MatMulOp>(
      {matrices(a, rows, summed), matrices(b, summed, columns)});
  llvm::append_range(result, rows);
  llvm::append_range(result, columns);
  SmallVector<int64_t> shape;
  for (Label label : result)
    shape.push_back(a.find(label) ? a.getExtent(label) : b.getExtent(label));
  return {node.reshape(product, shape), result};
}

EinsumTerm Einsum::contract(EinsumTerm a, EinsumTerm b,
                            llvm::function_ref<bool(Label)> isKept) {
  if (failed(dropBroadcast(a, b)))
    return {};
  a = sumOut(a, [&](Label label) { return isKept(label) || b.find(label); });
  b = sumOut(b, [&](Label label) { return isKept(label) || a.find(label); });
  if (!a.value || !b.value)
    return {};
  Labels batch, summed;
  for (Label label : a.labels)
    if (b.find(label))
      (isKept(label) ? batch : summed).push_back(label);
  size_t shared = batch.size() + summed.size();
  bool areVectors = a.labels.size() == shared && b.labels.size() == shared;
  bool isFloat = isa<FloatType>(NodeImporter::typeOf(a.value).getElementType());
  // MatMulOp takes floats only. So integers are multiplied element by element,
  // then summed.
  if (summed.empty() || areVectors || !isFloat) {
    EinsumTerm product = multiply(a, b);
    return product.value ? sumOut(product, isKept) : EinsumTerm();
  }
  return multiplyMatrices(a, b, batch, summed);
}

LogicalResult Einsum::run() {
  if (failed(parse()))
    return failure();
  for (EinsumTerm &term : terms)
    if (term = takeDiagonals(term); !term.value)
      return failure();
  // Sum over a label as soon as no later operand and no output needs it.
  EinsumTerm result = terms.front();
  for (size_t next = 1; next < terms.size(); ++next) {
    auto isKept = [&](Label label) {
      return llvm::is_contained(output, label) ||
             llvm::any_of(
                 ArrayRef(terms).drop_front(next + 1),
                 [&](const EinsumTerm &term) { return term.find(label); });
    };
    result = contract(result, terms[next], isKept);
    if (!result.value)
      return failure();
  }
  result = sumOut(
      result, [&](Label label) { return llvm::is_contained(output, label); });
  return result.value ? node.define(0, arrange(result, output).value)
                      : failure();
}

static LogicalResult importEinsum(NodeImporter &node) {
  return Einsum(node).run();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getEinsumOps() {
  static const OpEntry entries[] = {
      {"", "Einsum", 12, kNoEnd, 1, kAnyNumber, 1, importEinsum},
  };
  return entries;
}
