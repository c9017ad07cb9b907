// Parses one op of the mpc dialect from text.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_COMPILER_ONEOP_H
#define MPC_TEST_COMPILER_ONEOP_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace mpc {

/// The last op of a function with `arguments`.
class OneOp {
public:
  OneOp(const std::string &arguments, const std::string &op) {
    context.loadDialect<MPCDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + op + "\nreturn\n}", &context);
    if (module)
      parsed = (*module->getOps<mlir::func::FuncOp>().begin())
                   .getBody()
                   .front()
                   .getTerminator()
                   ->getPrevNode();
  }
  mlir::Operation *operator->() const { return parsed; }
  mlir::Operation *get() const { return parsed; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *parsed = nullptr;
};

} // namespace mpc

#endif // MPC_TEST_COMPILER_ONEOP_H
