// parse_header.c: reads the attributes of the HloModule line and the stack-frame tables
// (hlo.md 1.3, 1.4).

#include "text/parse.h"

#include <string.h>

// --- Attributes of the module --------------------------------------------------------------------

static bool read_scheduled(Parser *p) {
  bool scheduled;
  if (!parse_bool(p, &scheduled))
    return false;
  hl_set_scheduled(p->m, scheduled);
  return true;
}

static bool read_passthrough(Parser *p) {
  bool passthrough;
  if (!parse_bool(p, &passthrough))
    return false;
  hl_set_passthrough(p->m, passthrough);
  return true;
}

static bool read_replicas(Parser *p) {
  int64_t n;
  if (!lex_int(&p->in, &n))
    return false;
  hl_set_devices(p->m, n, p->m->num_partitions);
  return true;
}

static bool read_partitions(Parser *p) {
  int64_t n;
  if (!lex_int(&p->in, &n))
    return false;
  hl_set_devices(p->m, p->m->replica_count, n);
  return true;
}

// Output indices are in tree order; of two with the same index the first counts.
static bool read_aliases(Parser *p) {
  HlAliases list;
  if (!parse_aliases(p, true, &list))
    return false;
  HlAlias *sorted = HL_ARRAY(p->m->arena, HlAlias, list.n);
  int n = 0;
  for (int k = 0; k < list.n; k++) {
    int at = n;
    while (at > 0 && hl_i64s_compare(sorted[at - 1].output, list.at[k].output) > 0)
      at--;
    if (at > 0 && hl_i64s_equal(sorted[at - 1].output, list.at[k].output))
      continue;
    memmove(sorted + at + 1, sorted + at, sizeof *sorted * (size_t)(n - at));
    sorted[at] = list.at[k];
    n++;
  }
  hl_set_aliases(p->m, n, sorted);
  return true;
}

static int compare_donors(const HlDonor *a, const HlDonor *b) {
  if (a->number != b->number)
    return a->number < b->number ? -1 : 1;
  return hl_i64s_compare(a->index, b->index);
}

// { (0, {}), (3, {1}) }, sorted, each once.
static bool read_donors(Parser *p) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "at the start of the buffer donors"))
    return false;
  while (!lex_at(&p->in, '}')) {
    HlDonor *donor = HL_NEW(p->m->arena, HlDonor);
    if (!lex_need(&p->in, '(', "to start a buffer donor"))
      return false;
    const char *at = p->in.at;
    if (!lex_int(&p->in, &donor->number) ||
        !lex_need(&p->in, ',', "after a buffer donor's parameter number") ||
        !parse_shape_index(p, &donor->index) || !lex_need(&p->in, ')', "to end a buffer donor"))
      return false;
    if (donor->number < 0)
      return parse_error(p, at, "parameter number must be >= 0");
    parse_push_ptr(p, donor);
    if (!lex_eat(&p->in, ','))
      break;
  }
  HlDonor *list = HL_ARRAY(p->m->arena, HlDonor, p->ptrs.n - base);
  int n = 0;
  for (int k = base; k < p->ptrs.n; k++) {
    const HlDonor *donor = p->ptrs.at[k];
    int at = n;
    while (at > 0 && compare_donors(&list[at - 1], donor) > 0)
      at--;
    if (at > 0 && compare_donors(&list[at - 1], donor) == 0)
      continue;
    memmove(list + at + 1, list + at, sizeof *list * (size_t)(n - at));
    list[at] = *donor;
    n++;
  }
  hl_set_donors(p->m, n, list);
  p->ptrs.n = base;
  return lex_need(&p->in, '}', "at the end of the buffer donors");
}

// {(shape, shape)->shape}
static bool read_entry_layout(Parser *p) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "at the start of the entry layout") ||
      !lex_need(&p->in, '(', "before the shapes of the parameters"))
    return false;
  while (!lex_at(&p->in, ')')) {
    const HlShape *shape;
    if (!parse_shape(p, &shape))
      return false;
    parse_push_ptr(p, shape);
    if (!lex_eat(&p->in, ','))
      break;
  }
  int n;
  const HlShape *result;
  const HlShape *const *params = (const HlShape *const *)parse_take_ptrs(p, base, &n);
  if (!lex_need(&p->in, ')', "at the end of the shapes of the parameters"))
    return false;
  if (!lex_eat_pair(&p->in, "->"))
    return lex_expected(&p->in, "'->' before the result's shape");
  if (!parse_shape(p, &result))
    return false;
  hl_set_entry_layout(p->m, n, params, result);
  return lex_need(&p->in, '}', "at the end of the entry layout");
}

// {true,false} or true.
static bool read_bools(Parser *p, HlI64s *out) {
  const int base = p->ints.n;
  const bool list = lex_eat(&p->in, '{');
  if (!list || !lex_at(&p->in, '}')) {
    do {
      bool value;
      if (!parse_bool(p, &value))
        return false;
      parse_push_int(p, value);
    } while (list && lex_eat(&p->in, ','));
  }
  *out = parse_take_ints(p, base);
  return !list || lex_need(&p->in, '}', "to end the list of booleans");
}

static bool read_to_parameters(Parser *p) {
  HlI64s to;
  if (!read_bools(p, &to))
    return false;
  hl_set_spmd_propagation(p->m, to, p->m->spmd_to_output);
  return true;
}

static bool read_to_output(Parser *p) {
  HlI64s to;
  if (!read_bools(p, &to))
    return false;
  hl_set_spmd_propagation(p->m, p->m->spmd_to_parameters, to);
  return true;
}

static bool read_frontend_attributes(Parser *p) {
  const HlDict *dict;
  if (!parse_dict(p, &dict))
    return false;
  hl_set_module_attributes(p->m, *dict);
  return true;
}

// { {"a"} : {"b" {0}}, "module text" ... }
static bool read_recovery_rows(Parser *p, HlBuf *rows) {
  while (!lex_at(&p->in, '}')) {
    const HlOrigin *old_array, *new_array;
    const HlSym *text = NULL;
    HlModule *module = NULL;
    if (!parse_origin_leaf(p, &old_array) ||
        !lex_need(&p->in, ':', "between the two arrays of the recovery table") ||
        !parse_origin_leaf(p, &new_array))
      return false;
    if (lex_eat(&p->in, ',')) {
      HlStr string;
      const char *at = p->in.at;
      if (!lex_string(&p->in, &string))
        return false;
      text = parse_sym(p, string);
      module = parse_inner_module(p, (HlStr){text->text, text->n});
      if (!module)
        return parse_error(p, at, "the recovery module does not parse");
    }
    const HlRecovery row = {old_array, new_array, module, text};
    hl_buf_add(rows, &row, sizeof row);
  }
  lex_move(&p->in, p->in.at + 1);
  return true;
}

static bool read_recovery_table(Parser *p) {
  if (!lex_need(&p->in, '{', "to start the recovery table"))
    return false;
  HlBuf rows = {0};  // of HlRecovery
  const bool ok = read_recovery_rows(p, &rows);
  // After an error, too: the module owns the modules of the rows before it.
  hl_set_recovery(p->m, (int)(rows.n / sizeof(HlRecovery)),
                  (const HlRecovery *)(const void *)rows.at);
  hl_buf_free(&rows);
  return ok;
}

// {log_mode=default,callback_id=3,partitioned=true,op_id=2}
static bool read_debug_attrs(Parser *p, HlDebugAttrs *out) {
  if (!lex_need(&p->in, '{', "to start the debug attributes of an array"))
    return false;
  if (lex_eat(&p->in, '}'))
    return true;
  do {
    bool ok;
    if (parse_eat_name(p, "log_mode"))
      ok = parse_enum(p, &hl_enums[HL_ENUM_debug_log_mode], &out->log_mode);
    else if (parse_eat_name(p, "callback_id"))
      ok = lex_int(&p->in, &out->callback_id);
    else if (parse_eat_name(p, "op_id"))
      ok = lex_int(&p->in, &out->op_id);
    else if (parse_eat_name(p, "partitioned"))
      ok = parse_bool(p, &out->partitioned);
    else
      ok = lex_expected(&p->in, "log_mode=, callback_id=, partitioned= or op_id=");
    if (!ok)
      return false;
  } while (lex_eat(&p->in, ','));
  return lex_need(&p->in, '}', "to end the debug attributes of an array");
}

// {"p"}:({op_id=2},{callback_id=3}), or without parentheses where there is one.
static bool read_debug_row(Parser *p, HlDebugRow *out) {
  const int base = p->ptrs.n;
  if (!parse_origin_leaf(p, &out->array) ||
      !lex_need(&p->in, ':', "between an array and its debug attributes"))
    return false;
  const bool list = lex_eat(&p->in, '(');
  while (!list || !lex_at(&p->in, ')')) {
    HlDebugAttrs *at = HL_NEW(p->m->arena, HlDebugAttrs);
    if (!read_debug_attrs(p, at))
      return false;
    parse_push_ptr(p, at);
    if (!list || !lex_eat(&p->in, ','))
      break;
  }
  out->n = p->ptrs.n - base;
  HlDebugAttrs *at = HL_ARRAY(p->m->arena, HlDebugAttrs, out->n);
  for (int k = 0; k < out->n; k++)
    at[k] = *(const HlDebugAttrs *)p->ptrs.at[base + k];
  out->at = at;
  p->ptrs.n = base;
  return !list || lex_need(&p->in, ')', "to end the debug attributes");
}

// An array of which nothing is said has no row.
static bool read_debug(Parser *p) {
  dialect_has(&p->signs, hl_news_since(HL_NEWS_DEBUG_ATTRIBUTES));
  if (!lex_need(&p->in, '{', "to start debug_attributes"))
    return false;
  HlBuf rows = {0};  // of HlDebugRow
  bool ok = true;
  if (!lex_at(&p->in, '}'))
    do {
      HlDebugRow row = {0};
      ok = read_debug_row(p, &row);
      if (ok && row.n)
        hl_buf_add(&rows, &row, sizeof row);
    } while (ok && lex_eat(&p->in, ','));
  hl_set_debug(p->m, (int)(rows.n / sizeof(HlDebugRow)), (const HlDebugRow *)(const void *)rows.at);
  hl_buf_free(&rows);
  return ok && lex_need(&p->in, '}', "to end debug_attributes");
}

static const struct {
  const char *name;
  bool (*read)(Parser *p);
} attributes[] = {
    {"alias_passthrough_params", read_passthrough},
    {"allow_spmd_sharding_propagation_to_output", read_to_output},
    {"allow_spmd_sharding_propagation_to_parameters", read_to_parameters},
    {"buffer_donor", read_donors},
    {"debug_attributes", read_debug},
    {"entry_computation_layout", read_entry_layout},
    {"frontend_attributes", read_frontend_attributes},
    {"input_output_alias", read_aliases},
    {"is_scheduled", read_scheduled},
    {"num_partitions", read_partitions},
    {"origin_recovery_table", read_recovery_table},
    {"replica_count", read_replicas},
};
enum { N_ATTRIBUTES = HL_COUNT_OF(attributes) };

static bool unexpected_attribute(Parser *p, const char *at, int n) {
  const char *names[N_ATTRIBUTES];
  HlBuf all = {0};
  for (int k = 0; k < N_ATTRIBUTES; k++) {
    names[k] = attributes[k].name;
    hl_buf_printf(&all, "%s%s", k ? ", " : "", names[k]);
  }
  parse_error(p, at, "unexpected attribute \"%.*s\"; allowed attributes: %s", n, at, all.at);
  hl_buf_free(&all);
  const char *near = hl_nearest((HlStr){at, (size_t)n}, names, N_ATTRIBUTES);
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  return false;
}

static bool read_attribute(Parser *p, uint32_t *seen) {
  const char *at = p->in.at, *end = lex_is(*at, LEX_START) ? lex_ident_end(at) : at;
  if (end == at || *end != '=')
    return lex_expected(&p->in, "an attribute of the module such as is_scheduled=true");
  for (int k = 0; k < N_ATTRIBUTES; k++) {
    if (!hl_str_is((HlStr){at, (size_t)(end - at)}, attributes[k].name))
      continue;
    if (*seen & 1u << k)
      return parse_error(p, at, "attribute %s already exists", attributes[k].name);
    *seen |= 1u << k;
    lex_move(&p->in, end + 1);
    return attributes[k].read(p);
  }
  return unexpected_attribute(p, at, (int)(end - at));
}

// Moves to the next line that is not part of the header.
static bool skip_header(Parser *p) {
  const char *line = memchr(p->in.at, '\n', (size_t)(p->in.end - p->in.at));
  lex_move(&p->in, line ? line : p->in.end);
  return false;
}

bool parse_header(Parser *p) {
  uint32_t seen = 0;
  const int ints = p->ints.n, ptrs = p->ptrs.n;
  while (lex_eat(&p->in, ','))
    if (!read_attribute(p, &seen)) {
      p->ints.n = ints;
      p->ptrs.n = ptrs;
      return skip_header(p);
    }
  return true;
}

// --- Stack frames --------------------------------------------------------------------------------

// Rows `1 "text"`.
static bool read_texts(Parser *p, const HlSym *const **out, int *n) {
  const int base = p->ptrs.n;
  while (lex_is(*p->in.at, LEX_DIGIT)) {
    int64_t number;
    HlStr text;
    if (!lex_int(&p->in, &number) || !lex_string(&p->in, &text))
      return false;
    parse_push_ptr(p, parse_sym(p, text));
  }
  *out = (const HlSym *const *)parse_take_ptrs(p, base, n);
  return true;
}

// The names mostly stand in their order: the one of this place is tried first. n: none is the word.
static int find_name(const char *const *names, int n, int place, HlStr word) {
  if (place < n && hl_str_is(word, names[place]))
    return place;
  int k = 0;
  while (k < n && !hl_str_is(word, names[k]))
    k++;
  return k;
}

// "{name=1 name=2 ...}" with each of the names once, into int32 values.
static bool read_row(Parser *p, const char *const *names, int n, int32_t *values) {
  const char *at = p->in.at;
  uint32_t seen = 0;
  if (!lex_need(&p->in, '{', "to start a row of the table"))
    return false;
  for (int place = 0; !lex_at(&p->in, '}'); place++) {
    lex_eat(&p->in, ',');
    const char *s = p->in.at, *end = lex_ident_end(s);
    const int k = find_name(names, n, place, (HlStr){s, (size_t)(end - s)});
    if (k == n || *end != '=' || seen & 1u << k)
      return lex_expected(&p->in, "%s= to %s=, each once", names[0], names[n - 1]);
    seen |= 1u << k;
    lex_move(&p->in, end + 1);
    if (!parse_int32(p, &values[k]))
      return false;
  }
  for (int k = 0; k < n; k++)
    if (!(seen & 1u << k))
      return parse_error(p, at, "sub-attribute %s is expected but not seen", names[k]);
  lex_move(&p->in, p->in.at + 1);
  return true;
}

static bool read_locations(Parser *p, HlFrames *frames) {
  static const char *const names[] = {"file_name_id", "function_name_id", "line",
                                      "end_line",     "column",           "end_column"};
  const int base = p->ints.n;
  while (lex_is(*p->in.at, LEX_DIGIT)) {
    int64_t number;
    int32_t values[6];
    if (!lex_int(&p->in, &number) || !read_row(p, names, 6, values))
      return false;
    for (int k = 0; k < 6; k++)
      parse_push_int(p, values[k]);
  }
  frames->n_locations = (p->ints.n - base) / 6;
  HlFileLocation *locations = HL_ARRAY(p->m->arena, HlFileLocation, frames->n_locations);
  for (int k = 0; k < frames->n_locations; k++) {
    const int64_t *row = p->ints.at + base + 6 * k;
    locations[k] = (HlFileLocation){.file_name_id = (int32_t)row[0],
                                    .function_name_id = (int32_t)row[1],
                                    .line = (int32_t)row[2],
                                    .end_line = (int32_t)row[3],
                                    .column = (int32_t)row[4],
                                    .end_column = (int32_t)row[5]};
  }
  frames->locations = locations;
  p->ints.n = base;
  return true;
}

static bool read_frames(Parser *p, HlFrames *frames) {
  static const char *const names[] = {"file_location_id", "parent_frame_id"};
  const int base = p->ints.n;
  while (lex_is(*p->in.at, LEX_DIGIT)) {
    int64_t number;
    int32_t values[2];
    if (!lex_int(&p->in, &number) || !read_row(p, names, 2, values))
      return false;
    parse_push_int(p, values[0]);
    parse_push_int(p, (int64_t)values[1] - 1);
  }
  frames->n_frames = (p->ints.n - base) / 2;
  HlStackFrame *stack = HL_ARRAY(p->m->arena, HlStackFrame, frames->n_frames);
  for (int k = 0; k < frames->n_frames; k++)
    stack[k] = (HlStackFrame){.file_location_id = (int32_t)p->ints.at[base + 2 * k],
                              .parent_frame_id = (int32_t)p->ints.at[base + 2 * k + 1]};
  frames->frames = stack;
  p->ints.n = base;
  return true;
}

static bool need_table(Parser *p, const char *word) {
  return lex_eat_word(&p->in, word) || lex_expected(&p->in, "'%s'", word);
}

bool parse_frames(Parser *p) {
  HlFrames frames = {0};
  if (!lex_eat_word(&p->in, "FileNames"))
    return true;
  const bool ok = read_texts(p, &frames.file_names, &frames.n_file_names) &&
                  need_table(p, "FunctionNames") &&
                  read_texts(p, &frames.function_names, &frames.n_function_names) &&
                  need_table(p, "FileLocations") && read_locations(p, &frames) &&
                  need_table(p, "StackFrames") && read_frames(p, &frames);
  hl_set_frames(p->m, &frames);
  return ok;
}
