// Assembles artifacts byte by byte.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/ArtifactBuilder.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/ELFFile.h"
#include "runtime/cpu/CPUFeatures.h"

#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <gtest/gtest.h>
#include <xxhash.h>

namespace mpc::runtime::test {

Bytes kernelLibrary() {
  std::ifstream file(MPC_TEST_KERNELS, std::ios::binary);
  std::vector<char> contents((std::istreambuf_iterator<char>(file)), {});
  Bytes bytes(contents.size());
  std::memcpy(bytes.data(), contents.data(), contents.size());
  return bytes;
}

Bytes emptyLibrary() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(header);
  header.e_shentsize = sizeof(Elf64_Shdr);
  Bytes bytes(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

static size_t appendAligned(Bytes &file, const void *bytes, size_t size) {
  file.resize((file.size() + 63) & ~size_t(63));
  size_t offset = file.size();
  const auto *begin = static_cast<const std::byte *>(bytes);
  file.insert(file.end(), begin, begin + size);
  return offset;
}

Bytes appendSections(Bytes file, const std::string &plan, const Bytes &data,
                     const std::string &ptx, const std::string &cubin) {
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof(header));

  // Reads the old section table and names, which are rewritten at the end.
  std::vector<Elf64_Shdr> table(header.e_shnum);
  std::string names(1, '\0');
  if (header.e_shnum > 0) {
    std::memcpy(table.data(), file.data() + header.e_shoff,
                table.size() * sizeof(Elf64_Shdr));
    const Elf64_Shdr &old = table[header.e_shstrndx];
    names.assign(reinterpret_cast<const char *>(file.data()) + old.sh_offset,
                 old.sh_size);
  } else {
    table.push_back({});
  }

  const uint64_t noDigest = 0;
  auto add = [&](const char *name, uint32_t type, const void *bytes,
                 size_t size) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<uint32_t>(names.size());
    names += std::string(name) + '\0';
    section.sh_type = type;
    section.sh_offset = appendAligned(file, bytes, size);
    section.sh_size = size;
    section.sh_addralign = 64;
    table.push_back(section);
  };
  add(format::kPlanSection, SHT_PROGBITS, plan.data(), plan.size());
  add(format::kDataSection, SHT_PROGBITS, data.data(), data.size());
  if (!ptx.empty()) // with the final zero byte
    add(format::kPTXSection, SHT_PROGBITS, ptx.c_str(), ptx.size() + 1);
  if (!cubin.empty())
    add(format::kCubinSection, SHT_PROGBITS, cubin.data(), cubin.size());
  add(format::kDigestSection, SHT_PROGBITS, &noDigest, sizeof(noDigest));
  std::string finalNames = names + ".mpc.names" + '\0';
  add(".mpc.names", SHT_STRTAB, finalNames.data(), finalNames.size());

  header.e_shoff =
      appendAligned(file, table.data(), table.size() * sizeof(Elf64_Shdr));
  header.e_shnum = static_cast<uint16_t>(table.size());
  header.e_shstrndx = static_cast<uint16_t>(table.size() - 1);
  std::memcpy(file.data(), &header, sizeof(header));
  setDigest(file);
  return file;
}

void setDigest(Bytes &artifact) {
  auto sections = readELFSections(artifact.data(), artifact.size());
  ASSERT_TRUE(sections.ok()) << sections.status().message();
  for (const ELFSection &section : *sections) {
    if (section.name != format::kDigestSection)
      continue;
    std::memset(artifact.data() + section.offset, 0, section.bytes);
    uint64_t digest = XXH3_64bits(artifact.data(), artifact.size());
    std::memcpy(artifact.data() + section.offset, &digest, sizeof(digest));
  }
}

template <typename T>
static Tensor makeTensor(DType type, Shape shape,
                         const std::vector<T> &values) {
  Tensor tensor = Tensor::zeros(type, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(tensor.size()), values.size());
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

Tensor floats(Shape shape, const std::vector<float> &values) {
  return makeTensor(DType::F32, std::move(shape), values);
}

Tensor integers(Shape shape, const std::vector<int64_t> &values) {
  return makeTensor(DType::I64, std::move(shape), values);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

size_t FunctionBuilder::buffer(const char *space, DType type,
                               const Shape &shape, const char *key,
                               int64_t value) {
  json["buffers"].push_back({{"space", space},
                             {"type", nameOf(type)},
                             {"shape", shape},
                             {key, value}});
  return json["buffers"].size() - 1;
}

size_t FunctionBuilder::arena(DType type, const Shape &shape) {
  int64_t offset = json["arena_bytes"];
  int64_t bytes = numElements(shape) * sizeOf(type);
  json["arena_bytes"] = (offset + bytes + 63) / 64 * 64;
  return buffer("arena", type, shape, "offset", offset);
}

size_t FunctionBuilder::input(const std::string &name, DType type,
                              const Shape &shape) {
  auto index = static_cast<int64_t>(json["inputs"].size());
  size_t result = buffer("input", type, shape, "index", index);
  json["inputs"].push_back(
      {{"name", name}, {"role", "data"}, {"buffer", result}});
  return result;
}

size_t FunctionBuilder::state(const std::string &name) {
  const Json &list = artifact.plan["state"];
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i]["name"] == name)
      return buffer("state", *parseDType(list[i]["type"].get<std::string>()),
                    list[i]["shape"].get<Shape>(), "index",
                    static_cast<int64_t>(i));
  ADD_FAILURE() << "no state " << name;
  return 0;
}

size_t FunctionBuilder::constant(const Tensor &value) {
  return buffer("constant", value.type, value.shape, "offset",
                artifact.addData(value));
}

size_t FunctionBuilder::part(size_t buffer, const Shape &shape,
                             int64_t offset) {
  Json part = json["buffers"][buffer];
  part["shape"] = shape;
  part["offset"] = part.value("offset", int64_t(0)) + offset;
  json["buffers"].push_back(part);
  return json["buffers"].size() - 1;
}

void FunctionBuilder::output(const std::string &name, size_t buffer) {
  json["outputs"].push_back(
      {{"name", name}, {"role", "output"}, {"buffer", buffer}});
}

void FunctionBuilder::step(Json step) {
  if (!step.contains("name"))
    step["name"] = step["op"];
  json["steps"].push_back(std::move(step));
}

void FunctionBuilder::launch(const std::string &kernel,
                             std::vector<size_t> args, int64_t extent,
                             int64_t grain, int64_t scratchBytes) {
  Json launch = {{"op", "launch"},
                 {"kernel", kernel},
                 {"args", args},
                 {"extent", extent},
                 {"grain", grain}};
  if (scratchBytes > 0)
    launch["scratch_bytes"] = scratchBytes;
  step(launch);
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

std::vector<std::string> testFeatures() {
  std::vector<const char *> wanted = {"avx2", "fma", "f16c"};
  const char *target = std::getenv("MPC_TEST_TARGET");
  if (!target || std::string_view(target) != "x86-64-v3")
    wanted.insert(wanted.end(), {"avx512f", "avx512bw", "avx512vl", "avx512dq",
                                 "avx512bf16", "amx-tile", "amx-bf16"});
  std::vector<std::string> features;
  for (const char *name : wanted)
    if (hostHasFeature(name))
      features.push_back(name);
  return features;
}

static Json testTarget() {
  return {{"triple", "x86_64-unknown-linux-gnu"},
          {"cpu", "test"},
          {"features", testFeatures()}};
}

ArtifactBuilder::ArtifactBuilder() {
  plan = {{"format", format::kVersion},
          {"producer", "test"},
          {"model", {{"name", "m"}, {"hash", "0"}, {"opset", 17}}},
          {"precision", "32-true"},
          {"recipe", Json::object()},
          {"target", testTarget()},
          {"state", Json::array()},
          {"functions", Json::object()}};
}

int64_t ArtifactBuilder::addData(const Tensor &value) {
  return static_cast<int64_t>(
      appendAligned(data, value.bytes.data(), value.bytes.size()));
}

void ArtifactBuilder::state(const std::string &name, const Tensor &initial,
                            const std::string &role) {
  int64_t offset = addData(initial);
  plan["state"].push_back(
      {{"name", name},
       {"role", role},
       {"type", nameOf(initial.type)},
       {"shape", initial.shape},
       {"init", {{"offset", offset}, {"bytes", initial.bytes.size()}}}});
}

void ArtifactBuilder::filledState(const std::string &name, DType type,
                                  const Shape &shape, double fill,
                                  const std::string &role) {
  plan["state"].push_back({{"name", name},
                           {"role", role},
                           {"type", nameOf(type)},
                           {"shape", shape},
                           {"init", {{"fill", fill}}}});
}

FunctionBuilder ArtifactBuilder::function(const std::string &name) {
  Json &json = plan["functions"][name];
  json = {{"arena_bytes", 0},
          {"inputs", Json::array()},
          {"outputs", Json::array()},
          {"buffers", Json::array()},
          {"steps", Json::array()}};
  return FunctionBuilder(*this, json);
}

void ArtifactBuilder::forGPU(const std::string &cpu, const std::string &code) {
  plan["target"] = {
      {"triple", "nvptx64-nvidia-cuda"}, {"cpu", cpu}, {"features", {"ptx80"}}};
  ptx = code;
}

Bytes ArtifactBuilder::build() const {
  ArtifactBuilder whole = *this;
  if (!plan.contains("kernels"))
    whole.describeKernels();
  return appendSections(ptx.empty() ? kernelLibrary() : emptyLibrary(),
                        whole.plan.dump(), data, ptx, cubin);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// Describes `kernel` as a launch or an epilogue, as `call` says.
void ArtifactBuilder::describeKernel(
    const Json &function, const Json &call,
    const std::map<std::string, size_t> &writes, Json kernel) {
  const std::string name = call["kernel"];
  const auto args = call["args"].get<std::vector<size_t>>();
  auto written = writes.find(name);
  const size_t reads =
      args.size() - (written == writes.end() ? 0 : written->second);
  kernel["reads"] = kernel["writes"] = Json::array();
  for (size_t i = 0; i < args.size(); ++i) {
    const Json &buffer = function["buffers"][args[i]];
    kernel[i < reads ? "reads" : "writes"].push_back(
        {{"type", buffer["type"]}, {"shape", buffer["shape"]}});
  }
  Json &known = plan["kernels"][name];
  EXPECT_TRUE(known.is_null() || known == kernel)
      << name << " is called with different arguments";
  known = kernel;
}

/// The rows and columns of the tiles that a contraction passes to its epilogue.
static Json describeTiles(const Json &step) {
  if (step["op"] == "matmul") {
    int64_t rows = step["batch"].get<int64_t>() * step["m"].get<int64_t>();
    if (step.contains("outer"))
      rows *= numElements(step["outer"]["extents"].get<Shape>());
    return {{"rows", rows}, {"columns", step["n"]}};
  }
  const bool isForward = step["kind"] == "forward";
  const auto pixels =
      step[isForward ? "out_spatial" : "in_spatial"].get<Shape>();
  return {{"rows", step["batch"].get<int64_t>() * numElements(pixels)},
          {"columns", step[isForward ? "out_channels" : "in_channels"]}};
}

void ArtifactBuilder::describeSteps(
    const Json &function, const Json &steps,
    const std::map<std::string, size_t> &writes) {
  for (const Json &step : steps) {
    // Steps that this step contains.
    for (const char *list : {"steps", "then", "else"})
      if (step.contains(list))
        describeSteps(function, step[list], writes);
    if (step.contains("fused") && step["fused"].contains("unfused"))
      describeSteps(function, step["fused"]["unfused"], writes);
    // Kernels that this step calls.
    if (step["op"] == "launch") {
      Json kernel;
      for (const char *key :
           {"extent", "grain", "threads", "shared_bytes", "scratch_bytes"})
        if (step.contains(key))
          kernel[key] = step[key];
      describeKernel(function, step, writes, kernel);
    } else if (step.contains("epilogue") && !step["epilogue"].is_null()) {
      describeKernel(function, step["epilogue"], writes, describeTiles(step));
    }
  }
}

void ArtifactBuilder::describeKernels(
    const std::map<std::string, size_t> &writes) {
  plan["kernels"] = Json::object();
  for (const auto &[name, function] : plan["functions"].items())
    describeSteps(function, function["steps"], writes);
}

std::shared_ptr<const Artifact> ArtifactBuilder::open() const {
  Bytes bytes = build();
  auto artifact = Artifact::fromBytes(bytes.data(), bytes.size());
  EXPECT_TRUE(artifact.ok()) << artifact.status().message();
  return artifact.ok() ? *artifact : nullptr;
}

//===----------------------------------------------------------------------===//
// Sessions
//===----------------------------------------------------------------------===//

std::unique_ptr<Session> makeSession(const ArtifactBuilder &builder,
                                     int threads) {
  SessionOptions options;
  options.threads = threads;
  auto session = Session::create(builder.open(), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(*session) : nullptr;
}

} // namespace mpc::runtime::test
