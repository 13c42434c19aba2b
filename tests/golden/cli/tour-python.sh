# What JAX and XLA leave of a program, for tour-python.hlo.
dir=${XLA_FLAGS##*--xla_dump_to=}
dir=${dir%% *}
module() {
  printf 'HloModule %s\n\nENTRY main {\n  x = f32[8] parameter(0)\n%s}\n' "$2" "$3" > "$dir/module_000$1.$2.before_optimizations.txt"
}
module 0 jit__lambda '  y = f32[8] tanh(x)
  ROOT z = f32[8] add(y, x)
'
module 1 jit_other '  ROOT y = f32[8] sine(x)
'
module 2 jit_alone '  ROOT y = f32[8] abs(x)
'
printf '{ lambda ; a:f32[8]. let\n    b:f32[8] = tanh a\n    c:f32[8] = add b a\n  in (c,) }\n' > "$JAX_DUMP_IR_TO/jax_000000_<lambda>.jaxpr.txt"
printf '{ lambda ; a:f32[8]. let b:f32[8] = no_such_primitive a in (b,) }\n' > "$JAX_DUMP_IR_TO/jax_000001_other.jaxpr.txt"
