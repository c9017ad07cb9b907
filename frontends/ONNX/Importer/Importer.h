// Includes the importer's headers: module, functions, nodes, and the table of
// op builders. Private to the frontend.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_IMPORTER_H
#define MPC_FRONTENDS_ONNX_IMPORTER_IMPORTER_H

#include "frontends/ONNX/Importer/FunctionImporter.h"
#include "frontends/ONNX/Importer/ModuleImporter.h"
#include "frontends/ONNX/Importer/NodeImporter.h"
#include "frontends/ONNX/Importer/OpTable.h"

#endif // MPC_FRONTENDS_ONNX_IMPORTER_IMPORTER_H
