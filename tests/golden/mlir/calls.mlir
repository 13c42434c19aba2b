// RUN: hilo convert --to=hlo --no-metadata %s
// Custom calls in their versions, composites, side effects, donated arguments.
module @calls {
  func.func public @main(%x: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}, %y: tensor<2x3xf32> {jax.buffer_donor = true}) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x2xf32>) {
    %0 = stablehlo.custom_call @typed(%x) {mhlo.backend_config = {alpha = 2.5 : f32, mode = "fast", sizes = array<i64: 1, 2>}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.custom_call @also_typed(%0) {api_version = 4 : i32, backend_config = {flag = true}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2:2 = stablehlo.custom_call @old(%1, %y) {api_version = 2 : i32, backend_config = "opaque", called_computations = [@twice], has_side_effect = true, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 1, operand_tuple_indices = []>]} : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xi8>)
    %3 = stablehlo.custom_call @laid_out(%2#0) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.custom_call @nothing() {has_side_effect = true} : () -> ()
    %4 = stablehlo.composite "mine.twice" %3 {composite_attributes = {times = 2 : i64}, decomposition = @twice, version = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %5:2 = stablehlo.composite "chlo.top_k" %4 {composite_attributes = {k = 2 : i64}, decomposition = @top, version = 1 : i32} : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
    %dead = stablehlo.custom_call @pure(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %3, %4, %5#0 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x2xf32>
  }
  func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %x, %x : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @top(%x: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
    %0 = stablehlo.slice %x [0:2, 0:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.constant dense<0> : tensor<2x2xi32>
    return %0, %1 : tensor<2x2xf32>, tensor<2x2xi32>
  }
}
// OUT:
// HloModule calls, input_output_alias={ {1}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }, entry_computation_layout={(f32[2,3]{1,0}, f32[2,3]{1,0})->(f32[2,3]{0,1}, f32[2,3]{1,0}, f32[2,2]{1,0})}
//
// %twice.1 (Arg_0.2: f32[2,3]) -> f32[2,3] {
//   %Arg_0.2 = f32[2,3]{1,0} parameter(0)
//   ROOT %add.1 = f32[2,3]{1,0} add(%Arg_0.2, %Arg_0.2)
// }
//
// ENTRY %main.2 (Arg_0.3: f32[2,3], Arg_1.1: f32[2,3]) -> (f32[2,3], f32[2,3], f32[2,2]) {
//   %Arg_0.3 = f32[2,3]{1,0} parameter(0)
//   %custom-call.5 = f32[2,3]{1,0} custom-call(%Arg_0.3), custom_call_target="typed", api_version=API_VERSION_TYPED_FFI, backend_config={alpha = 2.500000e+00 : f32, mode = "fast", sizes = array<i64: 1, 2>}
//   %custom-call.6 = f32[2,3]{1,0} custom-call(%custom-call.5), custom_call_target="also_typed", api_version=API_VERSION_TYPED_FFI, backend_config={flag = true}
//   %Arg_1.1 = f32[2,3]{1,0} parameter(1)
//   %custom-call.7 = (f32[2,3]{1,0}, s8[3]{0}) custom-call(%custom-call.6, %Arg_1.1), custom_call_target="old", custom_call_has_side_effect=true, output_to_operand_aliasing={{0}: (1, {})}, api_version=API_VERSION_STATUS_RETURNING, called_computations={%twice.1}, backend_config="opaque"
//   %get-tuple-element.5 = s8[3]{0} get-tuple-element(%custom-call.7), index=1
//   %custom-call.9 = () custom-call(), custom_call_target="nothing", custom_call_has_side_effect=true
//   %get-tuple-element.4 = f32[2,3]{1,0} get-tuple-element(%custom-call.7), index=0
//   %custom-call.8 = f32[2,3]{0,1} custom-call(%get-tuple-element.4), custom_call_target="laid_out", operand_layout_constraints={f32[2,3]{0,1}}
//   %call.1 = f32[2,3]{1,0} call(%custom-call.8), to_apply=%twice.1, is_composite=true, frontend_attributes={composite.attributes={times = 2 : i64},composite.name="mine.twice",composite.version="1"}
//   %topk.1 = (f32[2,2]{1,0}, s32[2,2]{1,0}) topk(%call.1), k=2, largest=true, is_stable=true
//   %get-tuple-element.7 = s32[2,2]{1,0} get-tuple-element(%topk.1), index=1
//   %get-tuple-element.6 = f32[2,2]{1,0} get-tuple-element(%topk.1), index=0
//   ROOT %tuple.1 = (f32[2,3]{0,1}, f32[2,3]{1,0}, f32[2,2]{1,0}) tuple(%custom-call.8, %call.1, %get-tuple-element.6)
// }
