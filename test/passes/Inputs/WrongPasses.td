// Descriptions that pass-examples.test must refuse.
//
// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def WithoutExample : Pass<"mpc-decompose"> {
  let summary = "no example";
  let description = [{
    Says what it does, and does not show it.
  }];
}

def WrongAfter : Pass<"mpc-fold-scaling"> {
  let summary = "operands are exchanged";
  let description = [{
    Before:

    ```mlir
    func.func @forward(%q: tensor<8x8xf32>, %k: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %c = mpc.constant dense<0.5> : tensor<f32>
      %0 = mpc.mul %q, %c : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
      %s = mpc.matmul %0, %k : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %s : tensor<8x8xf32>
    }
    ```

    After:

    ```mlir
    func.func @forward(%q: tensor<8x8xf32>, %k: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %s = mpc.matmul %k, %q {alpha = 5.000000e-01 : f64}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    ```
  }];
}

def NoChange : Pass<"mpc-recognize-gelu"> {
  let summary = "after is before";
  let description = [{
    Before:

    ```mlir
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = mpc.gelu %x : (tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```

    After:

    ```mlir
    %y = mpc.gelu %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
}

def NotWhole : Pass<"mpc-recognize-swish"> {
  let summary = "before is no module";
  let description = [{
    Before:

    ```mlir
    %0 = mpc.sigmoid %x : (tensor<8xf32>) -> tensor<8xf32>
    %y = mpc.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    ```

    After:

    ```mlir
    %y = mpc.swish %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
}

def OtherWords : Pass<"mpc-sink-movement"> {
  let summary = "an example in other words";
  let description = [{
    For example:

    ```mlir
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
    ```
  }];
}

def NoError : Pass<"mpc-verify-fusion"> {
  let summary = "an error that does not come";
  let description = [{
    Before:

    ```mlir
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
    ```

    After, instead of IR:

    ```text
    ...: error: 'mpc.relu' op expected to be part of an mpc.region
    ```
  }];
}
