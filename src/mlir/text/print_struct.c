// Prints struct attributes of the dialects: #stablehlo.dot<..>, #sdy.sharding<..>.
#include "mlir/text/print.h"

#include <stdio.h>

static HlI64s ints(const HlMlAttr *attr, MlName name) {
  const HlMlAttr *list = ml_field(attr, name);
  if (!list || list->kind != HL_ML_A_DENSE_ARRAY || hl_ml_element_bytes(list->type) != 8)
    return (HlI64s){0};
  return (HlI64s){list->data, (int)list->n_elements};
}

// The part of a name behind its dialect.
static const char *last_name(const HlMlAttr *attr) {
  const char *dot = strchr(attr->name->text, '.');
  return dot ? dot + 1 : attr->name->text;
}

// --- Plain fields -----------------------------------------------------------------------------------

static void print_i64_list(Printer *p, HlI64s list) {
  put_char(p->out, '[');
  for (int k = 0; k < list.n; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_dim(p, list.at[k]);
  }
  put_char(p->out, ']');
}

static bool is_absent(const HlMlAttr *value) {
  switch ((HlMlAttrKind)value->kind) {
  case HL_ML_A_INT: return value->i == 0;
  case HL_ML_A_FLOAT: return value->f == 0;
  case HL_ML_A_DENSE_ARRAY: return value->n_elements == 0;
  default: return false;
  }
}

static void print_field(Printer *p, const HlMlNamed *named) {
  const HlMlAttr *value = named->value;
  put_sym(p->out, named->name);
  PUT(p->out, " = ");
  if (value->kind == HL_ML_A_DENSE_ARRAY && hl_ml_element_bytes(value->type) == 8)
    print_i64_list(p, (HlI64s){value->data, (int)value->n_elements});
  else if (ml_def_of(value) == ML_D_SUB_AXIS || ml_def_of(value) == ML_D_HLO_SUB_AXIS)
    mlp_struct_body(p, value);
  else
    mlp_attr(p, value, PR_NO_TYPE);
}

// These spell all their fields, whatever they are.
static bool spells_all(const HlMlAttr *attr) {
  const MlAttrDef def = ml_def_of(attr);
  return def == ML_D_CHANNEL || def == ML_D_ALIAS || def == ML_D_ALGORITHM ||
         def == ML_D_HLO_MESH_AXIS;
}

static void print_fields(Printer *p, const HlMlAttr *attr) {
  bool all = spells_all(attr), any = false;
  put_char(p->out, '<');
  for (int k = 0; k < attr->n; k++) {
    if (!all && is_absent(attr->dict[k].value))
      continue;
    if (any)
      PUT(p->out, ", ");
    any = true;
    print_field(p, &attr->dict[k]);
  }
  put_char(p->out, '>');
}

static void print_sub_axis(Printer *p, const HlMlAttr *attr) {
  put_char(p->out, '(');
  put_i64(p->out, ml_field_int(attr, ML_A_PRE_SIZE, 0));
  put_char(p->out, ')');
  put_i64(p->out, ml_field_int(attr, ML_A_SIZE, 0));
}

// #stablehlo.mesh<axes=[<name = "x", size = 2>], device_ids=dense<..> : ..>
static void print_hlo_mesh(Printer *p, const HlMlAttr *attr) {
  const HlMlAttr *axes = ml_field(attr, ML_A_AXES), *ids = ml_field(attr, ML_A_DEVICE_IDS);
  PUT(p->out, "<axes=[");
  for (int k = 0; axes && k < axes->n; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_struct_body(p, axes->list[k]);
  }
  put_char(p->out, ']');
  if (ids) {
    PUT(p->out, ", device_ids=");
    mlp_attr(p, ids, PR_TYPE);
  }
  put_char(p->out, '>');
}

// --- Dimension numbers of convolutions ------------------------------------------------------------------

enum { MAX_CONV_RANK = 64 };

typedef struct ConvDims {
  char label[MAX_CONV_RANK][12];
  int n;
  bool is_bad;
} ConvDims;

static void set_label(ConvDims *dims, int64_t at, const char *label) {
  if (at < 0 || at >= MAX_CONV_RANK || (at < dims->n && dims->label[at][0])) {
    dims->is_bad = true;
    return;
  }
  for (; dims->n <= at; dims->n++)
    dims->label[dims->n][0] = 0;
  snprintf(dims->label[at], sizeof dims->label[at], "%s", label);
}

static ConvDims conv_dims(const HlMlAttr *attr, MlName first, const char *first_label,
                          MlName second, const char *second_label, MlName spatial) {
  ConvDims dims = {.n = 0};
  set_label(&dims, ml_field_int(attr, first, 0), first_label);
  set_label(&dims, ml_field_int(attr, second, 0), second_label);
  HlI64s at = ints(attr, spatial);
  for (int k = 0; k < at.n && k < MAX_CONV_RANK; k++) {
    char label[12];
    snprintf(label, sizeof label, "%d", k);
    set_label(&dims, at.at[k], label);
  }
  return dims;
}

static void print_conv_dims(Printer *p, const ConvDims *dims) {
  put_char(p->out, '[');
  for (int k = 0; k < dims->n; k++) {
    if (k)
      PUT(p->out, ", ");
    put_text(p->out, dims->label[k][0] ? dims->label[k] : "?");
  }
  put_char(p->out, ']');
}

typedef struct Conv {
  ConvDims input, kernel, output;
} Conv;

static Conv conv_of(const HlMlAttr *attr) {
  return (Conv){conv_dims(attr, ML_A_INPUT_BATCH_DIMENSION, "b", ML_A_INPUT_FEATURE_DIMENSION, "f",
                          ML_A_INPUT_SPATIAL_DIMENSIONS),
                conv_dims(attr, ML_A_KERNEL_INPUT_FEATURE_DIMENSION, "i",
                          ML_A_KERNEL_OUTPUT_FEATURE_DIMENSION, "o",
                          ML_A_KERNEL_SPATIAL_DIMENSIONS),
                conv_dims(attr, ML_A_OUTPUT_BATCH_DIMENSION, "b", ML_A_OUTPUT_FEATURE_DIMENSION,
                          "f", ML_A_OUTPUT_SPATIAL_DIMENSIONS)};
}

static bool is_regular(const Conv *conv) {
  return !conv->input.is_bad && !conv->kernel.is_bad && !conv->output.is_bad;
}

bool mlp_is_regular_conv(const HlMlAttr *attr) {
  Conv conv = conv_of(attr);
  return is_regular(&conv);
}

static void print_conv(Printer *p, const HlMlAttr *attr) {
  Conv conv = conv_of(attr);
  if (!is_regular(&conv)) {
    PUT(p->out, "raw ");
    for (int k = 0; k < attr->n; k++) {
      if (k)
        PUT(p->out, ", ");
      print_field(p, &attr->dict[k]);
    }
    return;
  }
  print_conv_dims(p, &conv.input);
  put_char(p->out, 'x');
  print_conv_dims(p, &conv.kernel);
  PUT(p->out, "->");
  print_conv_dims(p, &conv.output);
}

// --- sdy ----------------------------------------------------------------------------------------------

typedef void PrintItem(Printer *p, const HlMlAttr *item);

static void print_items(Printer *p, const HlMlAttr *list, PrintItem *print) {
  for (int k = 0; list && k < list->n; k++) {
    if (k)
      PUT(p->out, ", ");
    print(p, list->list[k]);
  }
}

static void print_quoted(Printer *p, const HlMlAttr *item) {
  if (item && item->sym)
    mlp_string(p, item->sym->text, item->sym->n);
}

static void print_axis(Printer *p, const HlMlAttr *axis) {
  const HlMlAttr *sub = ml_field(axis, ML_A_SUB_AXIS_INFO);
  print_quoted(p, ml_field(axis, ML_A_NAME));
  if (sub) {
    put_char(p->out, ':');
    print_sub_axis(p, sub);
  }
}

static void print_mesh_axis(Printer *p, const HlMlAttr *axis) {
  print_quoted(p, ml_field(axis, ML_A_NAME));
  put_char(p->out, '=');
  put_i64(p->out, ml_field_int(axis, ML_A_SIZE, 0));
}

static void print_mesh(Printer *p, const HlMlAttr *mesh) {
  HlI64s devices = ints(mesh, ML_A_DEVICE_IDS);
  PUT(p->out, "<[");
  print_items(p, ml_field(mesh, ML_A_AXES), print_mesh_axis);
  put_char(p->out, ']');
  if (devices.n) {
    PUT(p->out, ", device_ids=");
    print_i64_list(p, devices);
  }
  put_char(p->out, '>');
}

static void print_axes(Printer *p, const HlMlAttr *axes) {
  put_char(p->out, '{');
  print_items(p, axes, print_axis);
  put_char(p->out, '}');
}

static void print_dim_sharding(Printer *p, const HlMlAttr *dim) {
  const HlMlAttr *axes = ml_field(dim, ML_A_AXES), *priority = ml_field(dim, ML_A_PRIORITY);
  put_char(p->out, '{');
  print_items(p, axes, print_axis);
  if (!ml_field_int(dim, ML_A_IS_CLOSED, 0))
    put_text(p->out, axes && axes->n ? ", ?" : "?");
  put_char(p->out, '}');
  if (priority) {
    put_char(p->out, 'p');
    put_i64(p->out, priority->i);
  }
}

static void print_sharding(Printer *p, const HlMlAttr *attr) {
  const HlMlAttr *mesh = ml_field(attr, ML_A_MESH_OR_REF),
                 *replicated = ml_field(attr, ML_A_REPLICATED_AXES);
  const HlMlAttr *unreduced = ml_field(attr, ML_A_UNREDUCED_AXES);
  put_char(p->out, '<');
  if (mesh && mesh->kind == HL_ML_A_STRUCT) {
    PUT(p->out, "mesh");
    print_mesh(p, mesh);
  } else if (mesh) {
    mlp_attr(p, mesh, PR_TYPE);
  }
  PUT(p->out, ", [");
  print_items(p, ml_field(attr, ML_A_DIM_SHARDINGS), print_dim_sharding);
  put_char(p->out, ']');
  if (replicated && replicated->n) {
    PUT(p->out, ", replicated=");
    print_axes(p, replicated);
  }
  if (unreduced && unreduced->n) {
    int64_t op = ml_field_int(attr, ML_A_UNREDUCED_OP, 0);
    PUT(p->out, ", unreduced=");
    put_text(p->out, op == 1 ? "max" : op == 2 ? "min" : "");
    print_axes(p, unreduced);
  }
  put_char(p->out, '>');
}

// Factors are i, j, .. z, z_1, z_2, ..
static void print_factor(Printer *p, int64_t factor) {
  if (factor < 18) {
    put_char(p->out, (char)('i' + factor));
    return;
  }
  PUT(p->out, "z_");
  put_i64(p->out, factor - 17);
}

static void print_dim_mapping(Printer *p, const HlMlAttr *dim) {
  HlI64s factors = ints(dim, ML_A_FACTOR_INDICES);
  for (int k = 0; k < factors.n; k++)
    print_factor(p, factors.at[k]);
  if (!factors.n)
    put_char(p->out, '*');
}

static void print_tensor_mapping(Printer *p, const HlMlAttr *tensor) {
  put_char(p->out, '[');
  print_items(p, ml_field(tensor, ML_A_DIM_MAPPINGS), print_dim_mapping);
  put_char(p->out, ']');
}

static void print_factors(Printer *p, const HlMlAttr *rule, MlName name, const char *word) {
  HlI64s factors = ints(rule, name);
  if (!factors.n)
    return;
  put_char(p->out, ' ');
  put_text(p->out, word);
  PUT(p->out, "={");
  for (int k = 0; k < factors.n; k++) {
    if (k)
      PUT(p->out, ", ");
    print_factor(p, factors.at[k]);
  }
  put_char(p->out, '}');
}

static void print_rule(Printer *p, const HlMlAttr *rule) {
  HlI64s sizes = ints(rule, ML_A_FACTOR_SIZES);
  PUT(p->out, "<(");
  print_items(p, ml_field(rule, ML_A_OPERAND_MAPPINGS), print_tensor_mapping);
  PUT(p->out, ")->(");
  print_items(p, ml_field(rule, ML_A_RESULT_MAPPINGS), print_tensor_mapping);
  put_char(p->out, ')');
  for (int k = 0; k < sizes.n; k++) {
    put_text(p->out, k ? ", " : " {");
    print_factor(p, k);
    put_char(p->out, '=');
    put_i64(p->out, sizes.at[k]);
  }
  if (sizes.n)
    put_char(p->out, '}');
  print_factors(p, rule, ML_A_REDUCTION_FACTORS, "reduction");
  print_factors(p, rule, ML_A_NEED_REPLICATION_FACTORS, "need_replication");
  print_factors(p, rule, ML_A_PERMUTATION_FACTORS, "permutation");
  print_factors(p, rule, ML_A_BLOCKED_PROPAGATION_FACTORS, "blocked_propagation");
  if (ml_field_int(rule, ML_A_IS_CUSTOM, 0))
    PUT(p->out, ", custom");
  put_char(p->out, '>');
}

static void print_per_value(Printer *p, const HlMlAttr *attr) {
  put_char(p->out, '[');
  print_items(p, ml_field(attr, ML_A_SHARDINGS), print_sharding);
  put_char(p->out, ']');
}

static void print_manual_axes(Printer *p, const HlMlAttr *attr) {
  put_char(p->out, '{');
  print_items(p, ml_field(attr, ML_A_AXES), print_quoted);
  put_char(p->out, '}');
}

static void print_axis_list(Printer *p, const HlMlAttr *attr) {
  print_axes(p, ml_field(attr, ML_A_VALUE));
}

static void print_axis_lists(Printer *p, const HlMlAttr *attr) {
  put_char(p->out, '[');
  print_items(p, ml_field(attr, ML_A_VALUE), print_axis_list);
  put_char(p->out, ']');
}

static void print_param(Printer *p, const HlMlAttr *attr) {
  print_axes(p, ml_field(attr, ML_A_AXES));
  PUT(p->out, ": ");
  put_i64(p->out, ml_field_int(attr, ML_A_SRC_DIM, 0));
  PUT(p->out, "->");
  put_i64(p->out, ml_field_int(attr, ML_A_TGT_DIM, 0));
}

static void print_params(Printer *p, const HlMlAttr *attr) {
  put_char(p->out, '[');
  print_items(p, ml_field(attr, ML_A_VALUE), print_param);
  put_char(p->out, ']');
}

// --- Any struct -----------------------------------------------------------------------------------------

typedef struct Own {
  PrintItem *print;
  // Of the attribute: #d<name body>, #d.name<body>, #d.name body with its own.
  enum { BARE, ANGLED, SELF } brackets;
  bool not_mhlo;  // which has only the fields
} Own;

static bool is_of_mhlo(const HlMlAttr *attr) {
  return ml_find_dialect((HlStr){attr->name->text, attr->name->n}) == HL_ML_MHLO;
}

static const Own owns[ML_DEF_COUNT] = {
    [ML_D_MESH] = {print_mesh, SELF},
    [ML_D_SHARDING] = {print_sharding, SELF},
    [ML_D_RULE] = {print_rule, SELF},
    [ML_D_PER_VALUE] = {print_per_value, ANGLED},
    [ML_D_MANUAL_AXES] = {print_manual_axes, BARE},
    [ML_D_MESH_AXIS] = {print_mesh_axis, BARE},
    [ML_D_SUB_AXIS] = {print_sub_axis, BARE},
    [ML_D_HLO_SUB_AXIS] = {print_sub_axis, BARE, .not_mhlo = true},
    [ML_D_AXIS] = {print_axis, BARE},
    [ML_D_DIM] = {print_dim_sharding, BARE},
    [ML_D_TENSOR_MAPPING] = {print_tensor_mapping, BARE},
    [ML_D_AXIS_LIST] = {print_axis_list, BARE},
    [ML_D_AXIS_LISTS] = {print_axis_lists, BARE},
    [ML_D_ALL_TO_ALL_PARAM] = {print_param, BARE},
    [ML_D_ALL_TO_ALL_PARAMS] = {print_params, BARE},
    [ML_D_HLO_MESH] = {print_hlo_mesh, SELF},
    [ML_D_CONV] = {print_conv, ANGLED},
};

static const Own *find_own(const HlMlAttr *attr) {
  const Own *own = &owns[ml_def_of(attr)];
  return own->print && !(own->not_mhlo && is_of_mhlo(attr)) ? own : NULL;
}

void mlp_struct_body(Printer *p, const HlMlAttr *attr) {
  const Own *own = find_own(attr);
  if (own)
    own->print(p, attr);
  else
    print_fields(p, attr);
}

static void print_bounds(Printer *p, const HlMlAttr *attr) {
  HlI64s bounds = ints(attr, ML_A_BOUNDS);
  PUT(p->out, "#stablehlo.bounds<");
  for (int k = 0; k < bounds.n; k++) {
    if (k)
      PUT(p->out, ", ");
    mlp_dim(p, bounds.at[k]);
  }
  put_char(p->out, '>');
}

void mlp_struct(Printer *p, const HlMlAttr *attr) {
  if (ml_def_of(attr) == ML_D_EXTENSIONS && !is_of_mhlo(attr)) {
    print_bounds(p, attr);
    return;
  }
  const Own *own = find_own(attr);
  put_char(p->out, '#');
  if (own && own->brackets == BARE) {
    const char *name = last_name(attr);
    put(p->out, attr->name->text, (size_t)(name - attr->name->text) - 1);
    put_char(p->out, '<');
    put_text(p->out, name);
  } else {
    put_sym(p->out, attr->name);
    if (own && own->brackets == ANGLED)
      put_char(p->out, '<');
  }
  mlp_struct_body(p, attr);
  if (own && own->brackets != SELF)
    put_char(p->out, '>');
}
