// tool/form.c: writes a module in any of the forms that there are.
#include "tool/form.h"

#include <string.h>

#include "hilo/opt.h"
#include "hilo/pass.h"

static const Form forms[] = {
    {"hlo", FORM_TEXT, HL_PROTO_NONE, true, ".hlo"},
    {"proto", FORM_PROTO, HL_PROTO_MODULE, false, ".pb"},
    {"hloproto", FORM_PROTO, HL_PROTO_HLO, false, ".hlo.pb"},
    {"pbtxt", FORM_PROTO, HL_PROTO_HLO, true, ".pbtxt"},
    {"snapshot", FORM_PROTO, HL_PROTO_SNAPSHOT, false, ".snapshot.pb"},
    {"json", FORM_JSON, HL_PROTO_NONE, true, ".json"},
    {"txt", FORM_TEXT, HL_PROTO_NONE, true, ".txt"},
    {"stablehlo", FORM_MLIR, HL_PROTO_NONE, true, ".mlir"},
    {"mhlo", FORM_MLIR, HL_PROTO_NONE, true, ".mhlo"},
    {"mlirbc", FORM_ARTIFACT, HL_PROTO_NONE, false, ".mlirbc"},
    {"dot", FORM_VIEW, HL_PROTO_NONE, true, ".dot"},
    {"svg", FORM_VIEW, HL_PROTO_NONE, true, ".svg"},
    {"html", FORM_VIEW, HL_PROTO_NONE, true, ".html"},
};

// Words that people try.
static const struct {
  const char *word, *name;
} other_names[] = {{"text", "hlo"},
                   {"pb", "proto"},
                   {"mlir", "stablehlo"},
                   {"bc", "mlirbc"},
                   {"textproto", "pbtxt"}};

const Form *form_at(int k) {
  return k < HL_COUNT_OF(forms) ? &forms[k] : NULL;
}

const Form *form_by_name(const char *name) {
  size_t n = strcspn(name, "=");
  for (int k = 0; k < HL_COUNT_OF(other_names); k++)
    if (strlen(other_names[k].word) == n && memcmp(other_names[k].word, name, n) == 0)
      return form_by_name(other_names[k].name);
  for (int k = 0; k < HL_COUNT_OF(forms); k++)
    if (strlen(forms[k].name) == n && memcmp(forms[k].name, name, n) == 0)
      return &forms[k];
  return NULL;
}

void form_warn_elided(HlCx *cx, const HlModule *m) {
  const HlInst *first = NULL;
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_CONSTANT && hl_constant(inst) &&
          hl_literal_is_elided(hl_constant(inst))) {
        first = first ? first : inst;
        n++;
      }
  if (n > 0)
    hl_warn(cx, hl_pos(first),
            "%d constant%s without a value, the first '%s': in a proto they have no literal, which "
            "no reader takes, Hilo's and XLA's neither",
            n, n == 1 ? "" : "s", first->name->text);
}

// --- MLIR -----------------------------------------------------------------------------------------

// Whether some instruction has no word in StableHLO but CHLO's, which artifacts do not hold.
static const HlInst *find_ragged(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_RAGGED_DOT)
        return inst;
  return NULL;
}

// The module with dots over groups as dots of masked operands; NULL after reporting.
static HlModule *without_ragged(HlCx *cx, const HlModule *m, const HlInst *ragged) {
  hl_tell(cx, hl_pos(ragged),
          "artifacts have no %s: it is written as a dot of operands masked by groups",
          hl_op_text(ragged->op));
  HlModule *copy = hl_clone(cx, m);
  if (!copy)
    return NULL;
  HlEngine *engine =
      hl_engine_new(cx, &(HlEngineOptions){.passes = &hl_passes, .pipelines = &hl_pipelines});
  const bool ok = hl_engine_run(engine, copy, "ragged_dot_rewriter");
  hl_engine_free(engine);
  if (ok)
    return copy;
  hl_module_free(copy);
  return NULL;
}

bool form_write_artifact(HlCx *cx, HlMlTree *tree, HlMlVersion version, HlBuf *out) {
  const HlMlVersion none = {0};
  hl_ml_make_portable(tree);
  return hl_ml_artifact_write(
      cx, tree, memcmp(&version, &none, sizeof none) == 0 ? hl_ml_portable_version() : version,
      out);
}

static bool write_artifact(HlCx *cx, const HlModule *m, HlMlVersion version, HlBuf *out) {
  const HlInst *ragged = find_ragged(m);
  HlModule *plain = ragged ? without_ragged(cx, m, ragged) : NULL;
  HlMlTree *tree = plain || !ragged ? hl_ml_from_hlo(cx, plain ? plain : m, false) : NULL;
  bool ok = tree && form_write_artifact(cx, tree, version, out);
  hl_ml_free(tree);
  hl_module_free(plain);
  return ok;
}

static bool write_mlir(HlCx *cx, const HlModule *m, bool mhlo, const HlMlTextOptions *options,
                       HlBuf *out) {
  HlMlTree *tree = hl_ml_from_hlo(cx, m, mhlo);
  if (tree)
    hl_ml_text_print(tree, options, out);
  hl_ml_free(tree);
  return tree != NULL;
}

// --- Any form -------------------------------------------------------------------------------------

// A picture of the entry, or a page of all computations.
static void write_picture(HlCx *cx, const Form *form, const HlModule *m,
                          const HlViewOptions *options, HlBuf *out) {
  if (strcmp(form->name, "dot") == 0)
    hl_view_dot(cx, m->entry, options, out);
  else if (strcmp(form->name, "svg") == 0)
    hl_view_svg(cx, m->entry, options, out);
  else
    hl_view_page(cx, m, options, out);
}

bool form_write(HlCx *cx, const Form *form, const HlModule *m, const FormOptions *options,
                HlBuf *out) {
  if (form->kind == FORM_PROTO || form->kind == FORM_JSON)
    form_warn_elided(cx, m);
  switch (form->kind) {
  case FORM_TEXT: hl_text_print(cx, m, &options->text, out); return true;
  case FORM_PROTO:
    return hl_proto_write(cx, m, form->proto, form->as_text, options->recorded, out);
  case FORM_JSON: return hl_proto_write_json(cx, m, out);
  case FORM_MLIR:
    return write_mlir(cx, m, strcmp(form->name, "mhlo") == 0, &options->mlir, out);
  case FORM_ARTIFACT: return write_artifact(cx, m, options->version, out);
  case FORM_VIEW: write_picture(cx, form, m, &options->view, out); return true;
  }
  return false;
}
