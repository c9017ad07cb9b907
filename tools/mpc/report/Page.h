// Writes the page of `mpc report`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_REPORT_PAGE_H
#define MPC_TOOLS_MPC_REPORT_PAGE_H

#include "tools/mpc/report/RunMetrics.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// Returns one HTML page that works without other files and without a network.
/// It has charts that show all runs, and tables of settings and results. The
/// same runs always give the same bytes.
std::string writePage(const std::vector<RunMetrics> &runs);

/// The contents of report.css and report.js, compiled into mpc.
extern const char kReportStyle[], kReportScript[];

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_PAGE_H
