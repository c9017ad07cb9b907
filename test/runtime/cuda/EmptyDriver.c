// A library called libcuda.so.1 without any function of a driver.
//
// SPDX-License-Identifier: Apache-2.0
int mpc_test_no_driver;
