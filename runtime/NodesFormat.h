// The section of a .mpc file that tells which nodes of the model each step of
// the plan computes, and how much work a step does. Only profilers read the
// section: no run depends on it, and files of earlier versions lack it.
//
//   .mpc.nodes   JSON (UTF-8), with the schema below.
//
//   { "functions": {"step": [WORK...], ...} }
//
//   WORK   { "bytes", "flops", "type": "bf16", "nodes": [NODE...] }
//          One for each entry of the function's "steps" in the plan. A loop's
//          work covers all iterations, a condition's the branch "then".
//          "bytes" counts the elements that the step loads and stores, each
//          operand once. "flops" counts two for each multiplication and
//          addition of a contraction, one for a simple elementwise operation,
//          and more for divisions and functions (compiler/Kernels/PlanTime.h).
//          "type" is the type that the step computes in: the operand type of a
//          contraction, else f32 or f64.
//   NODE   { "names": ["conv1", ...], "phase": "forward|backward|optimizer",
//            "share": 0.25 }
//          Several names belong to one op that mpc made of several nodes.
//          "share" is the node's part of the step's predicted time; all shares
//          of a step add up to 1.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_NODESFORMAT_H
#define MPC_RUNTIME_NODESFORMAT_H

namespace mpc::format {

inline constexpr char kNodesSection[] = ".mpc.nodes";

} // namespace mpc::format

#endif // MPC_RUNTIME_NODESFORMAT_H
