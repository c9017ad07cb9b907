// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNNVersion.h"

#include <oneapi/dnnl/dnnl.h>

namespace mpc::runtime {

std::string oneDNNVersion() {
  const dnnl_version_t *version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) +
         "." + std::to_string(version->patch);
}

} // namespace mpc::runtime
