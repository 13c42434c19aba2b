// RUN: hilo convert --to=hlo %s
// Names of locations become metadata and names of instructions; frames the module's tables.
#frame = loc("step"("model.py":12:4 to :19))
#caller = loc("train"("model.py":40:2))
#stack = loc(callsite(#frame at #caller))
module @names {
  func.func public @main(%arg0: tensor<4xf32> loc("params['w']"), %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32> loc("jit(step)/layer.0/add"(#stack))
    %1 = stablehlo.sine %0 : tensor<4xf32> loc("sin:"("jit(step)/sin"(#stack)))
    %2 = stablehlo.negate %1 : tensor<4xf32> loc("plain.py":3:1)
    %3 = stablehlo.multiply %2, %2 : tensor<4xf32> loc(fused["a", "b@c"])
    return %3 : tensor<4xf32>
  }
}
// OUT:
// HloModule names, entry_computation_layout={(f32[4]{0}, f32[4]{0})->f32[4]{0}}
//
// FileNames
// 1 "model.py"
//
// FunctionNames
// 1 "train"
// 2 "step"
//
// FileLocations
// 1 {file_name_id=1 function_name_id=1 line=40 end_line=40 column=2 end_column=2}
// 2 {file_name_id=1 function_name_id=2 line=12 end_line=12 column=4 end_column=19}
//
// StackFrames
// 1 {file_location_id=1 parent_frame_id=1}
// 2 {file_location_id=2 parent_frame_id=2}
//
//
// ENTRY %main.1 (params__w__.1: f32[4], Arg_1.1: f32[4]) -> f32[4] {
//   %params__w__.1 = f32[4]{0} parameter(0), metadata={op_name="params[\'w\']"}
//   %Arg_1.1 = f32[4]{0} parameter(1)
//   %add.1 = f32[4]{0} add(%params__w__.1, %Arg_1.1), metadata={op_name="jit(step)/layer.0/add" stack_frame_id=2}
//   %sin.1 = f32[4]{0} sine(%add.1), metadata={op_type="sin" op_name="jit(step)/sin" stack_frame_id=2}
//   %negate.1 = f32[4]{0} negate(%sin.1), metadata={source_file="plain.py" source_line=3 source_end_line=3 source_column=1 source_end_column=1}
//   ROOT %a_b.1 = f32[4]{0} multiply(%negate.1, %negate.1), metadata={op_name="a;b"}
// }
