#!/bin/bash
# What run_hlo_module keeps of its runs and what snapshots hold is read by protoc with messages written down here from
# XLA's: run_hlo_module.proto and hlo.proto.
command -v protoc > /dev/null || { echo "skipped: no protoc"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$(realpath "${HILO:-build/hilo}")" "$folder/run_hlo_module"
cd "$folder" || exit 2

cat > xla.proto <<'END'
syntax = "proto3";
message Tile { repeated int64 dimensions = 1; }
message Layout { repeated int64 minor_to_major = 1; repeated Tile tiles = 6; int64 tail = 16; }
message Shape {
  int32 element_type = 2;
  repeated int64 dimensions = 3;
  repeated Shape tuple_shapes = 4;
  Layout layout = 5;
  repeated bool is_dynamic = 6;
}
message Literal {
  Shape shape = 1;
  repeated int32 s32s = 4;
  repeated float f32s = 8;
  repeated Literal tuple_literals = 10;
}
message Iteration { repeated Literal arguments = 2; Literal result = 3; Literal reference_result = 4; }
message Literals { repeated Iteration iterations = 1; }
message Module { string name = 1; }
message Hlo { Module hlo_module = 1; }
message Snapshot {
  Hlo hlo = 1;
  repeated Literal arguments = 2;
  Literal result = 3;
  string execution_platform = 4;
}
END

cat > two.hlo <<'END'
HloModule two
ENTRY main {
  x = f32[2] parameter(0)
  y = s32[3] parameter(1)
  n = f32[2] negate(x)
  ROOT t = (f32[2], s32[3]) tuple(n, y)
}
END

# The parts of a decoded message that say what it holds, numbers without their digits.
outline() {
  grep -oE '^ *(iterations|arguments|result|reference_result|tuple_literals|hlo|hlo_module|name|execution_platform|f32s|s32s)\b.*' |
    sed -E 's/(f32s|s32s): .*/\1/; s/ *\{//' | tr -s ' \n' ' '
}

expect() {
  if [ "$2" != "$3" ]; then
    printf '%s:\n  expected %s\n  found    %s\n' "$1" "$2" "$3"
    failed=1
  fi
}

failed=0
./run_hlo_module --platform=CPU --reference_platform=Interpreter --output_literals_file=runs.pb \
  --xla_dump_to=dump --xla_dump_hlo_snapshots two.hlo > /dev/null 2>&1 || { echo "run_hlo_module fails"; exit 1; }
pair="tuple_literals f32s f32s tuple_literals s32s s32s s32s"
arguments="arguments f32s f32s arguments s32s s32s s32s"
expect runs.pb " iterations $arguments result $pair reference_result $pair " \
  " $(protoc --decode=Literals xla.proto < runs.pb | outline)"
for snapshot in dump/*.hlo_snapshot.pb; do
  expect "$snapshot" " hlo hlo_module name: \"two\" $arguments result $pair execution_platform: \"CPU\" " \
    " $(protoc --decode=Snapshot xla.proto < "$snapshot" | outline)"
done
exit $failed
