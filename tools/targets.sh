#!/bin/bash
# Fails on facts about machines outside the tables of targets (src/target, include/hilo/target_fields.def), on names of custom
# calls outside theirs (include/hilo/custom_calls.def), and on fields of backend configs outside theirs
# (src/ir/config_fields.def). What passes, costs and schedules want to know of a machine they ask an HlTarget, what they want
# to know of a custom call or a config its row. Looked for in code, comments left out:
#   word      comparing with a platform's word: strcmp(x, "gpu")
#   machine   a machine's name: HOPPER, "h100"
#   figure    a figure that is named as a machine's: CORES = 132, l2_bytes = 1 << 20; options of passes too: "threads=2"
#   space     the number of the host's memory: HOST = 5
#   call      a custom call's name as a string, or that of a routine of LAPACK
#   config    a name of a field of backend configs as a string, or in one; a word that such a field has
# Exceptions are the rows at the end, each with its reason: kind, file, text of the line, reason.
cd "$(dirname "$0")/.." || exit 2

platforms='cpu|gpu|tpu|cuda|rocm|host|CPU|GPU|TPU|CUDA|ROCM|Host'
machines='[hH]100|[hH]200|[aA]100|[bB]200|[mM][iI]300|[hH]opper|HOPPER|[aA]mpere|AMPERE|[vV]olta|VOLTA|[bB]lackwell|BLACKWELL|[tT]esla'
facts='warps?|cores?|sms|lanes|clock|dram|hbm|bandwidth|flops?|launch|l[123]|caches?|smem|shared|registers?|threads?|simd|devices_per_host|capability|nvlink|pcie|workspace|work_space|blocks|max_tile|multiple|busy'

# Lines of code as FILE:LINE:TEXT, without comments.
code() {
  grep -nH . "$@" | sed -E 's%^([^:]*:[0-9]*:)[[:space:]]*//.*%\1%; s%([^":])//.*%\1%' | grep -vE '^[^:]*:[0-9]*:[[:space:]]*$'
}

names=$(sed -nE 's/^CUSTOM_CALL\([A-Z0-9_]+, *"([^"]+)".*/\1/p' include/hilo/custom_calls.def | sed 's/[.$]/[&]/g' | paste -sd'|')
prefixes=$(sed -nE 's/^CALL_FAMILY\("([^"]+)".*/\1/p' include/hilo/custom_calls.def | paste -sd'|')
routines=$(sed -nE 's/^CALL_ROUTINE\([A-Z0-9]+, *"([^"]+)", *"([^"]+)".*/\1\n\2/p' include/hilo/custom_calls.def | sort -u | paste -sd'|')
# Words of one syllable ("kind", "lower") mean other things, too.
paths=$(sed -nE 's/^FIELD\(.*, *(IN +)?"([^"]+)", *[^"]*\).*/\2/p; s/^#define IN "([^"]+)".*/\1/p' src/ir/config_fields.def)
fields=$(tr '.?' '\n\n' <<<"$paths" | grep _ | sort -u | paste -sd'|')
config_words=$(sed -nE 's/^WORD\([A-Z]+, *[A-Z0-9_]+, *-?[0-9]+, *"([^"]+)".*/\1/p' src/ir/config_fields.def | grep -E '_' | sed 's/[.$]/[&]/g' | paste -sd'|')
mapfile -t all < <(find src -name '*.c' -o -name '*.h' | grep -v '^src/target/' | sort)
mapfile -t asking < <(printf '%s\n' "${all[@]}" | grep -E '^src/(opt|spmd|pass|buffer|cost|sim|cpu|cuda)/')
mapfile -t saying < <(printf '%s\n' "${all[@]}" | grep -E '^src/(opt|spmd|pass|buffer|cost|sim|cpu|cuda|eval|view|verify|tool)/')

found() {
  code "${all[@]}" | grep -E "str(n|case|ncase)?(cmp|str)\(.*\"($platforms)\"|hl_str_is\(.*\"($platforms)\"" | sed 's/^/word /'
  code "${asking[@]}" | grep -E "\b($machines)\b" | sed 's/^/machine /'
  code "${asking[@]}" | grep -iE "\b([a-z0-9]+_)*($facts)(_[a-z0-9]+)*\b *= *\(?[1-9]" | sed 's/^/figure /'
  code src/opt/*.def | grep -E "\b([a-z0-9]+_)*($facts)(_[a-z0-9]+)*=[1-9]" | sed 's/^/figure /'
  code "${all[@]}" | grep -iE "\b([a-z]+_)?host(_space|_memory)? *= *5\b|memory_space\(.*\b[1-9]\b" | sed 's/^/space /'
  code "${all[@]}" | grep -E "\"($names|$routines)\"|\"($prefixes)" | sed 's/^/call /'
  code "${saying[@]}" | grep -E "\"($fields|$config_words)\\\\?\"" | sed 's/^/config /'
}

# 0 if a row allows it.
allowed() {
  local kind=$1 file=$2 text=$3 k f t reason
  while IFS='|' read -r k f t reason; do
    [ "$k" = "$kind" ] && [[ $file == $f ]] && [[ $text == *"$t"* ]] && return 0
  done <<<"$allow"
  return 1
}

allow=$(sed -n '/^: <<.ALLOW.$/,/^ALLOW$/p' "$0" | grep '|')
bad=0
while read -r kind place; do
  file=${place%%:*} text=${place#*:*:}
  allowed "$kind" "$file" "$text" && continue
  echo "$kind: $place" >&2
  bad=1
done < <(found)
[ $bad = 0 ] && echo "targets: no facts about machines outside their tables"
exit $bad

: <<'ALLOW'
word|src/tool/platform.c|"|the table of platforms itself
word|src/proto/target.c|"ROCM"|XLA's word in its own file
figure|src/opt/fusion/gpu_launch.c|BLOCK_WARPS|the emitter's choice, not the machine's
figure|src/opt/fusion/gpu_fusible.c|BLOCK_THREADS|the emitter's choice, not the machine's
figure|src/opt/fusion/gpu_fusible.c|TRANSPOSE_THREADS|the same
figure|src/opt/gpu/collective_kernels.c|THREAD|the kernel's choice, not the machine's
figure|src/opt/gpu/collective_kernels.c|BLOCKS|the same
figure|src/spmd/export.h|SP_CACHE|a cache of this program
figure|src/opt/gpu/splitk_rewriter.c|BUSY|a bound of XLA's rule, with those around it: of products, not of a device
call|src/jaxpr/*|"threefry2x32"|JAX's primitive and its kind of keys
call|src/jaxpr/linalg.c|{"|JAX's primitives, some of which are called as the routines are
call|src/jaxpr/elementwise.c|"optimization_barrier"|JAX's primitive
call|src/jaxpr/elementwise.c|"dce_sink"|JAX's primitive
call|src/mlir/from_hlo/op_attr.c|"mhlo.ragged_dot"|MHLO's attribute
call|src/opt/collective/collective_async.c|"ragged_all_to_all"|an option of the pass
config|src/opt/loop/while_unroller.c|"unroll_factor"|an option of the pass
config|src/opt/collective/collective_combiner.c|"is_spmd_generated"|the frontend attribute of that name
config|src/spmd/partition_collective.c|"is_spmd_generated"|the same
call|src/opt/expand/topk_decomposer.c|"TopK"|the rule's name
call|src/rewrite/features/attrs.c|"cu|words of HloEnv's features, in its order
call|src/rewrite/features/attrs.c|"__cu|the same
word|src/opt/memory/host_offloading_prepare.c|"host"|a thread's name in the program
machine|src/sim/net/astra.c|hl_target_find("h100")|ASTRA-sim's network files say nothing of the device
figure|src/sim/net/fit.c|fit.bandwidth = 1 / slope|a figure of the fit, not of a machine
figure|src/sim/net/system.c|say bandwidth=2x|what a user may write
figure|src/sim/run/page.c|"bandwidth=2x"|what a user may ask
figure|src/sim/run/perfetto.c|TRACK_THREAD = 4|the number of a field
ALLOW
