// cli/cpu_code.c: hilo opt --emit: the steps of the program for the processor that the passes' module makes, each beside its HLO:
// what a kernel says of itself, a tile program, and the machine code of its segments.
#include <inttypes.h>
#include <string.h>

#include "cli/opt.h"

static void put_indented(HlBuf *out, const HlBuf *text) {
  for (size_t at = 0, end; at < text->n; at = end + 1) {
    const char *line = text->at + at, *stop = memchr(line, '\n', text->n - at);
    end = stop ? (size_t)(stop - text->at) : text->n;
    hl_buf_printf(out, "  %.*s\n", (int)(end - at), line);
  }
}

static void print_called(Cli *cli, const HlComp *comp, const HlTextOptions *text, HlBuf *out) {
  hl_text_print_comp(cli->cx, comp, text, out);
  hl_buf_putc(out, '\n');
}

static void put_step(Cli *cli, const HlCpuProgram *program, const HlCpuStep *step, int64_t at,
                     const HlTextOptions *text, HlBuf *out) {
  HlBuf lines = {0};
  hl_buf_printf(out, "%s// step %" PRId64 ": %s\n", at > 0 ? "\n" : "", at, step->kind);
  hl_text_print_inst(cli->cx, step->inst, text, out);
  hl_buf_putc(out, '\n');
  // What a branch calls is steps.
  for (int k = 0; strcmp(step->kind, "branch") != 0 && k < step->inst->n_calls; k++)
    print_called(cli, hl_called(step->inst, k), text, out);
  hl_cpu_print_step(&lines, program, at);
  put_indented(out, &lines);
  hl_buf_free(&lines);
}

bool cli_print_code(Cli *cli, HlCompiled *compiled, CliEmit what, const HlTextOptions *text,
                    HlBuf *out) {
  const HlCpuOptions how = {
      .threads = 1, .no_emit = what == CLI_EMIT_TILE, .keep_code = what == CLI_EMIT_ASM};
  HlCpuProgram *program = hl_compiled_program(cli->cx, compiled, &how);
  if (!program)
    return false;
  HlArena *arena = hl_arena_new();
  const HlCpuReport report = hl_cpu_report(arena, program);
  if (report.interpreted_whole)
    hl_buf_printf(out, "// no steps: the interpreter runs it whole: %s\n",
                  report.interpreted_whole);
  for (int64_t k = 0; k < report.n_steps; k++)
    put_step(cli, program, &report.step[k], k, text, out);
  hl_arena_free(arena);
  hl_cpu_unref(program);
  return true;
}
