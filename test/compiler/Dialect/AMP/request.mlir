// The request of a module prints as it reads, without fields that have their
// default.
//
// RUN: mpc-opt %s -split-input-file | FileCheck %s
// RUN: mpc-opt %s -split-input-file | mpc-opt -split-input-file | FileCheck %s

// CHECK: amp.request = #amp.request<"16-mixed", loss_scale = 1.280000e+02, policy = "rules.json", keep_fp32 = ["^fc1", "a,b"], force_low = ["sum"]>
module attributes {amp.request = #amp.request<"16-mixed", force_low = ["sum"],
    loss_scale = 128.0, keep_fp32 = ["^fc1", "a,b"], policy = "rules.json">} {
}

// -----

// CHECK: amp.request = #amp.request<"32-true", tf32 = true>
module attributes {amp.request = #amp.request<"32-true", tf32 = true>} {
}

// -----

// CHECK: amp.request = #amp.request<"64-true", loss_scale = none>
module attributes {amp.request = #amp.request<"64-true", loss_scale = none>} {
}
