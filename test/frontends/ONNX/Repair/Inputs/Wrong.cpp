// Examples that do not hold.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[2] x) => (float[2] y)
// {
//   y = Relu <description: string = "the last layer"> (x)
// }
// ```
//
// After:
//
// ```
// y = Sigmoid (x)
// ```
//
// After:
//
// ```
// g (float[2] x) => (float[2] y)
// ```
//
// SPDX-License-Identifier: Apache-2.0
