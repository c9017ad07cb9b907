// The page that `mpc report` writes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_REPORT_PAGE_H
#define MPC_TOOLS_MPC_REPORT_PAGE_H

#include "tools/mpc/report/RunMetrics.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// One HTML page that needs no other file and no network: charts of all runs in
/// one another's, and tables of what they were and how they ended. The same
/// runs give the same bytes.
std::string writePage(const std::vector<RunMetrics> &runs);

/// What the page has of its own: report.css and report.js.
extern const char kReportStyle[], kReportScript[];

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_PAGE_H
