// tool/dumps/clean.c: makes a data set of programs.
//
// File by file, in order: read, stripped, hashed; a graph that is there already is compared with what was written of it, and
// only then left out. So of all files only names and hashes stay in memory. What a file became is written first, its line in
// the journal next: a run that ends in between writes the same once more.

#include "hilo/clean.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/map.h"
#include "base/memory.h"
#include "hilo/edit.h"
#include "hilo/text.h"
#include "tool/dumps/clean_journal.h"
#include "tool/dumps/listing.h"

// --- One module ---------------------------------------------------------------------------------

static void drop_metadata(HlModule *m) {
  static const HlAttrKey keys[] = {HL_A_METADATA, HL_A_ORIGIN, HL_A_STATISTICS};
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      for (int k = 0; k < HL_COUNT_OF(keys); k++)
        if (hl_has_attr(inst, keys[k]))
          hl_remove_attr(inst, keys[k]);
  hl_set_frames(m, &(HlFrames){0});
  hl_set_recovery(m, 0, NULL);
  hl_set_debug(m, 0, NULL);
}

static const HlSym *numbered(HlModule *m, const char *word, uint32_t n) {
  HlBuf name = {0};
  hl_buf_printf(&name, "%s.%u", word, n);
  const HlSym *sym = hl_sym(m, name.at);
  hl_buf_free(&name);
  return sym;
}

// Instructions are numbered through the module, each behind its op; computations among themselves.
static void give_names(HlModule *m) {
  HlArena *arena = hl_arena_new();
  HlComp **order = hl_comp_order(arena, m);
  uint32_t n = 0;
  hl_module_set_name(m, hl_sym(m, "module"));
  for (uint32_t c = 0; c < m->n_comps; c++) {
    HlComp *comp = order[c];
    HlInst **insts = hl_print_order(arena, comp);
    hl_comp_set_name(comp, comp == m->entry
                               ? hl_sym(m, "main")
                               : numbered(m, comp->is_fusion ? "fused" : "computation", c + 1));
    for (uint32_t k = 0; k < comp->n_insts; k++)
      hl_set_name(insts[k], numbered(m, hl_op_text((HlOp)insts[k]->op), ++n));
  }
  hl_arena_free(arena);
}

void hl_clean_module(HlModule *m, bool keep_names, bool keep_metadata) {
  if (!keep_metadata)
    drop_metadata(m);
  if (!keep_names)
    give_names(m);
}

static int64_t count_elided(const HlModule *m) {
  int64_t n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (hl_comp_may_have(comp, HL_OP_CONSTANT))
      for (const HlInst *inst = comp->first; inst; inst = inst->next)
        n += inst->op == HL_OP_CONSTANT && hl_constant(inst) &&
             hl_literal_is_elided(hl_constant(inst));
  return n;
}

static void print(HlCx *cx, const HlModule *m, const HlCleanOptions *options, HlBuf *out) {
  HlTextOptions how = {.large_constants = HL_ON};
  if (!options->keep_metadata)
    how.metadata = how.frames = how.original_value = HL_OFF;
  hl_text_print(cx, m, &how, out);
}

// --- What is kept -------------------------------------------------------------------------------

typedef struct Kept {
  const char *out, *file;
  uint64_t hash;
} Kept;

typedef struct Cleaner {
  HlCx *cx;
  const HlCleanOptions *options;
  HlCleanShow *show;
  void *user;
  HlCleanCounts *out;
  HlArena *arena;  // of names: what grows with the number of files
  CleanJournal journal;
  VEC(Kept) kept;
  Map by_hash;        // 1 + a place in `kept`; several
  Map names;          // hashes of names given in the folder, by which nobody else is called
  const char *real;   // the folder, resolved
  int64_t done, all;  // files
} Cleaner;

typedef VEC(CleanEntry) Entries;

static uint64_t name_key(const char *name) {
  return hl_hash_bytes(name, strlen(name), 17) | 1;
}

static void note_kept(Cleaner *c, const HlCleaned *what) {
  const Kept kept = {what->out, what->file, what->hash};
  vec_push_in(c->arena, &c->kept, kept);
  map_add(&c->by_hash, what->hash, (uint64_t)c->kept.n);
  *map_at(&c->names, name_key(what->out)) = 1;
}

static const char *whole_path(HlArena *arena, const Cleaner *c, const char *name) {
  return hl_arena_printf(arena, "%s/%s", c->options->folder, name);
}

// The earlier module that a module equals, or NULL. False after reporting that what was written cannot be read again.
static bool find_equal(Cleaner *c, const HlModule *m, uint64_t hash, const Kept **out) {
  *out = NULL;
  if (c->options->keep_duplicates)
    return true;
  MapWalk walk = map_walk(&c->by_hash, hash);
  HlArena *arena = hl_arena_new();
  bool ok = true;
  for (uint64_t k; ok && !*out && (k = map_next(&walk));) {
    const Kept *kept = &c->kept.at[k - 1];
    HlFile file;
    ok = hl_load(c->cx, whole_path(arena, c, kept->out), NULL, &file);
    if (ok && file.n == 1 && hl_graph_equal(c->cx, m, file.modules[0]))
      *out = kept;
    if (ok)
      hl_file_free(&file);
  }
  hl_arena_free(arena);
  return ok;
}

// --- Names --------------------------------------------------------------------------------------

// The path without endings that say the form. What a path may not have in the folder (a start above it) is left out.
static const char *stem_of(HlArena *arena, const char *name) {
  static const char *const endings[] = {".gz",     ".zst",     ".txt",    ".pb",
                                        ".pbtxt",  ".hlo",     ".hlotxt", ".mlir",
                                        ".mlirbc", ".mlir.bc", ".jaxpr",  ".hlo_proto"};
  while (strncmp(name, "/", 1) == 0 || strncmp(name, "./", 2) == 0 || strncmp(name, "../", 3) == 0)
    name = strchr(name, '/') + 1;
  char *stem = hl_arena_strndup(arena, name, strlen(name));
  for (int turn = 0; turn < 3; turn++)
    for (int k = 0; k < HL_COUNT_OF(endings); k++) {
      const size_t n = strlen(stem), e = strlen(endings[k]);
      if (n > e && stem[n - e - 1] != '/' && strcmp(stem + n - e, endings[k]) == 0)
        stem[n - e] = 0;
    }
  for (char *up; (up = strstr(stem, "/../"));)
    memcpy(up + 1, "__", 2);
  return stem;
}

// A name in the folder that nobody has: the file's, with the number of the module where it has several.
static const char *fresh_name(Cleaner *c, const char *name, int index, int n) {
  enum { MOST = 200 };  // of the last part, so that what is added fits
  const char *stem = stem_of(c->arena, name);
  const char *slash = strrchr(stem, '/'), *last = slash ? slash + 1 : stem;
  const int most = (int)(last - stem) + (strlen(last) > MOST ? MOST : (int)strlen(last));
  const char *number = n > 1 ? hl_arena_printf(c->arena, ".%d", index) : "";
  for (int turn = 1;; turn++) {
    const char *twin = turn > 1 ? hl_arena_printf(c->arena, "~%d", turn) : "";
    const char *out = hl_arena_printf(c->arena, "%.*s%s%s.hlo", most, stem, number, twin);
    if (!map_get(&c->names, name_key(out)))
      return out;
  }
}

static bool make_folders(HlCx *cx, const char *path, bool of_file) {
  HlBuf whole = {0};
  hl_buf_puts(&whole, path);
  bool ok = true;
  for (char *at = whole.at + 1; ok; at++) {
    if (*at != '/' && *at)
      continue;
    const char was = *at;
    *at = 0;
    struct stat st;
    if (was || !of_file)
      ok = mkdir(whole.at, 0777) == 0 ||
           (errno == EEXIST && stat(whole.at, &st) == 0 && S_ISDIR(st.st_mode)) ||
           hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot make the folder %s: %s", whole.at,
                         strerror(errno));
    *at = was;
    if (!was)
      break;
  }
  hl_buf_free(&whole);
  return ok;
}

// --- One file -----------------------------------------------------------------------------------

static bool write_text(Cleaner *c, const HlBuf *text, const char *name) {
  HlArena *arena = hl_arena_new();
  const char *path = whole_path(arena, c, name);
  const bool ok = make_folders(c->cx, path, true) && hl_write_file(c->cx, path, text->at, text->n);
  hl_arena_free(arena);
  return ok;
}

static bool clean_one(Cleaner *c, HlModule *m, const char *name, CleanEntry *e) {
  const Kept *equal;
  HlCleaned *what = &e->what;
  what->module = hl_arena_strndup(c->arena, m->name->text, m->name->n);
  what->hash = hl_graph_hash(m);
  what->instructions = hl_count_instructions(m);
  what->elided = count_elided(m);
  if (!find_equal(c, m, what->hash, &equal))
    return false;
  if (equal) {
    what->state = HL_CLEAN_DUPLICATE;
    what->out = equal->out;
    what->of = equal->file;
    return true;
  }
  hl_clean_module(m, c->options->keep_names, c->options->keep_metadata);
  HlBuf text = {0};
  print(c->cx, m, c->options, &text);
  what->state = HL_CLEAN_KEPT;
  what->out = fresh_name(c, name, what->index, e->n);
  e->bytes = (int64_t)text.n;
  const bool ok = write_text(c, &text, what->out);
  hl_buf_free(&text);
  if (ok)
    note_kept(c, what);
  return ok;
}

// The first error since, on one line with its place; all are forgotten.
static const char *take_why(Cleaner *c, int n_diags) {
  const char *why = "it holds no module";
  for (int k = n_diags; k < hl_cx_n_diags(c->cx); k++) {
    const HlDiag *d = hl_cx_diag(c->cx, k);
    if (d->severity != HL_ERROR)
      continue;
    const HlLineCol at = hl_source_line_col(d->source, d->loc);
    const int n = (int)strcspn(d->text, "\n");
    why = at.line > 0 ? hl_arena_printf(c->arena, "%lld:%lld: %.*s", (long long)at.line,
                                        (long long)at.column, n, d->text)
                      : hl_arena_printf(c->arena, "%.*s", n, d->text);
    break;
  }
  hl_cx_forget(c->cx, n_diags);
  return why;
}

typedef struct Input {
  const char *path, *name;  // to be opened and reported; in the folder
  int64_t size, mtime;
  bool is_listed;  // found in a directory
} Input;

static void count(Cleaner *c, const HlCleaned *what) {
  HlCleanCounts *n = c->out;
  n->modules += what->state == HL_CLEAN_KEPT || what->state == HL_CLEAN_DUPLICATE;
  n->kept += what->state == HL_CLEAN_KEPT;
  n->duplicates += what->state == HL_CLEAN_DUPLICATE;
  n->no_module += what->state == HL_CLEAN_NO_MODULE;
  n->unreadable += what->state == HL_CLEAN_UNREADABLE;
  n->old += what->is_old;
  if (c->show)
    c->show(c->user, what, c->done, c->all);
}

static CleanEntry entry_of(const Input *in, int index, int n) {
  CleanEntry e = {.size = in->size, .mtime = in->mtime, .n = n};
  e.what =
      (HlCleaned){.file = in->path, .index = index, .module = "", .out = "", .of = "", .why = ""};
  return e;
}

// What the name or the first bytes say is no program is not read.
static bool is_worth_reading(const Input *in) {
  const ListingLook look = in->is_listed ? listing_look(in->path) : LISTING_IS_MODULE;
  return look == LISTING_IS_MODULE ||
         (look == LISTING_MAY_BE_MODULE &&
          (access(in->path, R_OK) != 0 || listing_looks_inside(in->path)));
}

static bool clean_loaded(Cleaner *c, const Input *in, HlFile *file, Entries *entries) {
  for (int k = 0; k < file->n; k++) {
    CleanEntry e = entry_of(in, k, file->n);
    if (!clean_one(c, file->modules[k], in->name, &e))
      return false;
    vec_push(entries, e);
  }
  return true;
}

static void push_unread(Entries *entries, const Input *in, HlCleanState state, const char *why) {
  CleanEntry e = entry_of(in, 0, 1);
  e.what.state = state;
  e.what.why = why;
  vec_push(entries, e);
}

static bool clean_file(Cleaner *c, const Input *in, Entries *entries) {
  if (!is_worth_reading(in)) {
    push_unread(entries, in, HL_CLEAN_NO_MODULE, "no program");
    return true;
  }
  const int n = hl_cx_n_diags(c->cx);
  HlFile file;
  const bool read = hl_load(c->cx, in->path, &c->options->load, &file);
  if (!read || file.n == 0) {
    const bool may_be_none = in->is_listed && listing_look(in->path) == LISTING_MAY_BE_MODULE;
    const bool is_none = !read && may_be_none && !hl_format_is_program(file.format);
    push_unread(entries, in, is_none ? HL_CLEAN_NO_MODULE : HL_CLEAN_UNREADABLE, take_why(c, n));
    if (read)
      hl_file_free(&file);
    return true;
  }
  hl_cx_forget(c->cx, n);
  const bool ok = clean_loaded(c, in, &file, entries);
  hl_file_free(&file);
  return ok;
}

static bool take_input(Cleaner *c, const Input *in) {
  base_look();
  const CleanEntry *old = clean_journal_find(&c->journal, in->path, in->size, in->mtime);
  for (int k = 0; old && k < old->n; k++)
    count(c, &old[k].what);
  if (old)
    return true;
  Entries entries = {0};
  const bool ok =
      clean_file(c, in, &entries) && clean_journal_add(c->cx, &c->journal, entries.at, entries.n);
  for (int k = 0; ok && k < entries.n; k++)
    count(c, &entries.at[k].what);
  vec_free(&entries);
  return ok;
}

// --- Going on -----------------------------------------------------------------------------------

static bool is_there(const Cleaner *c, const CleanEntry *e) {
  struct stat st;
  HlBuf path = {0};
  hl_buf_printf(&path, "%s/%s", c->options->folder, e->what.out);
  const bool there = stat(path.at, &st) == 0 && st.st_size == e->bytes;
  hl_buf_free(&path);
  return there;
}

static bool has_changed(const CleanEntry *e) {
  struct stat st;
  return stat(e->what.file, &st) == 0 &&
         (st.st_size != e->size ||
          (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec != e->mtime);
}

// Takes up what earlier runs did. A file that has changed since, whose text is gone, or that was left out for one of these, is
// done again: it is made to look as if it were not there.
static void take_up(Cleaner *c) {
  Map lost = {.arena = c->arena};  // names in the folder
  for (int k = 0; k < c->journal.old.n;) {
    CleanEntry *first = &c->journal.old.at[k];
    bool good = !has_changed(first);
    for (int j = 0; j < first->n; j++) {
      const HlCleaned *what = &first[j].what;
      good = good && (what->state != HL_CLEAN_KEPT || is_there(c, &first[j])) &&
             (what->state != HL_CLEAN_DUPLICATE || !map_get(&lost, name_key(what->out)));
    }
    // Of a file that was done twice the newer entry counts.
    good = good &&
           clean_journal_find(&c->journal, first->what.file, first->size, first->mtime) == first;
    for (int j = 0; j < first->n; j++) {
      if (good && first[j].what.state == HL_CLEAN_KEPT)
        note_kept(c, &first[j].what);
      else if (!good && first[j].what.state == HL_CLEAN_KEPT)
        *map_at(&lost, name_key(first[j].what.out)) = 1;
      if (!good)
        first[j].mtime = -1;
    }
    k += first->n;
  }
}

// What a run that was killed has left half-written: NAME.hlo.PID-K.tmp.
static void drop_leftovers(const Cleaner *c) {
  Listing listing;
  if (c->journal.old.n == 0 || !listing_read(c->cx, c->options->folder, &listing))
    return;
  for (int k = 0; k < listing.files.n; k++) {
    const char *path = listing.files.at[k].path, *at = strstr(path, ".hlo.");
    const size_t digits = at ? strspn(at + 5, "0123456789-") : 0;
    if (digits == 0 || strcmp(at + 5 + digits, ".tmp") != 0)
      continue;
    HlArena *arena = hl_arena_new();
    unlink(whole_path(arena, c, path));
    hl_arena_free(arena);
  }
  listing_free(&listing);
}

// --- All files ----------------------------------------------------------------------------------

typedef VEC(Input) Inputs;

static bool is_in_folder(const Cleaner *c, const char *directory) {
  char real[PATH_MAX];
  const size_t n = strlen(c->real);
  return realpath(directory, real) && strncmp(real, c->real, n) == 0 &&
         (real[n] == 0 || real[n] == '/');
}

static void list_directory(Cleaner *c, const char *directory, const Listing *listing, Inputs *out) {
  const char *last = NULL;
  bool is_own = false;
  for (int k = 0; k < listing->files.n; k++) {
    const ListingFile *f = &listing->files.at[k];
    const Input in = {.path = hl_arena_printf(c->arena, "%s/%s", directory, f->path),
                      .size = f->size,
                      .mtime = f->mtime,
                      .is_listed = true,
                      .name = hl_arena_strndup(c->arena, f->path, strlen(f->path))};
    // Files come sorted: those of one folder mostly stand together.
    const char *slash = strrchr(in.path, '/');
    const char *folder = hl_arena_strndup(c->arena, in.path, (size_t)(slash - in.path));
    if (!last || strcmp(last, folder) != 0)
      is_own = is_in_folder(c, folder);
    last = folder;
    if (!is_own && !listing_is_own(in.path))
      vec_push_in(c->arena, out, in);
  }
}

static bool list_inputs(Cleaner *c, int n, const char *const *paths, Inputs *out) {
  for (int k = 0; k < n; k++) {
    struct stat st;
    const bool there = stat(paths[k], &st) == 0;
    Listing listing;
    if (there && S_ISDIR(st.st_mode)) {
      const bool ok = listing_read(c->cx, paths[k], &listing);
      if (ok)
        list_directory(c, paths[k], &listing, out);
      listing_free(&listing);
      if (!ok)
        return false;
      continue;
    }
    const int64_t mtime = there ? (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : 0;
    const char *slash = strrchr(paths[k], '/');
    const Input in = {paths[k], slash ? slash + 1 : paths[k], there ? st.st_size : 0, mtime, false};
    vec_push_in(c->arena, out, in);
  }
  return true;
}

static const char *how_of(HlArena *arena, const HlCleanOptions *o) {
  return hl_arena_printf(arena, "%s%s%s%s", o->load.verify ? "verified" : "not verified",
                         o->keep_names ? ", names kept" : "",
                         o->keep_metadata ? ", metadata kept" : "",
                         o->keep_duplicates ? ", duplicates kept" : "");
}

static bool run(Cleaner *c, int n, const char *const *paths) {
  char real[PATH_MAX];
  Inputs inputs = {0};
  if (!make_folders(c->cx, c->options->folder, false))
    return false;
  c->real = realpath(c->options->folder, real) ? hl_arena_strndup(c->arena, real, strlen(real))
                                               : c->options->folder;
  if (!list_inputs(c, n, paths, &inputs) ||
      !clean_journal_open(c->cx, c->options->folder, how_of(c->arena, c->options), &c->journal))
    return false;
  take_up(c);
  drop_leftovers(c);
  c->out->files = c->all = inputs.n;
  for (int k = 0; k < inputs.n; k++) {
    c->done = k;
    if (!take_input(c, &inputs.at[k]))
      return false;
  }
  return true;
}

bool hl_clean(HlCx *cx, int n, const char *const *paths, const HlCleanOptions *options,
              HlCleanShow *show, void *user, HlCleanCounts *out) {
  Cleaner c = {.cx = cx,
               .options = options,
               .show = show,
               .user = user,
               .out = out,
               .arena = hl_arena_new()};
  c.journal.fd = -1;
  c.by_hash.arena = c.names.arena = c.arena;
  *out = (HlCleanCounts){0};
  const bool ok = run(&c, n, paths);
  if (c.journal.arena)
    clean_journal_close(&c.journal);
  hl_arena_free(c.arena);
  return ok;
}
