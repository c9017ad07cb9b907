// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/AttentionCase.h"

#include "test/runtime/cpu/Reference.h"

namespace mpc::runtime::test {

/// Returns the place of heads. Parts of a joined projection are its third axis.
static HeadLayout layoutOf(const AttentionCase &c, int64_t part, int64_t heads,
                           int64_t tokens, int64_t width) {
  const int64_t all = heads * width;
  if (c.isJoined && part >= 0)
    return {part * all, tokens * 3 * all, width, 3 * all};
  if (c.headsFirst)
    return {0, tokens * all, tokens * width, width};
  return {0, tokens * all, width, all};
}

AttentionShape shapeOf(const AttentionCase &c) {
  AttentionShape shape;
  shape.batch = c.batch;
  shape.heads = c.heads;
  shape.keyHeads = c.keyHeads;
  shape.queries = c.queries;
  shape.keys = c.keys;
  shape.size = c.size;
  shape.columns = c.columns;
  shape.queryAt = shape.dQueryAt = layoutOf(c, 0, c.heads, c.queries, c.size);
  shape.keyAt = shape.dKeyAt = layoutOf(c, 1, c.keyHeads, c.keys, c.size);
  shape.valueAt = shape.dValueAt =
      layoutOf(c, 2, c.keyHeads, c.keys, c.columns);
  shape.outputAt = shape.dOutputAt =
      layoutOf(c, -1, c.heads, c.queries, c.columns);
  if (c.bias.empty())
    return shape;
  std::array<int64_t, 4> strides = {};
  int64_t stride = 1;
  for (size_t axis = 4; axis-- > 0;) {
    strides[axis] = c.bias[axis] == 1 ? 0 : stride;
    stride *= c.bias[axis];
  }
  shape.biasAt = {0, strides[0], strides[1], strides[2], strides[3]};
  return shape;
}

Tensor Attention::operand(int64_t heads, int64_t tokens, int64_t width,
                          unsigned seed) const {
  return randomTensor(c.type, {c.batch, heads, tokens, width}, seed);
}

Attention::Attention(const AttentionCase &c) : c(c), shape(shapeOf(c)) {
  if (c.isJoined) {
    query = key = value =
        randomTensor(c.type, {c.batch, c.queries, 3, c.heads, c.size}, 1);
  } else {
    query = operand(c.heads, c.queries, c.size, 1);
    key = operand(c.keyHeads, c.keys, c.size, 2);
    value = operand(c.keyHeads, c.keys, c.columns, 3);
  }
  dOutput = operand(c.heads, c.queries, c.columns, 4);
  if (!c.bias.empty())
    bias = randomTensor(c.biasType, c.bias, 5);
}

static Json toJSON(const HeadLayout &at) {
  return {{"offset", at.offset},
          {"batch", at.batch},
          {"head", at.head},
          {"token", at.token}};
}

Json Attention::step(const char *kind) const {
  Json step = {{"op", "attention"},
               {"name", "attention1"},
               {"kind", kind},
               {"batch", c.batch},
               {"heads", c.heads},
               {"key_heads", c.keyHeads},
               {"queries", c.queries},
               {"keys", c.keys},
               {"size", c.size},
               {"columns", c.columns},
               {"scale", c.scale},
               {"query_at", toJSON(shape.queryAt)},
               {"key_at", toJSON(shape.keyAt)},
               {"value_at", toJSON(shape.valueAt)},
               {"output_at", toJSON(shape.outputAt)}};
  if (c.causalOffset)
    step["causal_offset"] = *c.causalOffset;
  if (!c.bias.empty())
    step["bias_at"] = {{"batch", shape.biasAt.batch},
                       {"head", shape.biasAt.head},
                       {"query", shape.biasAt.query},
                       {"key", shape.biasAt.key}};
  return step;
}

void Attention::addTo(FunctionBuilder &f, bool hasGradient) const {
  Json forward = step("forward");
  forward["query"] = f.constant(query);
  forward["key"] = c.isJoined ? forward["query"] : Json(f.constant(key));
  forward["value"] = c.isJoined ? forward["query"] : Json(f.constant(value));
  if (!c.bias.empty())
    forward["bias"] = f.constant(bias);
  forward["output"] = f.arena(c.type, dOutput.shape);
  f.output("output", forward["output"].get<size_t>());
  if (hasGradient) {
    forward["statistics"] = f.arena(DType::F32, {c.batch, c.heads, c.queries});
    f.output("statistics", forward["statistics"].get<size_t>());
  }
  f.step(forward);
  if (!hasGradient)
    return;
  Json gradient = step("gradient");
  for (const char *name :
       {"query", "key", "value", "bias", "output", "statistics"})
    if (forward.contains(name))
      gradient[name] = forward[name];
  gradient["d_output"] = f.constant(dOutput);
  gradient["d_output_at"] = toJSON(shape.dOutputAt);
  gradient["d_query"] = f.arena(c.type, query.shape);
  gradient["d_key"] =
      c.isJoined ? gradient["d_query"] : Json(f.arena(c.type, key.shape));
  gradient["d_value"] =
      c.isJoined ? gradient["d_query"] : Json(f.arena(c.type, value.shape));
  gradient["d_query_at"] = toJSON(shape.dQueryAt);
  gradient["d_key_at"] = toJSON(shape.dKeyAt);
  gradient["d_value_at"] = toJSON(shape.dValueAt);
  f.step(gradient);
  for (const char *name : {"d_query", "d_key", "d_value"})
    f.output(name, gradient[name].get<size_t>());
}

std::vector<double> Attention::gather(const Tensor &tensor,
                                      AttentionOperand operand) const {
  const std::vector<double> memory = toDoubles(tensor);
  const StridedBlock block = blockOf(shape, operand);
  const auto &a = block.axes;
  std::vector<double> elements;
  for (int64_t i = 0; i < a[0].extent; ++i)
    for (int64_t j = 0; j < a[1].extent; ++j)
      for (int64_t k = 0; k < a[2].extent; ++k)
        for (int64_t l = 0; l < a[3].extent; ++l)
          elements.push_back(memory[static_cast<size_t>(
              block.offset + i * a[0].stride + j * a[1].stride +
              k * a[2].stride + l * a[3].stride)]);
  return elements;
}

namespace {
/// Rows of one operand, in the order of AttentionValues.
struct Rows {
  double *data;
  int64_t heads, tokens, width;

  double *at(int64_t batch, int64_t head, int64_t token) const {
    return data + ((batch * heads + head) * tokens + token) * width;
  }
};
} // namespace

static double dot(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += a[i] * b[i];
  return sum;
}

static void addScaled(double *sum, const double *a, double factor,
                      int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    sum[i] += factor * a[i];
}

AttentionValues Attention::reference() const {
  AttentionValues v;
  v.query = gather(query, AttentionOperand::Query);
  v.key = gather(key, AttentionOperand::Key);
  v.value = gather(value, AttentionOperand::Value);
  v.dOutput = gather(dOutput, AttentionOperand::DOutput);
  if (!c.bias.empty())
    v.bias = gather(bias, AttentionOperand::Bias);
  v.output.resize(v.dOutput.size());
  v.dQuery.resize(v.query.size());
  v.dKey.resize(v.key.size());
  v.dValue.resize(v.value.size());
  auto rows = [](std::vector<double> &data, int64_t heads, int64_t tokens,
                 int64_t width) {
    return Rows{data.data(), heads, tokens, width};
  };
  const Rows q = rows(v.query, c.heads, c.queries, c.size);
  const Rows k = rows(v.key, c.keyHeads, c.keys, c.size);
  const Rows w = rows(v.value, c.keyHeads, c.keys, c.columns);
  const Rows o = rows(v.output, c.heads, c.queries, c.columns);
  const Rows dO = rows(v.dOutput, c.heads, c.queries, c.columns);
  const Rows dQ = rows(v.dQuery, c.heads, c.queries, c.size);
  const Rows dK = rows(v.dKey, c.keyHeads, c.keys, c.size);
  const Rows dV = rows(v.dValue, c.keyHeads, c.keys, c.columns);
  const int64_t group = c.heads / c.keyHeads;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        const int64_t kh = h / group;
        const int64_t seen =
            c.causalOffset ? std::min(c.keys, i + *c.causalOffset + 1) : c.keys;
        std::vector<double> p(static_cast<size_t>(seen));
        double sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double score = c.scale * dot(q.at(b, h, i), k.at(b, kh, j), c.size);
          if (!v.bias.empty())
            score += v.bias[static_cast<size_t>(
                ((b * c.heads + h) * c.queries + i) * c.keys + j)];
          // Scores of the tests are small, so no maximum is subtracted.
          sum += p[static_cast<size_t>(j)] = std::exp(score);
        }
        v.statistics.push_back(std::log(sum));
        for (int64_t j = 0; j < seen; ++j) {
          p[static_cast<size_t>(j)] /= sum;
          addScaled(o.at(b, h, i), w.at(b, kh, j), p[static_cast<size_t>(j)],
                    c.columns);
        }
        const double dots = dot(dO.at(b, h, i), o.at(b, h, i), c.columns);
        for (int64_t j = 0; j < seen; ++j) {
          const double probability = p[static_cast<size_t>(j)];
          addScaled(dV.at(b, kh, j), dO.at(b, h, i), probability, c.columns);
          const double ds =
              c.scale * probability *
              (dot(dO.at(b, h, i), w.at(b, kh, j), c.columns) - dots);
          addScaled(dQ.at(b, h, i), k.at(b, kh, j), ds, c.size);
          addScaled(dK.at(b, kh, j), q.at(b, h, i), ds, c.size);
        }
      }
  return v;
}

} // namespace mpc::runtime::test
