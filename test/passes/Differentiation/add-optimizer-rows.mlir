// RUN: mpc-opt %s -mpc-add-optimizer="data-parallel" | FileCheck %s
// RUN: mpc-opt %s -mpc-add-optimizer="data-parallel accumulate=2" | FileCheck %s --check-prefix=UPDATE
// RUN: mpc-opt %s -mpc-add-optimizer="shard-optimizer" | FileCheck %s --check-prefix=SHARD

// Rows travel of a table that a step only looks up, even in several places. The
// gradients of other parameters are not sparse: a table that a product reads
// too, columns that a step looks up, and a row for each sample.
// CHECK-LABEL: func @step
// CHECK: %[[G:.*]]:4 = mpc.gradient
// CHECK: mpc.all_reduce mean %[[G]]#0 {
// CHECK: mpc.all_reduce mean %[[G]]#1 rows {
// CHECK: mpc.all_reduce mean %[[G]]#2 {
// CHECK: mpc.all_reduce mean %[[G]]#3 {

// Sums over micro-batches have few rows, too.
// UPDATE-LABEL: func @update
// UPDATE-SAME: %[[TABLE:[a-z0-9]+]]: tensor<100x8xf32> {mpc.state = @table.grad}
// UPDATE: mpc.all_reduce mean %[[TABLE]] rows

// The owner gets the whole gradient.
// SHARD: mpc.all_reduce mean %{{.*}} owners [@table] {
// SHARD-NOT: rows
mpc.variable @columns : tensor<8x100xf32> role parameter
mpc.variable @table : tensor<100x8xf32> role parameter
mpc.variable @tied : tensor<100x8xf32> role parameter
mpc.variable @own : tensor<4x9x8xf32> role parameter
func.func @step(%i: tensor<4xi64> {mpc.input = "i", mpc.role = #mpc.role<data>}, %j: tensor<4xi32> {mpc.input = "j", mpc.role = #mpc.role<data>},
    %columns: tensor<8x100xf32> {mpc.state = @columns}, %table: tensor<100x8xf32> {mpc.state = @table}, %tied: tensor<100x8xf32> {mpc.state = @tied},
    %own: tensor<4x9x8xf32> {mpc.state = @own})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.gather %table, %i {axis = 0 : i64} : (tensor<100x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %1 = mpc.gather %table, %j {axis = 0 : i64} : (tensor<100x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  %2 = mpc.gather %tied, %i {axis = 0 : i64} : (tensor<100x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %3 = mpc.gather %own, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<4x9x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %4 = mpc.gather %columns, %i {axis = 1 : i64} : (tensor<8x100xf32>, tensor<4xi64>) -> tensor<8x4xf32>
  %5 = mpc.transpose %4 {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %6 = mpc.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = mpc.add %6, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = mpc.add %7, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %9 = mpc.mul %8, %5 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %10 = mpc.mul %tied, %tied : (tensor<100x8xf32>, tensor<100x8xf32>) -> tensor<100x8xf32>
  %11 = mpc.reduce_sum %10 {axes = array<i64: 0, 1>} : (tensor<100x8xf32>) -> tensor<f32>
  %12 = mpc.reduce_sum %9 {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %13 = mpc.add %11, %12 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %13 : tensor<f32>
}
