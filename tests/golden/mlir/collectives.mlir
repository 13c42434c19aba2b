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
// %region_0.1 (Arg_0.2: f32[], Arg_1.2: f32[]) -> f32[] {
//   %Arg_0.2 = f32[] parameter(0)
//   %Arg_1.2 = f32[] parameter(1)
//   ROOT %maximum.1 = f32[] maximum(%Arg_0.2, %Arg_1.2)
// }
//
// %scalar_add_f32.2 (x.1: f32[], y.1: f32[]) -> f32[] {
//   %x.1 = f32[] parameter(0)
//   %y.1 = f32[] parameter(1)
//   ROOT %add.1 = f32[] add(%x.1, %y.1)
// }
//
// ENTRY %main.3 (Arg_0.3: f32[4,4], Arg_1.3: token[]) -> (f32[8,2], f32[8,4], f32[2,4], f32[4,4], f32[4,4], /*index=5*/token[]) {
//   %Arg_0.3 = f32[4,4]{1,0} parameter(0)
//   %all-to-all.1 = f32[4,4]{1,0} all-to-all(%Arg_0.3), replica_groups={{0,1}}, dimensions={1}
//   %reshape.2 = f32[4,2,2]{2,1,0} reshape(%all-to-all.1)
//   %transpose.1 = f32[2,4,2]{2,0,1} transpose(%reshape.2), dimensions={1,0,2}
//   %reshape.3 = f32[8,2]{1,0} reshape(%transpose.1)
//   %all-gather.1 = f32[8,4]{1,0} all-gather(%Arg_0.3), channel_id=3, replica_groups={{0,1},{2,3}}, dimensions={0}, use_global_device_ids=true
//   %reduce-scatter.1 = f32[2,4]{1,0} reduce-scatter(%Arg_0.3), replica_groups={{0,1}}, dimensions={0}, to_apply=%region_0.1
//   %collective-permute.1 = f32[4,4]{1,0} collective-permute(%Arg_0.3), source_target_pairs={{0,1},{1,0}}
//   %all-reduce.1 = f32[4,4]{1,0} all-reduce(%collective-permute.1), replica_groups={{0,1,2},{3}}, to_apply=%scalar_add_f32.2
//   %Arg_1.3 = token[] parameter(1)
//   %send.1 = (f32[4,4]{1,0}, u32[], token[]) send(%Arg_0.3, %Arg_1.3), channel_id=5, is_host_transfer=true
//   %send-done.1 = token[] send-done(%send.1), channel_id=5, is_host_transfer=true
//   %recv.1 = (f32[4,4]{1,0}, u32[], token[]) recv(%send-done.1), channel_id=6, is_host_transfer=true
//   %recv-done.1 = (f32[4,4]{1,0}, token[]) recv-done(%recv.1), channel_id=6, is_host_transfer=true
//   %get-tuple-element.5 = f32[4,4]{1,0} get-tuple-element(%recv-done.1), index=0
//   %get-tuple-element.6 = token[] get-tuple-element(%recv-done.1), index=1
//   %infeed.1 = ((f32[4,4]{0,1}), token[]) infeed(%get-tuple-element.6), infeed_config="queue"
//   %get-tuple-element.7 = (f32[4,4]{0,1}) get-tuple-element(%infeed.1), index=0
//   %get-tuple-element.8 = f32[4,4]{0,1} get-tuple-element(%get-tuple-element.7), index=0
//   %tuple.2 = (f32[4,4]{0,1}) tuple(%get-tuple-element.8)
//   %get-tuple-element.9 = token[] get-tuple-element(%infeed.1), index=1
//   %outfeed.1 = token[] outfeed(%tuple.2, %get-tuple-element.9), outfeed_shape=(f32[4,4]{0,1}), outfeed_config="out"
//   ROOT %tuple.3 = (f32[8,2]{1,0}, f32[8,4]{1,0}, f32[2,4]{1,0}, f32[4,4]{1,0}, f32[4,4]{1,0}, /*index=5*/token[]) tuple(%reshape.3, %all-gather.1, %reduce-scatter.1, %all-reduce.1, %get-tuple-element.5, /*index=5*/%outfeed.1)
// }
