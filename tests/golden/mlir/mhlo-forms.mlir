// RUN: hilo convert --to=proto %s | hilo convert --to=mhlo -
// RUN: hilo convert --to=mhlo %s
// MHLO where its forms are not StableHLO's: read as XLA prints it, and printed so again.
module @forms {
  func.func private @step(%v: tensor<4xf32>) -> tensor<4xf32> attributes {execution_thread = "side"} {
    %0 = mhlo.cosine %v : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func public @main(%x: tensor<4xf32>, %rows: tensor<6x3xf32>, %stack: tensor<2x3x5xf32>, %sizes: tensor<2xi32>, %key: tensor<2xui64>, %line: tensor<1x9x2xf32>, %kernel: tensor<3x2x5xf32>) -> (tensor<2xf32>, tensor<2xi32>, tensor<2xui64>, tensor<6x5xf32>, tensor<4xui32>, tensor<1x7x5xf32>, tensor<4xf32>) {
    %values, %indices = mhlo.topk(%x, k = 2, largest = false) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
    %state = mhlo.xla.rng_get_and_update_state {delta = 7 : i64}
    %product = "mhlo.ragged_dot"(%rows, %stack, %sizes) <{precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision HIGH>], ragged_dot_dimension_numbers = #mhlo.ragged_dot<dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<6x3xf32>, tensor<2x3x5xf32>, tensor<2xi32>) -> tensor<6x5xf32>
    %next, %bits = "mhlo.rng_bit_generator"(%key) <{rng_algorithm = #mhlo.rng_algorithm<PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    %filtered = mhlo.convolution(%line, %kernel) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {reverse = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x9x2xf32>, tensor<3x2x5xf32>) -> tensor<1x7x5xf32>
    %started = "mhlo.async_start"(%x) <{called_computation = @step, execution_thread = "side"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>
    %going = "mhlo.async_update"(%started) {called_computation = @step, execution_thread = "side"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>
    %done = "mhlo.async_done"(%going) {called_computation = @step, execution_thread = "side"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>) -> tensor<4xf32>
    return %values, %indices, %state, %product, %bits, %filtered, %done : tensor<2xf32>, tensor<2xi32>, tensor<2xui64>, tensor<6x5xf32>, tensor<4xui32>, tensor<1x7x5xf32>, tensor<4xf32>
  }
}
// OUT:
// module @forms attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//   func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<6x3xf32>, %arg2: tensor<2x3x5xf32>, %arg3: tensor<2xi32>, %arg4: tensor<2xui64>, %arg5: tensor<1x9x2xf32>, %arg6: tensor<3x2x5xf32>) -> (tensor<2xf32>, tensor<2xi32>, tensor<2xui64>, tensor<6x5xf32>, tensor<4xui32>, tensor<1x7x5xf32>, tensor<4xf32>) {
//     %output_state, %output = "mhlo.rng_bit_generator"(%arg4) <{rng_algorithm = #mhlo.rng_algorithm<PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
//     %values, %indices = mhlo.topk(%arg0, k = 2, largest = false) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
//     %0 = mhlo.xla.rng_get_and_update_state {delta = 7 : i64}
//     %1 = "mhlo.ragged_dot"(%arg1, %arg2, %arg3) <{precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision HIGH>], ragged_dot_dimension_numbers = #mhlo.ragged_dot<dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<6x3xf32>, tensor<2x3x5xf32>, tensor<2xi32>) -> tensor<6x5xf32>
//     %2 = mhlo.convolution(%arg5, %arg6) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x9x2xf32>, tensor<3x2x5xf32>) -> tensor<1x7x5xf32>
//     %3 = "mhlo.async_start"(%arg0) <{called_computation = @step.1, execution_thread = "side"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tuple<tensor<4xf32>>, tensor<4xf32>, tensor<ui32>>
//     %4 = "mhlo.async_update"(%3) {called_computation = @step.1, execution_thread = "side"} : (!mhlo.async_bundle<tuple<tensor<4xf32>>, tensor<4xf32>, tensor<ui32>>) -> !mhlo.async_bundle<tuple<tensor<4xf32>>, tensor<4xf32>, tensor<ui32>>
//     %5 = "mhlo.async_done"(%4) {called_computation = @step.1, execution_thread = "side"} : (!mhlo.async_bundle<tuple<tensor<4xf32>>, tensor<4xf32>, tensor<ui32>>) -> tensor<4xf32>
//     return %values, %indices, %0, %1, %output, %2, %5 : tensor<2xf32>, tensor<2xi32>, tensor<2xui64>, tensor<6x5xf32>, tensor<4xui32>, tensor<1x7x5xf32>, tensor<4xf32>
//   }
//   func.func private @step.1(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {execution_thread = "side"} {
//     %0 = mhlo.cosine %arg0 : tensor<4xf32>
//     return %0 : tensor<4xf32>
//   }
// }
// module @forms {
//   func.func private @step(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {execution_thread = "side"} {
//     %0 = mhlo.cosine %arg0 : tensor<4xf32>
//     return %0 : tensor<4xf32>
//   }
//   func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<6x3xf32>, %arg2: tensor<2x3x5xf32>, %arg3: tensor<2xi32>, %arg4: tensor<2xui64>, %arg5: tensor<1x9x2xf32>, %arg6: tensor<3x2x5xf32>) -> (tensor<2xf32>, tensor<2xi32>, tensor<2xui64>, tensor<6x5xf32>, tensor<4xui32>, tensor<1x7x5xf32>, tensor<4xf32>) {
//     %values, %indices = mhlo.topk(%arg0, k = 2, largest = false) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
//     %0 = mhlo.xla.rng_get_and_update_state {delta = 7 : i64}
//     %1 = "mhlo.ragged_dot"(%arg1, %arg2, %arg3) <{precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision HIGH>], ragged_dot_dimension_numbers = #mhlo.ragged_dot<dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<6x3xf32>, tensor<2x3x5xf32>, tensor<2xi32>) -> tensor<6x5xf32>
//     %output_state, %output = "mhlo.rng_bit_generator"(%arg4) <{rng_algorithm = #mhlo.rng_algorithm<PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
//     %2 = mhlo.convolution(%arg5, %arg6) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {reverse = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x9x2xf32>, tensor<3x2x5xf32>) -> tensor<1x7x5xf32>
//     %3 = "mhlo.async_start"(%arg0) <{called_computation = @step, execution_thread = "side"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>
//     %4 = "mhlo.async_update"(%3) {called_computation = @step, execution_thread = "side"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>
//     %5 = "mhlo.async_done"(%4) {called_computation = @step, execution_thread = "side"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>, tensor<ui32>>) -> tensor<4xf32>
//     return %values, %indices, %0, %1, %output, %2, %5 : tensor<2xf32>, tensor<2xi32>, tensor<2xui64>, tensor<6x5xf32>, tensor<4xui32>, tensor<1x7x5xf32>, tensor<4xf32>
//   }
// }
