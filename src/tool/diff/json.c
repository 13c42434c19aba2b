// tool/diff/json.c: what differs, for programs.

#include <inttypes.h>

#include "tool/diff/json.h"
#include "tool/json.h"

static void inst_json(HlBuf *out, const char *key, const HlInst *inst) {
  if (!inst)
    return;
  json_open(out, key, '{');
  json_text(out, "computation", inst->comp->name->text);
  json_text(out, "name", inst->name->text);
  json_text(out, "op", hl_op_text((HlOp)inst->op));
  json_close(out, '}');
}

static void row_json(HlBuf *out, const HlDiffRow *row) {
  json_open(out, NULL, '{');
  json_text(out, "verdict", hl_verdict_text(row->verdict));
  inst_json(out, "a", row->a);
  inst_json(out, "b", row->b);
  inst_json(out, "into", row->into);
  json_open(out, "what", '[');
  for (int k = 0; k < HL_DIFF_WHATS; k++)
    if (row->what >> k & 1)
      json_text(out, NULL, hl_diff_what_text((HlDiffWhat)(1 << k)));
  json_close(out, ']');
  json_text(out, "by", hl_diff_by_text(row->by));
  json_int(out, "times", row->times);
  json_int(out, "group", row->group);
  json_text(out, "detail", row->detail);
  json_close(out, '}');
}

static void groups_json(HlBuf *out, const HlDiff *diff) {
  json_open(out, "groups", '[');
  for (int k = 0; k < diff->n_groups; k++) {
    const HlDiffGroup *group = &diff->group[k];
    json_open(out, NULL, '{');
    json_int(out, "instructions", group->n);
    json_int(out, "times", group->times);
    json_open(out, "places", '[');
    for (int j = 0; j < group->times; j++) {
      const HlDiffRow *row = &diff->row[group->first[j]];
      json_text(out, NULL, (row->a ? row->a : row->b)->name->text);
    }
    json_close(out, ']');
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void names_json(HlBuf *out, const HlDiff *diff) {
  json_open(out, "names", '{');
  json_bool(out, "module", diff->module_renamed);
  json_int(out, "computations", diff->comps_renamed);
  json_int(out, "instructions", diff->insts_renamed);
  json_int(out, "reordered", diff->insts_reordered);
  json_close(out, '}');
}

static void fingerprint_json(HlBuf *out, const HlDiff *diff) {
  HlBuf text = {0};
  json_open(out, "module_fingerprint", '{');
  hl_buf_printf(&text, "%016" PRIx64, diff->fingerprint_a);
  json_text(out, "a", text.at);
  text.n = 0;
  hl_buf_printf(&text, "%016" PRIx64, diff->fingerprint_b);
  json_text(out, "b", text.at);
  json_text(out, "why", diff->fingerprint_why);
  json_close(out, '}');
  hl_buf_free(&text);
}

void diff_json(HlBuf *out, const HlDiff *diff, bool all) {
  json_text(out, "module", diff->a->name->text);
  json_text(out, "other_module", diff->b->name->text);
  json_text(out, "headline", hl_diff_headline(diff));
  json_bool(out, "equal", diff->equal);
  json_bool(out, "same_program", diff->same_program);
  json_int(out, "elided", diff->n_elided);
  json_bool(out, "stages", diff->stages);
  json_open(out, "counts", '{');
  for (int k = 0; k < HL_DIFF_VERDICTS; k++)
    json_int(out, hl_verdict_text((HlVerdict)k), diff->count[k]);
  json_close(out, '}');
  json_open(out, "header", '[');
  for (int k = 0; k < diff->n_header; k++)
    json_text(out, NULL, diff->header[k]);
  json_close(out, ']');
  names_json(out, diff);
  fingerprint_json(out, diff);
  groups_json(out, diff);
  json_open(out, "instructions", '[');
  for (int k = 0; k < diff->n_rows; k++)
    if (all || diff->row[k].verdict != HL_DIFF_SAME)
      row_json(out, &diff->row[k]);
  json_close(out, ']');
}
