// tool/shrink/reduce_details.c: moves that leave the graph as it is and make what it says plainer: attributes, the header,
// constants, the values of arguments, names.

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/build.h"
#include "tool/shrink/reduce.h"

// --- Attributes -----------------------------------------------------------------------------------------

static bool is_required(const HlInst *inst, HlAttrKey key) {
  for (const uint16_t *at = hl_op_info[inst->op].attrs; *at != HL_ATTR_END; at++)
    if (*at == ((uint32_t)key | HL_ATTR_REQUIRED))
      return true;
  return key == HL_A_PARAMETER_NUMBER || key == HL_A_VALUE || key == HL_A_CUSTOM_CALL_TARGET;
}

typedef struct Place {
  HlAttrKey key;
  const char *name;  // of an instruction; NULL: all of them
} Place;

static bool strip(HlInst *inst, const Place *place) {
  if (!hl_has_attr(inst, place->key) || is_required(inst, place->key) ||
      (place->name && strcmp(place->name, inst->name->text) != 0))
    return false;
  hl_remove_attr(inst, place->key);
  return true;
}

static HlModule *without_attribute(Reducer *r, const Move *move, const int *thing, int n,
                                   HlBuf *what) {
  const Place *place = (const Place *)move->things + *thing;
  HlModule *m = hl_clone(r->cx, r->m);
  bool changed = false;
  for (HlComp *comp = m ? m->first : NULL; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      changed |= strip(inst, place);
  hl_buf_printf(what, "attribute %s%s%s", hl_attr_info[place->key].text, place->name ? " of " : "",
                place->name ? place->name : "");
  if (changed)
    return m;
  hl_module_free(m);
  return NULL;
}

// All of a key at once; where that does not do, one by one.
static bool strip_attributes(Reducer *r) {
  enum { FEW = 60 };
  bool there[HL_ATTR_COUNT] = {false}, changed = false;
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_attrs; k++)
        there[inst->attrs[k].key] |= !is_required(inst, inst->attrs[k].key);
  for (int key = 0; key < HL_ATTR_COUNT && !r->stopped; key++) {
    if (!there[key])
      continue;
    Place all = {(HlAttrKey)key, NULL};
    Move move = {.phase = "attributes",
                 .n = 1,
                 .things = &all,
                 .make = without_attribute,
                 .any_size = true,
                 .one_by_one = true};
    if (reduce_try(r, &move)) {
      changed = true;
      continue;
    }
    Place places[FEW];
    int n = 0;
    for (const HlComp *comp = r->m->first; comp; comp = comp->next)
      for (const HlInst *inst = comp->first; inst && n < FEW; inst = inst->next)
        if (hl_has_attr(inst, (HlAttrKey)key))
          places[n++] = (Place){(HlAttrKey)key, hl_arena_printf(r->arena, "%s", inst->name->text)};
    move = (Move){.phase = "attributes",
                  .n = n,
                  .things = places,
                  .make = without_attribute,
                  .any_size = true,
                  .one_by_one = true};
    changed |= n > 1 && reduce_try(r, &move);
  }
  return changed;
}

// --- The header -----------------------------------------------------------------------------------------

typedef enum Part {
  FRAMES,
  SCHEDULE,
  CONTROL,
  ALIASES,
  DEVICES,
  FRONTEND,
  DEBUG,
  SPMD,
  LAYOUTS,
  PART_COUNT
} Part;
static const char *const part_names[PART_COUNT] = {"stack frames",
                                                   "the schedule",
                                                   "control dependencies",
                                                   "aliases of buffers",
                                                   "devices",
                                                   "frontend attributes of the module",
                                                   "debug attributes",
                                                   "what is left of partitioning",
                                                   "layouts"};

static void drop_control(HlModule *m) {
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      while (inst->control && inst->control->n_preds > 0)
        hl_remove_control(inst->control->preds[0], inst);
}

static void drop_schedule(HlModule *m) {
  for (HlComp *comp = m->first; comp; comp = comp->next)
    hl_set_schedule(comp, NULL);
  hl_set_scheduled(m, false);
}

static void drop_layouts(HlModule *m) {
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlShape *plain = hl_shape_without_layout(m->shapes, inst->shape);
      hl_set_shape(inst, hl_shape_with_default_layout(m->shapes, plain));
    }
  hl_set_entry_layout(m, 0, NULL, NULL);
}

static HlModule *without_part(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  static const HlFrames no_frames = {0};
  const HlModule *best = r->m;
  HlModule *m = hl_clone(r->cx, best);
  bool changed = true;
  if (!m)
    return NULL;
  switch ((Part)*thing) {
  case FRAMES:
    changed = best->frames.n_frames > 0;
    if (changed)
      hl_set_frames(m, &no_frames);
    break;
  case SCHEDULE:
    changed = best->is_scheduled;
    drop_schedule(m);
    break;
  case CONTROL: drop_control(m); break;
  case ALIASES:
    changed = best->input_output_alias.n > 0 || best->n_buffer_donor > 0;
    hl_set_aliases(m, 0, NULL);
    hl_set_donors(m, 0, NULL);
    break;
  case DEVICES:
    changed = best->replica_count > 1 || best->num_partitions > 1;
    hl_set_devices(m, 1, 1);
    break;
  case FRONTEND:
    changed = best->frontend_attributes.n > 0;
    hl_set_module_attributes(m, (HlDict){0});
    break;
  case DEBUG:
    changed = best->n_debug > 0 || best->n_recovery > 0;
    hl_set_debug(m, 0, NULL);
    hl_set_recovery(m, 0, NULL);
    break;
  case SPMD:
    changed = best->spmd_output_sharding || best->n_spmd_parameter_shardings > 0 ||
              best->spmd_to_output.n > 0 || best->spmd_to_parameters.n > 0;
    hl_set_spmd_shardings(m, 0, NULL, NULL);
    hl_set_spmd_propagation(m, (HlI64s){0}, (HlI64s){0});
    break;
  default: drop_layouts(m);
  }
  if (changed) {
    hl_buf_printf(what, "%s", part_names[*thing]);
    return m;
  }
  hl_module_free(m);
  return NULL;
}

bool reduce_attributes(Reducer *r) {
  Move move = {.phase = "header",
               .n = PART_COUNT,
               .make = without_part,
               .any_size = true,
               .one_by_one = true,
               .header = true};
  const bool changed = reduce_try(r, &move);
  return strip_attributes(r) || changed;
}

// --- Constants ------------------------------------------------------------------------------------------

enum { ZERO, ONE, TWO, FIRST, CHOICES };

static bool is_number(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT && hl_constant(inst) && hl_shape_is_array(inst->shape) &&
         !hl_literal_is_elided(hl_constant(inst)) && !hl_shape_is_dynamic(inst->shape);
}

// A number, or the first element, everywhere; of large ones by a broadcast.
static HlInst *plain_constant(Reducer *r, HlInst *inst, int choice) {
  const HlLiteral *old = hl_constant(inst);
  HlBuild b = {.cx = r->cx, .comp = inst->comp, .loc = inst->loc};
  if (choice == FIRST && (old->n <= 1 || hl_is_complex(inst->shape->dtype)))
    return NULL;
  const double value = choice == FIRST ? hl_literal_f64(old, 0) : choice;
  if (old->n == 0 || (inst->shape->rank == 0 && hl_literal_f64(old, 0) == value) ||
      (inst->shape->rank == 0 && fabs(hl_literal_f64(old, 0)) < value))
    return NULL;
  HlInst *out = hl_b_full(&b, inst->shape->dtype, inst->shape->rank, inst->shape->dim, value);
  if (out && inst->shape->rank > 0)
    hl_set_shape(out, inst->shape);
  return out;
}

typedef struct Constant {
  const char *name;
  int choice;
} Constant;

static HlModule *with_constants(Reducer *r, const Move *move, const int *thing, int n,
                                HlBuf *what) {
  const Constant *all = move->things;
  HlModule *m = hl_clone(r->cx, r->m);
  int changed = 0;
  for (int k = 0; m && k < n; k++) {
    const Constant *c = &all[thing[k]];
    for (HlComp *comp = m->first; comp; comp = comp->next) {
      HlInst *inst = hl_find_inst(comp, hl_str(c->name));
      HlInst *by = inst && is_number(inst) ? plain_constant(r, inst, c->choice) : NULL;
      if (!by)
        continue;
      hl_replace_uses(inst, by);
      if (by->op == HL_OP_CONSTANT) {
        hl_set_name(inst, hl_fresh_name(m, "old"));
        hl_set_name(by, hl_sym(m, c->name));
      }
      changed++;
    }
  }
  hl_buf_printf(what, "constant '%s' is %s now", all[*thing].name,
                all[*thing].choice == FIRST  ? "its first element"
                : all[*thing].choice == ZERO ? "0"
                : all[*thing].choice == ONE  ? "1"
                                             : "2");
  if (changed)
    return m;
  hl_module_free(m);
  return NULL;
}

bool reduce_constants(Reducer *r) {
  enum { MOST = 4000 };
  Constant *things = HL_ARRAY(r->arena, Constant, CHOICES * MOST + 1);
  bool changed = false;
  for (int choice = ZERO; choice < CHOICES && !r->stopped; choice++) {
    int n = 0;
    for (const HlComp *comp = r->m->first; comp; comp = comp->next)
      for (const HlInst *inst = comp->first; inst && n < MOST; inst = inst->next)
        if (is_number(inst))
          things[n++] = (Constant){hl_arena_printf(r->arena, "%s", inst->name->text), choice};
    Move move = {
        .phase = "constants", .n = n, .things = things, .make = with_constants, .any_size = true};
    changed |= n > 0 && reduce_try(r, &move);
  }
  return changed;
}

// --- Values of arguments ----------------------------------------------------------------------------------

enum { PIECES = 16 };

// What becomes of an argument: all zeros, all ones, whole numbers, or zeros in one of the pieces.
typedef struct Value {
  int param;
  enum { ALL_ZERO, ALL_ONE, WHOLE, PIECE } how;
  int piece;
} Value;

// Whether something of it changed.
static bool make_plain(HlLiteral *at, const Value *v) {
  bool changed = false;
  const int64_t size = (at->n + PIECES - 1) / PIECES;
  const int64_t first = v->how == PIECE ? v->piece * size : 0;
  const int64_t end = v->how == PIECE && first + size < at->n ? first + size : at->n;
  for (int64_t k = first; k < end; k++) {
    const double old = hl_literal_f64(at, k);
    const double now = v->how == ALL_ONE ? 1 : v->how == WHOLE ? rint(old) : 0;
    if (old == now || (isnan(old) && v->how == WHOLE))
      continue;
    hl_literal_set_f64(at, k, now);
    changed = true;
  }
  return changed;
}

static HlLiteral **with_values(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  const Value *all = move->things;
  const int n_params = r->m->entry->n_params;
  HlLiteral **args = base_alloc((size_t)(n_params + 1) * sizeof *args);
  bool changed = false;
  for (int k = 0; k < n_params; k++)
    args[k] = hl_literal_ref(r->args[k]);
  for (int k = 0; k < n; k++) {
    const Value *v = &all[thing[k]];
    HlLiteral *copy = hl_literal_copy(r->cx, args[v->param]);
    if (!copy)
      break;
    changed |= make_plain(copy, v);
    hl_literal_unref(args[v->param]);
    args[v->param] = copy;
  }
  static const char *const words[] = {"zeros", "ones", "whole numbers", "zeros in parts"};
  hl_buf_printf(what, "argument '%s' is %s now", r->m->entry->params[all[*thing].param]->name->text,
                words[all[*thing].how]);
  if (changed)
    return args;
  values_drop_args(args, n_params);
  return NULL;
}

static bool is_dense(const HlLiteral *at) {
  return at && at->data && at->n > 0 && !hl_is_complex(at->shape->dtype);
}

bool reduce_inputs(Reducer *r) {
  bool changed = false;
  for (int how = ALL_ZERO; r->args && how <= PIECE && !r->stopped; how++) {
    Value *things = HL_ARRAY(r->arena, Value, PIECES * r->m->entry->n_params + 1);
    int n = 0;
    for (int k = 0; k < r->m->entry->n_params; k++)
      for (int piece = 0;
           is_dense(r->args[k]) && piece < (how == PIECE && r->args[k]->n > 1 ? PIECES : 1);
           piece++)
        things[n++] = (Value){k, how, piece};
    Move move = {
        .phase = "inputs", .n = n, .things = things, .make_args = with_values, .any_size = true};
    changed |= n > 0 && reduce_try(r, &move);
  }
  return changed;
}

// --- Names ------------------------------------------------------------------------------------------------

static HlModule *with_plain_names(Reducer *r, const Move *move, const int *thing, int n,
                                  HlBuf *what) {
  HlModule *m = hl_clone(r->cx, r->m);
  if (!m)
    return NULL;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      hl_set_name(inst, hl_sym(m, hl_op_text((HlOp)inst->op)));
  hl_module_set_name(m, hl_sym(m, "reduced"));
  hl_unique_names(m);
  hl_buf_puts(what, "names");
  return m;
}

// The arguments stay, though their names go.
static HlLiteral **same_values(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  HlLiteral **args = base_alloc((size_t)(r->m->entry->n_params + 1) * sizeof *args);
  for (int k = 0; k < r->m->entry->n_params; k++)
    args[k] = hl_literal_ref(r->args[k]);
  return args;
}

bool reduce_names(Reducer *r) {
  Move move = {.phase = "names",
               .n = 1,
               .make = with_plain_names,
               .make_args = r->args ? same_values : NULL,
               .any_size = true,
               .one_by_one = true};
  return reduce_try(r, &move);
}
