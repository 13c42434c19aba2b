// RUN: hilo convert --to=hlo --no-metadata %s
// Collectives, channels and host transfers.
module @collectives {
  func.func public @main(%x: tensor<4x4xf32>, %t: !stablehlo.token) -> (tensor<8x2xf32>, tensor<8x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, !stablehlo.token) {
    %0 = "stablehlo.all_to_all"(%x) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x4xf32>) -> tensor<8x2xf32>
    %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, use_global_device_ids}> : (tensor<4x4xf32>) -> tensor<8x4xf32>
    %2 = "stablehlo.reduce_scatter"(%x) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %9 = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = "stablehlo.cross-replica-sum"(%3) <{replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %5 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<4x4xf32>, !stablehlo.token) -> !stablehlo.token
    %6:2 = "stablehlo.recv"(%5) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4x4xf32>, !stablehlo.token)
    %7:2 = "stablehlo.infeed"(%6#1) <{infeed_config = "queue", layout = [[0, 1]]}> : (!stablehlo.token) -> (tensor<4x4xf32>, !stablehlo.token)
    %8 = "stablehlo.outfeed"(%7#0, %7#1) <{outfeed_config = "out"}> : (tensor<4x4xf32>, !stablehlo.token) -> !stablehlo.token
    return %0, %1, %2, %4, %6#0, %8 : tensor<8x2xf32>, tensor<8x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, !stablehlo.token
  }
}
// OUT:
// HloModule collectives, entry_computation_layout={(f32[4,4]{1,0}, token[])->(f32[8,2]{1,0}, f32[8,4]{1,0}, f32[2,4]{1,0}, f32[4,4]{1,0}, f32[4,4]{1,0}, /*index=5*/token[])}
//
// %region_0 (Arg_0.1: f32[], Arg_1.1: f32[]) -> f32[] {
//   %Arg_0.1 = f32[] parameter(0)
//   %Arg_1.1 = f32[] parameter(1)
//   ROOT %maximum = f32[] maximum(%Arg_0.1, %Arg_1.1)
// }
//
// %scalar_add_f32 (x: f32[], y: f32[]) -> f32[] {
//   %x = f32[] parameter(0)
//   %y = f32[] parameter(1)
//   ROOT %add = f32[] add(%x, %y)
// }
//
// ENTRY %main (Arg_0: f32[4,4], Arg_1: token[]) -> (f32[8,2], f32[8,4], f32[2,4], f32[4,4], f32[4,4], /*index=5*/token[]) {
//   %Arg_0 = f32[4,4]{1,0} parameter(0)
//   %all-to-all = f32[4,4]{1,0} all-to-all(%Arg_0), replica_groups={{0,1}}, dimensions={1}
//   %reshape = f32[4,2,2]{2,1,0} reshape(%all-to-all)
//   %transpose = f32[2,4,2]{2,0,1} transpose(%reshape), dimensions={1,0,2}
//   %reshape.1 = f32[8,2]{1,0} reshape(%transpose)
//   %all-gather = f32[8,4]{1,0} all-gather(%Arg_0), channel_id=3, replica_groups={{0,1},{2,3}}, dimensions={0}, use_global_device_ids=true
//   %reduce-scatter = f32[2,4]{1,0} reduce-scatter(%Arg_0), replica_groups={{0,1}}, dimensions={0}, to_apply=%region_0
//   %collective-permute = f32[4,4]{1,0} collective-permute(%Arg_0), source_target_pairs={{0,1},{1,0}}
//   %all-reduce = f32[4,4]{1,0} all-reduce(%collective-permute), replica_groups={{0,1,2},{3}}, to_apply=%scalar_add_f32
//   %Arg_1 = token[] parameter(1)
//   %send = (f32[4,4]{1,0}, u32[], token[]) send(%Arg_0, %Arg_1), channel_id=5, is_host_transfer=true
//   %send-done = token[] send-done(%send), channel_id=5, is_host_transfer=true
//   %recv = (f32[4,4]{1,0}, u32[], token[]) recv(%send-done), channel_id=6, is_host_transfer=true
//   %recv-done = (f32[4,4]{1,0}, token[]) recv-done(%recv), channel_id=6, is_host_transfer=true
//   %get-tuple-element = f32[4,4]{1,0} get-tuple-element(%recv-done), index=0
//   %get-tuple-element.1 = token[] get-tuple-element(%recv-done), index=1
//   %infeed = ((f32[4,4]{0,1}), token[]) infeed(%get-tuple-element.1), infeed_config="queue"
//   %get-tuple-element.2 = (f32[4,4]{0,1}) get-tuple-element(%infeed), index=0
//   %get-tuple-element.3 = f32[4,4]{0,1} get-tuple-element(%get-tuple-element.2), index=0
//   %tuple = (f32[4,4]{0,1}) tuple(%get-tuple-element.3)
//   %get-tuple-element.4 = token[] get-tuple-element(%infeed), index=1
//   %outfeed = token[] outfeed(%tuple, %get-tuple-element.4), outfeed_shape=(f32[4,4]{0,1}), outfeed_config="out"
//   ROOT %tuple.1 = (f32[8,2]{1,0}, f32[8,4]{1,0}, f32[2,4]{1,0}, f32[4,4]{1,0}, f32[4,4]{1,0}, /*index=5*/token[]) tuple(%reshape.1, %all-gather, %reduce-scatter, %all-reduce, %get-tuple-element, /*index=5*/%outfeed)
// }
