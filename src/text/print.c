// print.c: writes HLO text: modules, their headers and tables, computations (hlo.md 1.3, 1.4, 5).

#include "text/print.h"

#include <stdlib.h>

// --- Options -------------------------------------------------------------------------------------

static PrintHow how_of_preset(HlTextPreset preset) {
  PrintHow how = {.percent = true,
                  .signatures = true,
                  .operand_names = true,
                  .index_comments = true,
                  .metadata = true,
                  .backend_config = true,
                  .control_predecessors = true,
                  .infeed_config = true,
                  .result_shape = true,
                  .layouts = true,
                  .print_ids = true,
                  .async_sugar = true,
                  .original_value = true,
                  .frames = true};
  if (preset == HL_TEXT_DEFAULT)
    return how;
  how.percent = how.signatures = how.index_comments = how.metadata = how.frames = false;
  how.control_predecessors = false;
  if (preset == HL_TEXT_SHORT) {
    how.large_constants = true;
    return how;
  }
  how.backend_config = false;
  how.operand_shapes = how.subcomputation_bodies = how.canonical_names = true;
  if (preset == HL_TEXT_CANONICAL)
    return how;
  how.infeed_config = how.print_ids = false;
  how.essential_constants = how.list_order = how.replica_group_lists = true;
  how.operand_shapes = preset == HL_TEXT_FINGERPRINT;
  return how;
}

static PrintHow how_of(const HlTextOptions *options, const HlModule *m) {
  static const HlTextOptions usual = {0};
  if (!options)
    options = &usual;
  PrintHow how = how_of_preset(options->preset);
  how.tuple_elements = m->tuple_elements && options->preset == HL_TEXT_DEFAULT;
  how.async_sugar = !how.tuple_elements;  // XLA's dumps, which alone name elements, have no sugar
#define S(name)                  \
  if (options->name != HL_USUAL) \
    how.name = options->name == HL_ON;
  PRINT_SWITCHES(S)
#undef S
  how.tuple_elements = how.tuple_elements && hl_writes(m->dialect, HL_NEWS_TUPLE_ELEMENTS);
  return how;
}

// --- Texts printed before ------------------------------------------------------------------------

bool print_memo(Print *p, const void *key, PrintMemo **slot) {
  const uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
  *slot = &p->memo[hash >> 54];
  if ((*slot)->key != key)
    return false;
  char *to = put_room(p->out, (*slot)->n);
  memcpy(to, p->out->at + (*slot)->at, (*slot)->n);
  p->out->n += (*slot)->n;
  return true;
}

void print_memo_end(Print *p, PrintMemo *slot, const void *key, size_t from) {
  *slot = (PrintMemo){key, from, p->out->n - from};
}

void print_shape(Print *p, const HlShape *shape) {
  PrintMemo *slot;
  if (print_memo(p, shape, &slot))
    return;
  const size_t from = p->out->n;
  put_shape(p->out, shape, p->how.layouts);
  print_memo_end(p, slot, shape, from);
}

void print_name(Print *p, const HlSym *name) {
  if (p->how.percent)
    put_char_hot(p->out, '%');
  const char *dot = p->how.print_ids ? NULL : memchr(name->text, '.', name->n);
  put_hot(p->out, name->text, dot ? (size_t)(dot - name->text) : name->n);
}

// --- Computations --------------------------------------------------------------------------------

static void print_spaces(Print *p, int n) {
  for (; n > 0; n--)
    put_char_hot(p->out, ' ');
}

// "(p: f32[4], q: f32[]) -> f32[4] "
static void print_signature(Print *p, const HlComp *comp) {
  put_char(p->out, '(');
  for (int k = 0; k < comp->n_params; k++) {
    const HlInst *param = comp->params[k];
    if (k)
      PUT(p->out, ", ");
    if (!param)
      continue;
    const char *dot = p->how.print_ids ? NULL : memchr(param->name->text, '.', param->name->n);
    put(p->out, param->name->text, dot ? (size_t)(dot - param->name->text) : param->name->n);
    PUT(p->out, ": ");
    put_shape(p->out, param->shape, false);
  }
  PUT(p->out, ") -> ");
  if (comp->root)
    put_shape(p->out, comp->root->shape, false);
  put_char(p->out, ' ');
}

// The body of a fusion has no order of its own in a schedule.
static bool is_scheduled(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_FUSION)
      return false;
  return comp->schedule != NULL;
}

static void print_insts(Print *p, const HlComp *comp) {
  HlArena *scratch = hl_cx_scratch(p->cx);
  const HlMark mark = hl_arena_mark(scratch);
  uint32_t *outer = p->canonical;
  const uint32_t outer_next = p->next_canonical;
  const bool scheduled = !p->depth && is_scheduled(comp);
  HlInst *const *order = scheduled ? comp->schedule : hl_post_order(scratch, comp);
  if (p->how.canonical_names) {
    p->canonical = HL_ARRAY(scratch, uint32_t, comp->next_id + 1);
    p->next_canonical = 0;
  }
  for (uint32_t k = 0; k < comp->n_insts && p->budget > 0; k++, p->budget -= p->depth > 0) {
    if (p->how.tuple_elements && print_is_inside(p, order[k]))
      continue;
    print_spaces(p, p->indent);
    if (order[k] == comp->root)
      PUT(p->out, "ROOT ");
    print_inst(p, order[k]);
    put_char_hot(p->out, '\n');
  }
  p->canonical = outer;
  p->next_canonical = outer_next;
  hl_arena_release(scratch, mark);
}

// The braces, what is between them, and the thread.
static void print_braces(Print *p, const HlComp *comp) {
  const bool nested = p->nested;
  PUT(p->out, "{\n");
  p->indent += 2;
  p->nested = true;
  print_insts(p, comp);
  p->nested = nested;
  p->indent -= 2;
  print_spaces(p, p->indent);
  put_char(p->out, '}');
  if (p->how.print_ids && comp->execution_thread) {
    PUT(p->out, ", execution_thread=\"");
    put_sym(p->out, comp->execution_thread);
    put_char(p->out, '"');
  }
}

void print_body(Print *p, const HlComp *comp) {
  print_spaces(p, p->indent);
  if (p->depth >= hl_cx_limits(p->cx)->nesting) {
    PUT(p->out, "{...}");
    hl_error_kind(p->cx, HL_LIMIT, hl_comp_pos(comp),
                  "computations are nested too deeply to print (limit nesting)");
    return;
  }
  p->depth++;
  if (p->how.signatures)
    print_signature(p, comp);
  print_braces(p, comp);
  p->depth--;
}

static void print_comp(Print *p, const HlComp *comp) {
  if (p->how.percent)
    put_char(p->out, '%');
  if (p->how.print_ids) {
    put_sym(p->out, comp->name);
    put_char(p->out, ' ');
  }
  if (p->how.signatures)
    print_signature(p, comp);
  print_braces(p, comp);
}

// --- The header of a module ----------------------------------------------------------------------

static void print_donors(HlBuf *out, const HlModule *m) {
  PUT(out, ", buffer_donor={ ");
  for (int k = 0; k < m->n_buffer_donor; k++) {
    put_text(out, k ? ", (" : "(");
    put_i64(out, m->buffer_donor[k].number);
    PUT(out, ", ");
    put_braced(out, m->buffer_donor[k].index);
    put_char(out, ')');
  }
  PUT(out, " }");
}

// What the entry's parameters and result look like: as set, or as the entry has them.
static void print_entry_layout(HlBuf *out, const HlModule *m) {
  const HlComp *entry = m->entry;
  const HlShape *result = m->entry_result;
  if (!result && entry && entry->root)
    result = entry->root->shape;
  if (!result)
    return;
  const int n = m->entry_result ? m->n_entry_params : entry->n_params;
  PUT(out, ", entry_computation_layout={(");
  for (int k = 0; k < n; k++) {
    if (k)
      put_comma(out, k);
    if (m->entry_result)
      put_shape(out, m->entry_params[k], true);
    else if (entry->params[k])
      put_shape(out, entry->params[k]->shape, true);
  }
  PUT(out, ")->");
  put_shape(out, result, true);
  put_char(out, '}');
}

// Flags of spmd propagation: nothing when none are there or the one is false.
static void print_flags(HlBuf *out, const char *name, HlI64s flags) {
  if (flags.n == 0 || (flags.n == 1 && !flags.at[0]))
    return;
  PUT(out, ", ");
  put_text(out, name);
  PUT(out, "={");
  for (int k = 0; k < flags.n; k++) {
    if (k)
      put_char(out, ',');
    put_text(out, flags.at[k] ? "true" : "false");
  }
  put_char(out, '}');
}

// A text with four spaces before each line that has anything in it.
static void print_indented(HlBuf *out, const char *text, size_t n) {
  for (size_t from = 0; from <= n;) {
    const char *newline = from < n ? memchr(text + from, '\n', n - from) : NULL;
    const size_t end = newline ? (size_t)(newline - text) : n;
    if (end > from)
      PUT(out, "    ");
    put(out, text + from, end - from);
    put_char(out, '\n');
    from = end + 1;
  }
}

static void print_recovery(Print *p, const HlRecovery *row) {
  HlBuf *out = p->out;
  PUT(out, "  {");
  print_origin(out, row->old_array);
  PUT(out, "} : {");
  print_origin(out, row->new_array);
  PUT(out, "}");
  if (row->module || row->text)
    PUT(out, ",\n  \"");
  if (row->module) {
    HlBuf inner = {0};
    hl_text_print(p->cx, row->module, NULL, &inner);
    put_char(out, '\n');
    print_indented(out, inner.at, inner.n);
    hl_buf_free(&inner);
    PUT(out, "  \"");
  } else if (row->text) {
    put_sym(out, row->text);
    put_char(out, '"');
  }
  put_char(out, '\n');
}

// By name, then by index.
static int compare_arrays(const HlOrigin *x, const HlOrigin *y) {
  const int by_name = x->name && y->name ? strcmp(x->name->text, y->name->text) : 0;
  if (by_name)
    return by_name;
  for (int k = 0; k < x->index.n && k < y->index.n; k++)
    if (x->index.at[k] != y->index.at[k])
      return x->index.at[k] < y->index.at[k] ? -1 : 1;
  return (x->index.n > y->index.n) - (x->index.n < y->index.n);
}

static int compare_rows(const void *a, const void *b) {
  const HlRecovery *x = *(const HlRecovery *const *)a, *y = *(const HlRecovery *const *)b;
  const int by_array = compare_arrays(x->old_array, y->old_array);
  return by_array ? by_array : (x > y) - (x < y);
}

static void print_recoveries(Print *p, const HlModule *m) {
  if (!m->n_recovery || p->depth >= hl_cx_limits(p->cx)->nesting)
    return;
  const HlRecovery **rows = HL_ARRAY(hl_cx_scratch(p->cx), const HlRecovery *, m->n_recovery);
  for (int k = 0; k < m->n_recovery; k++)
    rows[k] = &m->recovery[k];
  qsort(rows, (size_t)m->n_recovery, sizeof *rows, compare_rows);
  PUT(p->out, ", origin_recovery_table={\n");
  p->depth++;
  for (int k = 0; k < m->n_recovery; k++)  // the first row of an array counts
    if (!k || compare_arrays(rows[k - 1]->old_array, rows[k]->old_array))
      print_recovery(p, rows[k]);
  p->depth--;
  PUT(p->out, "}\n");
}

// {log_mode=default,callback_id=3,partitioned=true,op_id=2}
static void print_debug_attrs(HlBuf *out, const HlDebugAttrs *at) {
  const char *mode = hl_enum_text(&hl_enums[HL_ENUM_debug_log_mode], at->log_mode);
  const char *comma = "";
  put_char(out, '{');
  if (mode) {
    PUT(out, "log_mode=");
    put_text(out, mode);
    comma = ",";
  }
  if (at->callback_id) {
    put_text(out, comma);
    PUT(out, "callback_id=");
    put_i64(out, at->callback_id);
    comma = ",";
  }
  if (at->partitioned) {
    put_text(out, comma);
    PUT(out, "partitioned=true");
    comma = ",";
  }
  if (at->op_id) {
    put_text(out, comma);
    PUT(out, "op_id=");
    put_i64(out, at->op_id);
  }
  put_char(out, '}');
}

static void print_debug(HlBuf *out, const HlModule *m) {
  for (int k = 0; k < m->n_debug; k++) {
    put_text(out, k ? ",\n  {" : ",\ndebug_attributes={\n  {");
    print_origin(out, m->debug[k].array);
    PUT(out, "}:(");
    for (int i = 0; i < m->debug[k].n; i++) {
      if (i)
        put_char(out, ',');
      print_debug_attrs(out, &m->debug[k].at[i]);
    }
    put_char(out, ')');
  }
  if (m->n_debug)
    PUT(out, "\n}");
}

static void print_header(Print *p, const HlModule *m) {
  HlBuf *out = p->out;
  PUT(out, "HloModule ");
  if (p->how.print_ids)
    put_sym(out, m->name);
  if (m->is_scheduled)
    PUT(out, ", is_scheduled=true");
  if (m->input_output_alias.n) {
    PUT(out, ", input_output_alias={ ");
    print_aliases(out, m->input_output_alias, true);
    PUT(out, " }");
  }
  if (m->n_buffer_donor)
    print_donors(out, m);
  if (m->alias_passthrough_params)
    PUT(out, ", alias_passthrough_params=true");
  print_entry_layout(out, m);
  print_flags(out, "allow_spmd_sharding_propagation_to_parameters", m->spmd_to_parameters);
  print_flags(out, "allow_spmd_sharding_propagation_to_output", m->spmd_to_output);
  if (m->replica_count != 1) {
    PUT(out, ", replica_count=");
    put_i64(out, m->replica_count);
  }
  if (m->num_partitions != 1) {
    PUT(out, ", num_partitions=");
    put_i64(out, m->num_partitions);
  }
  if (m->frontend_attributes.n) {
    PUT(out, ", frontend_attributes=");
    print_dict(out, &m->frontend_attributes);
  }
  print_recoveries(p, m);
  print_debug(out, m);
}

// --- Stack-frame tables --------------------------------------------------------------------------

static void print_strings(HlBuf *out, const char *title, const HlSym *const *names, int n) {
  PUT(out, "\n");
  put_text(out, title);
  for (int k = 0; k < n; k++) {
    put_char(out, '\n');
    put_i64(out, k + 1);
    PUT(out, " \"");
    if (names[k])
      hl_buf_c_escape(out, names[k]->text, names[k]->n);
    put_char(out, '"');
  }
  put_char(out, '\n');
}

static void print_location(HlBuf *out, int k, const HlFileLocation *at) {
  const struct {
    const char *name;
    int32_t value;
  } fields[] = {{" {file_name_id=", at->file_name_id},
                {" function_name_id=", at->function_name_id},
                {" line=", at->line},
                {" end_line=", at->end_line},
                {" column=", at->column},
                {" end_column=", at->end_column}};
  put_i64(out, k + 1);
  for (int f = 0; f < HL_COUNT_OF(fields); f++) {
    put_text(out, fields[f].name);
    put_i64(out, fields[f].value);
  }
  PUT(out, "}\n");
}

static void print_frames(HlBuf *out, const HlFrames *frames) {
  print_strings(out, "FileNames", (const HlSym *const *)frames->file_names, frames->n_file_names);
  print_strings(out, "FunctionNames", (const HlSym *const *)frames->function_names,
                frames->n_function_names);
  PUT(out, "\nFileLocations\n");
  for (int k = 0; k < frames->n_locations; k++)
    print_location(out, k, &frames->locations[k]);
  PUT(out, "\nStackFrames\n");
  for (int k = 0; k < frames->n_frames; k++) {
    put_i64(out, k + 1);
    PUT(out, " {file_location_id=");
    put_i64(out, frames->frames[k].file_location_id);
    PUT(out, " parent_frame_id=");
    put_i64(out, (int64_t)frames->frames[k].parent_frame_id + 1);
    PUT(out, "}\n");
  }
  put_char(out, '\n');
}

// --- Whole modules -------------------------------------------------------------------------------

static Print begin(HlCx *cx, const HlTextOptions *options, const HlModule *m, HlBuf *out) {
  return (Print){.out = out,
                 .how = how_of(options, m),
                 .cx = cx,
                 .dialect = m->dialect,
                 .memo = HL_ARRAY(hl_cx_scratch(cx), PrintMemo, PRINT_MEMOS),
                 .budget = hl_cx_limits(cx)->instructions / 8 + 1};
}

static void finish(Print *p, HlMark mark) {
  if (p->budget <= 0)
    hl_error_kind(
        p->cx, HL_LIMIT, (HlPos){0},
        "the bodies of called computations have more than %lld instructions (limit instructions)",
        (long long)hl_cx_limits(p->cx)->instructions / 8);
  put_end(p->out);
  hl_arena_release(hl_cx_scratch(p->cx), mark);
}

void hl_text_print(HlCx *cx, const HlModule *m, const HlTextOptions *options, HlBuf *out) {
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  Print p = begin(cx, options, m, out);
  print_header(&p, m);
  put_char(out, '\n');
  if (p.how.frames && p.how.metadata && m->frames.n_frames)
    print_frames(out, &m->frames);
  put_char(out, '\n');
  HlComp **order = p.how.list_order ? NULL : hl_comp_order(scratch, m);
  const HlComp *next = m->first;
  for (uint32_t k = 0; k < m->n_comps; k++) {
    const HlComp *comp = order ? order[k] : next;
    next = order ? NULL : comp->next;
    if (p.how.async_sugar && print_is_sugar_body(comp))
      continue;
    if (comp == m->entry)
      PUT(out, "ENTRY ");
    print_comp(&p, comp);
    PUT(out, "\n\n");
  }
  finish(&p, mark);
}

void hl_text_print_comp(HlCx *cx, const HlComp *comp, const HlTextOptions *options, HlBuf *out) {
  const HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  Print p = begin(cx, options, comp->module, out);
  print_comp(&p, comp);
  finish(&p, mark);
}

void hl_text_print_inst(HlCx *cx, const HlInst *inst, const HlTextOptions *options, HlBuf *out) {
  const HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  Print p = begin(cx, options, inst->comp->module, out);
  print_inst(&p, inst);
  finish(&p, mark);
}
