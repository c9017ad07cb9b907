// The importer at work: the module and the functions it builds, what an op's
// builder sees of its node, and the table of builders. Private to the frontend.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_IMPORTER_H
#define MPC_FRONTENDS_ONNX_IMPORTER_IMPORTER_H

#include "frontends/ONNX/Importer/FunctionImporter.h"
#include "frontends/ONNX/Importer/ModuleImporter.h"
#include "frontends/ONNX/Importer/NodeImporter.h"
#include "frontends/ONNX/Importer/OpTable.h"

#endif // MPC_FRONTENDS_ONNX_IMPORTER_IMPORTER_H
