// tool/form.h: the forms that a module is written in, and writing one.
#ifndef TOOL_FORM_H
#define TOOL_FORM_H

#include "hilo/mlir.h"
#include "hilo/proto.h"
#include "hilo/text.h"
#include "hilo/view.h"

typedef enum FormKind {
  FORM_TEXT,
  FORM_PROTO,
  FORM_JSON,
  FORM_MLIR,
  FORM_ARTIFACT,
  FORM_VIEW
} FormKind;

typedef struct Form {
  const char *name;
  FormKind kind;
  HlProtoForm proto;
  bool as_text;
  const char *ending;  // of a file name that means this form
} Form;

// The form of number k, from 0, which is text; NULL beyond the last.
const Form *form_at(int k);
// By its name or a word that people try, up to a '=' ("mlirbc=1.16.2"); NULL: there is none.
const Form *form_by_name(const char *name);

typedef struct FormOptions {
  HlTextOptions text;
  HlMlTextOptions mlir;
  HlMlVersion version;         // of an artifact; {0}: one that all in JAX's window of compatibility read
  HlViewOptions view;
  const HlRecorded *recorded;  // of a snapshot; may be NULL
} FormOptions;

// Appends the module. False after reporting.
bool form_write(HlCx *cx, const Form *form, const HlModule *m, const FormOptions *options,
                HlBuf *out);
// Appends a tree as an artifact, for which it is made portable. False after reporting.
bool form_write_artifact(HlCx *cx, HlMlTree *tree, HlMlVersion version, HlBuf *out);
// Warns of constants without a value, which protos cannot hold.
void form_warn_elided(HlCx *cx, const HlModule *m);

#endif
