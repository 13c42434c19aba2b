// The base layer, one idea per test.

#include "hilo/base.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// --- Arenas ---

static bool is_zero(const char *at, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (at[k])
      return false;
  return true;
}

// Nobody may ask for more than there is: a limit is said, where the system would end the process.
static void evaluation_fits_the_machine(void **state) {
  (void)state;
  const int64_t bytes = base_machine_memory();
  assert_true(bytes > 1 << 20);
  assert_int_equal(bytes, base_machine_memory());
  HlCx *cx = hl_cx_new();
  assert_true(hl_cx_limits(cx)->eval_bytes <= bytes);
  hl_cx_free(cx);
}

static void arena_is_zero_after_release(void **state) {
  HlArena *arena = hl_arena_new();
  HlRng rng = {1};
  for (int round = 0; round < 50; round++) {
    const HlMark mark = hl_arena_mark(arena);
    char *kept = NULL;
    for (int k = 0; k < 100; k++) {
      const size_t size = (size_t)hl_rng_below(&rng, k % 10 ? 200 : 20000) + 1;
      char *at = hl_arena_alloc(arena, size);
      assert_int_equal((uintptr_t)at % 16, 0);
      assert_true(is_zero(at, size));
      memset(at, 0xab, size);
      if (k == 0)
        kept = at;
      if (k == 50) {
        const HlMark inner = hl_arena_mark(arena);
        memset(hl_arena_alloc(arena, 100000), 1, 100000);
        hl_arena_release(arena, inner);
      }
    }
    assert_int_equal((unsigned char)kept[0], 0xab);
    if (round % 3)
      hl_arena_release(arena, mark);
  }
  hl_arena_free(arena);
}

static void arena_loop_does_not_grow(void **state) {
  HlArena *arena = hl_arena_new();
  size_t bytes = 0;
  for (int k = 0; k < 1000; k++) {
    const HlMark mark = hl_arena_mark(arena);
    hl_arena_alloc(arena, 3000);
    hl_arena_alloc(arena, 3000);
    hl_arena_release(arena, mark);
    if (k == 10)
      bytes = hl_arena_bytes(arena);
  }
  assert_int_equal(hl_arena_bytes(arena), bytes);
  hl_arena_free(arena);
}

static void arena_text(void **state) {
  HlArena *arena = hl_arena_new();
  assert_string_equal(hl_arena_printf(arena, "%s-%d", "x", 7), "x-7");
  assert_int_equal(strlen(hl_arena_printf(arena, "%1000d", 7)), 1000);
  assert_string_equal(hl_arena_strndup(arena, "hello", 4), "hell");
  assert_null(hl_arena_copy(arena, NULL, 0));
  hl_arena_free(arena);
  hl_arena_free(NULL);
}

// --- Symbols, lists ---

static void symbols_are_unique(void **state) {
  HlArena *arena = hl_arena_new();
  HlSyms *syms = hl_syms_new(arena);
  const HlSym *first[5000];
  char text[64];
  for (int k = 0; k < 5000; k++) {
    const int n =
        snprintf(text, sizeof text, "fusion.%d%s", k, k % 7 ? "" : ".of.a.rather.long.name");
    assert_null(hl_syms_find(syms, text, (size_t)n));
    first[k] = hl_syms_add(syms, text, (size_t)n);
    assert_string_equal(first[k]->text, text);
    assert_int_equal(first[k]->index, k);
  }
  for (int k = 0; k < 5000; k++) {
    snprintf(text, sizeof text, "%s", first[k]->text);
    assert_ptr_equal(hl_syms_add(syms, text, strlen(text)), first[k]);
    assert_ptr_equal(hl_syms_find(syms, text, strlen(text)), first[k]);
  }
  assert_int_equal(hl_syms_count(syms), 5000);
  assert_ptr_not_equal(hl_syms_add(syms, "a\0b", 3), hl_syms_add(syms, "a\0c", 3));
  const HlSym *empty = hl_syms_add(syms, "", 0);
  assert_ptr_equal(hl_syms_find(syms, NULL, 0), empty);
  hl_arena_free(arena);
}

// Each byte and the length count, at every length.
static void hash_sees_every_byte(void **state) {
  char bytes[80] = {0};
  for (size_t n = 0; n < sizeof bytes; n++) {
    const uint64_t base = hl_hash_bytes(bytes, n, 0);
    assert_true(base != hl_hash_bytes(bytes, n + 1, 0));
    assert_true(base != hl_hash_bytes(bytes, n, 1));
    for (size_t k = 0; k < n; k++) {
      bytes[k] = 1;
      assert_true(hl_hash_bytes(bytes, n, 0) != base);
      bytes[k] = 0;
    }
  }
}

static void lists(void **state) {
  const int64_t values[] = {3, 1, 3};
  HlArena *arena = hl_arena_new();
  const HlI64s list = {values, 3}, copy = hl_i64s_copy(arena, list);
  assert_int_equal(hl_i64s_find(list, 3), 0);
  assert_int_equal(hl_i64s_find(list, 2), -1);
  assert_true(hl_i64s_equal(list, copy));
  assert_false(hl_i64s_equal(list, (HlI64s){values, 2}));
  assert_true(hl_i64s_equal((HlI64s){0}, (HlI64s){0}));
  assert_true(hl_str_is((HlStr){"adder", 3}, "add"));
  assert_false(hl_str_is((HlStr){"add", 3}, "ad"));
  hl_arena_free(arena);
}

// --- Buffers ---

static void prints_integers(void **state) {
  HlBuf buf = {0};
  char want[64];
  HlRng rng = {5};
  const int64_t edges[] = {0, 9, 10, 99, 100, -1, INT64_MIN, INT64_MAX};
  for (int k = 0; k < 2000; k++) {
    const int64_t value = k < 8 ? edges[k] : (int64_t)(hl_rng_u64(&rng) >> hl_rng_below(&rng, 64));
    buf.n = 0;
    hl_buf_i64(&buf, value);
    snprintf(want, sizeof want, "%lld", (long long)value);
    assert_string_equal(buf.at, want);
  }
  buf.n = 0;
  hl_buf_u64(&buf, UINT64_MAX);
  assert_string_equal(buf.at, "18446744073709551615");
  hl_buf_free(&buf);
}

static void prints_formats(void **state) {
  HlBuf buf = {0};
  hl_buf_printf(&buf, "%s", "");
  assert_string_equal(buf.at, "");
  hl_buf_printf(&buf, "%0500d|", 1);
  hl_buf_putc(&buf, 'x');
  hl_buf_puts(&buf, "yz");
  assert_int_equal(buf.n, 504);
  assert_string_equal(buf.at + 499, "1|xyz");
  hl_buf_free(&buf);
}

static void escapes(void **state) {
  HlBuf buf = {0};
  hl_buf_c_escape(&buf, "a\n\r\t\"'\\\0\x7f\xc3\xa7z", 12);
  assert_string_equal(buf.at, "a\\n\\r\\t\\\"\\'\\\\\\000\\177\\303\\247z");
  buf.n = 0;
  hl_buf_c_escape(&buf, "", 0);
  assert_string_equal(buf.at, "");
  // Each byte at each place of a long text.
  for (int byte = 0; byte < 256; byte++)
    for (size_t at = 0; at < 19; at++) {
      char text[] = "abcdefghijklmnopqrs", one[8], expected[32];
      buf.n = 0;
      hl_buf_c_escape(&buf, &(char){(char)byte}, 1);
      snprintf(one, sizeof one, "%s", buf.at);
      snprintf(expected, sizeof expected, "%.*s%s%s", (int)at, text, one, text + at + 1);
      text[at] = (char)byte;
      buf.n = 0;
      hl_buf_c_escape(&buf, text, 19);
      assert_string_equal(buf.at, expected);
    }
  buf.n = 0;
  hl_buf_json_string(&buf, "q\"'\\\n\x01\xc3\xa7\xff\xc3\xf0\x9f\x98\x80\xed\xa0\x80", 17);
  assert_string_equal(buf.at, "\"q\\\"'\\\\\\n\\u0001\xc3\xa7\\ufffd\\ufffd\xf0\x9f\x98\x80"
                              "\\ufffd\\ufffd\\ufffd\"");
  hl_buf_free(&buf);
}

// --- Sources and diagnostics ---

static void lines_and_columns(void **state) {
  const char *text = "ab\n\ncd\r\nlast";
  HlSource *source = hl_source_new("f", text, strlen(text), false);
  int64_t line = 1, column = 1;
  for (size_t k = 0; k <= strlen(text); k++) {
    const HlLineCol got = hl_source_line_col(source, (HlLoc)k + 1);
    assert_int_equal(got.line, line);
    assert_int_equal(got.column, column);
    column = text[k] == '\n' ? 1 : column + 1;
    line += text[k] == '\n';
  }
  assert_int_equal(hl_source_line_col(source, 0).line, 0);
  assert_int_equal(hl_source_line_col(source, 1000).line, 4);
  hl_source_unref(hl_source_ref(source));
  hl_source_unref(source);
  source = hl_source_new("f", "\n\n", 2, true);
  assert_int_equal(hl_source_line_col(source, 3).column, 2);
  assert_int_equal(hl_source_line_col(source, 3).line, 0);
  hl_source_unref(source);
}

static void expect_rendered(const HlCx *cx, int k, const char *want) {
  HlBuf out = {0};
  hl_diag_render(hl_cx_diag(cx, k), false, &out);
  assert_string_equal(out.at, want);
  hl_buf_free(&out);
}

static void renders(void **state) {
  HlCx *cx = hl_cx_new();
  const char *text = "HloModule m\n\tx = f32[] ad()\n";
  HlSource *source = hl_source_new("m.hlo", text, strlen(text), false);
  HlSource *binary = hl_source_new("m.pb", "\0", 1, true);
  assert_false(hl_error(cx, (HlPos){source, 24}, "unknown opcode '%s'", "ad"));
  hl_hint(cx, "did you mean '%s'?", "add");
  hl_warn(cx, (HlPos){binary, 13}, "odd");
  hl_note(cx, (HlPos){source, 0}, "no place");
  hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "esc\033 and\nmore");
  hl_source_unref(source);
  hl_source_unref(binary);
  expect_rendered(cx, 0,
                  "m.hlo:2:12: error: unknown opcode 'ad'\n          x = f32[] ad()\n"
                  "                    ^\n  did you mean 'add'?\n");
  expect_rendered(cx, 1, "m.pb: byte 12: warning: odd\n");
  expect_rendered(cx, 2, "m.hlo: note: no place\n");
  expect_rendered(cx, 3, "error: esc\\033 and\nmore\n");
  assert_int_equal(hl_cx_n_errors(cx), 2);
  assert_int_equal(hl_cx_error_kind(cx), HL_INVALID);
  hl_cx_free(cx);
}

static void renders_long_lines(void **state) {
  HlCx *cx = hl_cx_new();
  HlBuf text = {0};
  for (int k = 0; k < 1000; k++)
    hl_buf_printf(&text, "%d,", k);
  HlSource *source = hl_source_take("f", &text, false);
  for (HlLoc loc = 1; loc < 3900; loc += 7) {
    HlBuf out = {0};
    hl_cx_clear(cx);
    hl_error(cx, (HlPos){source, loc}, "here");
    hl_diag_render(hl_cx_diag(cx, 0), false, &out);
    const char *line = strchr(out.at, '\n') + 1, *caret_line = strchr(line, '\n') + 1;
    const size_t caret = (size_t)(strchr(caret_line, '^') - caret_line);
    assert_true(caret_line - line < 120);
    assert_true(caret < 110);
    if (loc <= hl_source_bytes(source).n)
      assert_int_equal(line[caret], hl_source_bytes(source).at[loc - 1]);
    hl_buf_free(&out);
  }
  hl_source_unref(source);
  hl_cx_free(cx);
}

static void stores_so_many_errors(void **state) {
  HlCx *cx = hl_cx_new(), *other = hl_cx_new();
  hl_cx_limits(cx)->errors = 3;
  for (int k = 0; k < 10; k++)
    hl_warn(cx, (HlPos){0}, "w%d", k);
  for (int k = 0; k < 2; k++)
    hl_error_kind(cx, HL_FAILED, (HlPos){0}, "e%d", k);
  const int n = hl_cx_n_diags(cx);
  hl_error(cx, (HlPos){0}, "tried");
  hl_cx_forget(cx, n);
  assert_int_equal(hl_cx_n_errors(cx), 2);
  for (int k = 0; k < 5; k++) {
    hl_error(cx, (HlPos){0}, "x%d", k);
    hl_note(cx, (HlPos){0}, "n%d", k);
    hl_hint(cx, "h%d", k);
  }
  assert_int_equal(hl_cx_n_errors(cx), 7);
  assert_int_equal(hl_cx_n_diags(cx), 7);
  assert_string_equal(hl_cx_diag(cx, 6)->hint, "h0");
  hl_cx_merge(other, cx);
  assert_int_equal(hl_cx_n_errors(other), 7);
  assert_int_equal(hl_cx_n_diags(other), 7);
  assert_int_equal(hl_cx_error_kind(other), HL_FAILED);
  assert_int_equal(hl_cx_n_errors(cx), 0);
  assert_int_equal(hl_cx_n_diags(cx), 0);
  hl_cx_free(cx);
  hl_cx_free(other);
}

static void expect_times(const HlCx *cx, int k, const char *text, int times) {
  assert_string_equal(hl_cx_diag(cx, k)->text, text);
  assert_int_equal(hl_cx_diag(cx, k)->times, times);
}

// Equal warnings are one, what belongs to them is said once; an outcome stands, whatever came before it.
static void counts_what_is_the_same(void **state) {
  HlCx *cx = hl_cx_new(), *other = hl_cx_new();
  hl_cx_limits(cx)->errors = 2;
  for (int k = 0; k < 6; k++) {
    hl_warn(cx, (HlPos){0}, "w%d", k % 3);
    hl_note(cx, (HlPos){0}, "n%d", k % 3);
    hl_tell(cx, (HlPos){0}, "told");
  }
  for (int k = 0; k < 10; k++)
    hl_tell(cx, (HlPos){0}, "%d", k);
  hl_conclude(cx, (HlPos){0}, "done");
  hl_conclude(cx, (HlPos){0}, "done");
  expect_times(cx, 0, "w0", 2);
  expect_times(cx, 1, "n0", 1);
  expect_times(cx, 2, "told", 1);
  expect_times(cx, 3, "w1", 2);
  expect_times(cx, 4, "n1", 1);
  expect_times(cx, 5, "told", 5);
  expect_times(cx, 12, "done", 2);
  assert_int_equal(hl_cx_n_diags(cx), 13);
  assert_int_equal(hl_cx_n_lost(cx, HL_WARNING), 2);
  assert_int_equal(hl_cx_n_lost(cx, HL_NOTE), 4 + 2);
  hl_warn(other, (HlPos){0}, "w0");
  hl_cx_merge(other, cx);
  expect_times(other, 0, "w0", 3);
  expect_times(other, hl_cx_n_diags(other) - 1, "done", 2);
  assert_int_equal(hl_cx_n_lost(other, HL_WARNING), 2);
  const int n = hl_cx_n_diags(other);
  hl_cx_limits(other)->errors = 1;
  hl_warn(other, (HlPos){0}, "one too many");
  assert_int_equal(hl_cx_n_diags(other), n);
  assert_int_equal(hl_cx_n_lost(other, HL_WARNING), 3);
  hl_cx_forget(other, 0);
  assert_int_equal(hl_cx_n_lost(other, HL_WARNING), 0);
  hl_cx_free(cx);
  hl_cx_free(other);
}

static void registers(void **state) {
  HlCx *cx = hl_cx_new();
  static const char values[40];
  char key[40];
  assert_null(hl_cx_lookup(cx, "custom_call:x"));
  for (int k = 0; k < 40; k++) {
    snprintf(key, sizeof key, "key:%d", k);
    hl_cx_register(cx, key, (void *)&values[k]);
  }
  for (int k = 0; k < 40; k++) {
    snprintf(key, sizeof key, "key:%d", k);
    assert_ptr_equal(hl_cx_lookup(cx, key), &values[k]);
  }
  hl_cx_register(cx, "key:3", NULL);
  assert_null(hl_cx_lookup(cx, "key:3"));
  hl_cx_free(cx);
}

static void suggests(void **state) {
  static const char *const words[] = {"add", "and", "reduce", "reduce-window", "dynamic-slice"};
  const int n = HL_COUNT_OF(words);
  assert_string_equal(hl_nearest(hl_str("ad"), words, n), "add");
  assert_string_equal(hl_nearest(hl_str("dad"), words, n), "add");
  assert_string_equal(hl_nearest(hl_str("ADD"), words, n), "add");
  assert_string_equal(hl_nearest(hl_str("reduce_windwo"), words, n), "reduce-window");
  assert_string_equal(hl_nearest(hl_str("dynamicslice"), words, n), "dynamic-slice");
  assert_null(hl_nearest(hl_str("x"), words, n));
  assert_null(hl_nearest(hl_str("multiply"), words, n));
  assert_null(hl_nearest(hl_str(""), words, n));
}

// --- Files ---

typedef struct Folder {
  char path[64];
} Folder;

static void make_folder(Folder *folder) {
  snprintf(folder->path, sizeof folder->path, "/tmp/hilo-test-XXXXXX");
  assert_non_null(mkdtemp(folder->path));
}

static char *inside(const Folder *folder, const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder->path, name);
  return path;
}

static HlBuf sample(size_t n) {
  HlBuf buf = {0};
  HlRng rng = {3};
  while (buf.n < n)
    hl_buf_printf(&buf, "%lld, ", (long long)hl_rng_below(&rng, 1000));
  return buf;
}

static void files_come_back(void **state) {
  static const char *const names[] = {"plain.txt", "x.gz", "x.zst", "y.gz"};
  static const size_t sizes[] = {0, 1, 1000, 3000000};
  Folder folder;
  HlCx *cx = hl_cx_new();
  make_folder(&folder);
  for (int k = 0; k < HL_COUNT_OF(names); k++) {
    for (int s = 0; s < HL_COUNT_OF(sizes); s++) {
      HlBuf want = sample(sizes[s]);
      assert_true(hl_write_file(cx, inside(&folder, names[k]), want.at, want.n));
      HlSource *source = hl_read_file(cx, inside(&folder, names[k]));
      assert_non_null(source);
      assert_false(hl_source_is_binary(source));
      assert_true(hl_str_equal(hl_source_bytes(source), (HlStr){want.at, want.n}));
      hl_source_unref(source);
      hl_buf_free(&want);
    }
    unlink(inside(&folder, names[k]));
  }
  assert_int_equal(rmdir(folder.path), 0);  // nothing temporary is left
  hl_cx_free(cx);
}

static void writing_keeps_mode(void **state) {
  Folder folder;
  HlCx *cx = hl_cx_new();
  struct stat info;
  make_folder(&folder);
  char *path = inside(&folder, "f");
  assert_true(hl_write_file(cx, path, "a", 1));
  assert_int_equal(chmod(path, 0640), 0);
  assert_true(hl_write_file(cx, path, "b", 1));
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0640);
  unlink(path);
  rmdir(folder.path);
  hl_cx_free(cx);
}

static void file_errors_are_told(void **state) {
  HlCx *cx = hl_cx_new();
  assert_null(hl_read_file(cx, "/nowhere/at/all"));
  expect_rendered(cx, 0, "error: cannot read /nowhere/at/all: No such file or directory\n");
  assert_null(hl_read_file(cx, "/tmp"));
  expect_rendered(cx, 1, "error: cannot read /tmp: Is a directory\n");
  assert_false(hl_write_file(cx, "/nowhere/at/all", "", 0));
  expect_rendered(cx, 2, "error: cannot write /nowhere/at/all: No such file or directory\n");
  assert_false(hl_write_file(cx, "/tmp", "", 0));
  assert_true(hl_write_file(cx, "/dev/null", "x", 1));
  hl_cx_free(cx);
}

static HlBuf compressed(HlCx *cx, const char *ending, HlStr bytes) {
  Folder folder;
  make_folder(&folder);
  HlBuf out = {0};
  char *path = inside(&folder, ending);
  assert_true(hl_write_file(cx, path, bytes.at, bytes.n));
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  for (int c; (c = getc(file)) != EOF;)
    hl_buf_putc(&out, (char)c);
  fclose(file);
  unlink(path);
  rmdir(folder.path);
  return out;
}

// Several members are one text; a cut anywhere is an error; so are limits.
static void compressed_data(void **state) {
  static const char *const endings[] = {"x.gz", "x.zst"};
  HlCx *cx = hl_cx_new();
  HlBuf text = sample(2000);
  for (int k = 0; k < 2; k++) {
    HlBuf one = compressed(cx, endings[k], (HlStr){text.at, text.n}), out = {0}, two = {0};
    bool was;
    hl_buf_add(&two, one.at, one.n);
    hl_buf_add(&two, one.at, one.n);
    hl_buf_add(&two, "\0\0", 2);
    assert_true(hl_decompress(cx, (HlPos){0}, (HlStr){two.at, two.n}, &out, &was));
    assert_true(was);
    assert_int_equal(out.n, 2 * text.n);
    assert_memory_equal(out.at + text.n, text.at, text.n);
    hl_buf_free(&out);

    HlSource *source = hl_source_new("f", one.at, one.n, true);
    for (size_t n = 4; n < one.n; n++) {
      hl_cx_clear(cx);
      assert_false(hl_decompress(cx, (HlPos){source, 1}, (HlStr){one.at, n}, &out, &was));
      assert_int_equal(hl_cx_n_errors(cx), 1);
      assert_true(hl_cx_diag(cx, 0)->loc <= n + 1);
      assert_null(out.at);
    }
    hl_cx_clear(cx);
    hl_source_unref(source);

    hl_cx_limits(cx)->file_bytes = 1000;
    assert_false(hl_decompress(cx, (HlPos){0}, (HlStr){one.at, one.n}, &out, &was));
    assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
    hl_cx_clear(cx);
    hl_cx_limits(cx)->file_bytes = 1 << 20;
    hl_buf_free(&one);
    hl_buf_free(&two);
  }
  hl_buf_free(&text);
  hl_cx_free(cx);
}

static void nested_compression(void **state) {
  HlCx *cx = hl_cx_new();
  HlBuf now = {0}, out = {0};
  bool was;
  hl_buf_puts(&now, "hello");
  assert_true(hl_decompress(cx, (HlPos){0}, (HlStr){now.at, now.n}, &out, &was));
  assert_false(was);
  for (int layer = 1; layer <= 5; layer++) {
    HlBuf next = compressed(cx, layer % 2 ? "x.gz" : "x.zst", (HlStr){now.at, now.n});
    hl_buf_free(&now);
    now = next;
    const bool ok = hl_decompress(cx, (HlPos){0}, (HlStr){now.at, now.n}, &out, &was);
    assert_int_equal(ok, layer <= 4);
    if (ok)
      assert_string_equal(out.at, "hello");
  }
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_buf_free(&now);
  hl_buf_free(&out);
  hl_cx_free(cx);
}

// Damaged data give one error or other bytes, never more.
static void damaged_compression(void **state) {
  HlCx *cx = hl_cx_new();
  HlBuf text = sample(500);
  HlRng rng = {9};
  for (int k = 0; k < 2; k++) {
    HlBuf packed = compressed(cx, k ? "x.zst" : "x.gz", (HlStr){text.at, text.n}), out = {0};
    hl_cx_limits(cx)->file_bytes = 1 << 22;
    for (int n = 0; n < 2000; n++) {
      const size_t at = (size_t)hl_rng_below(&rng, (int64_t)packed.n);
      const char saved = packed.at[at];
      bool was;
      packed.at[at] = (char)hl_rng_u64(&rng);
      const bool ok = hl_decompress(cx, (HlPos){0}, (HlStr){packed.at, packed.n}, &out, &was);
      assert_int_equal(hl_cx_n_errors(cx), !ok);
      packed.at[at] = saved;
      hl_cx_clear(cx);
      hl_buf_free(&out);
    }
    hl_buf_free(&packed);
  }
  hl_buf_free(&text);
  hl_cx_free(cx);
}

// --- Random numbers ---

static void random_numbers(void **state) {
  HlRng rng = {0};
  assert_true(hl_rng_u64(&rng) == 0xe220a8397b1dcdaf);  // published test vector
  int counts[10] = {0};
  for (int k = 0; k < 10000; k++) {
    counts[hl_rng_below(&rng, 10)]++;
    const double unit = hl_rng_unit(&rng);
    assert_true(unit >= 0 && unit < 1);
  }
  for (int k = 0; k < 10; k++)
    assert_in_range(counts[k], 850, 1150);
  assert_int_equal(hl_rng_below(&rng, 1), 0);
  assert_true(hl_rng_below(&rng, INT64_MAX) >= 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(evaluation_fits_the_machine),
      cmocka_unit_test(arena_is_zero_after_release),
      cmocka_unit_test(arena_loop_does_not_grow),
      cmocka_unit_test(arena_text),
      cmocka_unit_test(symbols_are_unique),
      cmocka_unit_test(hash_sees_every_byte),
      cmocka_unit_test(lists),
      cmocka_unit_test(prints_integers),
      cmocka_unit_test(prints_formats),
      cmocka_unit_test(escapes),
      cmocka_unit_test(lines_and_columns),
      cmocka_unit_test(renders),
      cmocka_unit_test(renders_long_lines),
      cmocka_unit_test(stores_so_many_errors),
      cmocka_unit_test(counts_what_is_the_same),
      cmocka_unit_test(registers),
      cmocka_unit_test(suggests),
      cmocka_unit_test(files_come_back),
      cmocka_unit_test(writing_keeps_mode),
      cmocka_unit_test(file_errors_are_told),
      cmocka_unit_test(compressed_data),
      cmocka_unit_test(nested_compression),
      cmocka_unit_test(damaged_compression),
      cmocka_unit_test(random_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
