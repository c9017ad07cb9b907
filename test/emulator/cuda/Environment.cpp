// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Environment.h"

#include <climits>
#include <cstdlib>

using namespace mpc::emulator;

[[noreturn]] static void refuse(const char *variable, const std::string &text) {
  std::fprintf(stderr, "mpc emulator: %s: cannot understand '%s'\n", variable,
               text.c_str());
  std::_Exit(70);
}

static std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ',' || c == ';')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

static const char *variable(const char *name) {
  const char *text = std::getenv(name);
  return text && *text ? text : nullptr;
}

unsigned DeviceProperties::ptxVersion() const {
  unsigned release = static_cast<unsigned>(driverVersion / 1000);
  unsigned update = static_cast<unsigned>(driverVersion % 1000 / 10);
  if (release >= 13)
    return 90 + update;
  if (release == 12) // 12.5 and 12.6 read 8.5, and 12.7 does not exist
    return 80 + (update >= 6 ? update - 1 : update);
  return 70 + update;
}

Environment::Environment() {
  if (const char *text = variable("MPC_EMULATOR_DEVICE"))
    parseDevice(text);
  if (const char *text = variable("MPC_EMULATOR_FAULT"))
    parseFaults(text);
  if (const char *path = variable("MPC_EMULATOR_LOG")) {
    file = std::fopen(path, "a");
    if (!file)
      refuse("MPC_EMULATOR_LOG", path);
    std::setvbuf(file, nullptr, _IOLBF, 0);
  }
}

void Environment::parseDevice(const std::string &text) {
  if (text == "none") {
    device.exists = false;
    return;
  }
  for (const std::string &part : split(text)) {
    unsigned long long number = 0;
    char unit = 'B', rest = 0;
    if (std::sscanf(part.c_str(), "sm_%llu%c", &number, &rest) == 1) {
      device.major = static_cast<int>(number / 10);
      device.minor = static_cast<int>(number % 10);
      if (device.major >= 9)
        device.multiprocessors = 132;
    } else if (int found = std::sscanf(part.c_str(), "memory=%llu%c%c", &number,
                                       &unit, &rest);
               found == 1 || found == 2) {
      int shift = unit == 'G'   ? 30
                  : unit == 'M' ? 20
                  : unit == 'K' ? 10
                  : unit == 'B' ? 0
                                : -1;
      if (shift < 0)
        refuse("MPC_EMULATOR_DEVICE", part);
      device.memory = number << shift;
    } else if (std::sscanf(part.c_str(), "driver=%llu%c", &number, &rest) ==
               1) {
      device.driverVersion = static_cast<int>(number);
    } else if (std::sscanf(part.c_str(), "multiprocessors=%llu%c", &number,
                           &rest) == 1) {
      device.multiprocessors = static_cast<int>(number);
    } else if (std::sscanf(part.c_str(), "count=%llu%c", &number, &rest) == 1 &&
               number > 0 && number < 17) {
      device.count = static_cast<int>(number);
    } else {
      refuse("MPC_EMULATOR_DEVICE", part);
    }
  }
}

void Environment::parseFaults(const std::string &text) {
  for (const std::string &part : split(text)) {
    Fault fault;
    fault.last = UINT_MAX;
    size_t equals = part.find('=');
    if (equals == part.npos || equals == 0)
      refuse("MPC_EMULATOR_FAULT", part);
    char rest = 0;
    if (std::sscanf(part.c_str() + equals + 1, "%d%c", &fault.code, &rest) != 1)
      refuse("MPC_EMULATOR_FAULT", part);
    fault.function = part.substr(0, equals);
    size_t colon = fault.function.find(':');
    if (colon != part.npos) {
      char plus = 0;
      int found = std::sscanf(fault.function.c_str() + colon + 1, "%u%c%c",
                              &fault.first, &plus, &rest);
      if ((found == 2 && plus != '+') || found < 1 || found > 2)
        refuse("MPC_EMULATOR_FAULT", part);
      if (found == 1)
        fault.last = fault.first;
      fault.function.resize(colon);
    }
    faults.push_back(fault);
  }
}

std::optional<int> Environment::fault(const std::string &function) {
  if (faults.empty())
    return std::nullopt;
  unsigned call = ++calls[function];
  for (const Fault &fault : faults)
    if (fault.function == function && call >= fault.first && call <= fault.last)
      return fault.code;
  return std::nullopt;
}

void Environment::log(const std::string &line) {
  if (file)
    std::fprintf(file, "%s\n", line.c_str());
}
