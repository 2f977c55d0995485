// Uses every part of the C interface, then reads mutated programs: fold MUTATIONS FILE...
#include "optc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ok(OptcError *error) {
  if (error) {
    fprintf(stderr, "%s\n", optc_error_text(error));
    abort();
  }
}

static void fails(OptcError *error, const char *code) {
  assert(error && strcmp(optc_error_code(error), code) == 0);
  optc_error_free(error);
}

static void layouts(void) {
  OptcLayout *rows, *columns, *turned, *strided;
  ok(optc_layout_parse("f32[2,3]{1,0}", &rows));
  ok(optc_layout_parse("f32[2,3]{0,1}", &columns));
  ok(optc_layout_parse("tensor<3x2xf32, {order = [1, 0]}>", &turned));
  assert(optc_layout_rank(rows) == 2 && optc_layout_shape(rows)[1] == 3 && optc_layout_bytes(rows) == 24);
  uint64_t index[] = {1, 2}, outside[] = {2, 0}, position;
  ok(optc_layout_index(rows, index, 2, &position));
  assert(position == 5);
  fails(optc_layout_index(rows, index, 1, &position), "index-rank");
  fails(optc_layout_index(rows, outside, 2, &position), "index-bounds");
  ok(optc_layout_written_as(columns, "strided", &strided));
  assert(strcmp(optc_layout_text(strided), "tensor<2x3xf32, {strides = [1, 2]}>") == 0);

  size_t perm[] = {1, 0};
  OptcDecision *view, *copy, *deduced;
  ok(optc_layout_is_view(rows, NULL, 0, perm, 2, turned, &view));
  assert(optc_decision_is_view(view) && !optc_decision_reason(view));
  ok(optc_layout_is_view(rows, NULL, 0, NULL, 0, columns, &copy));
  assert(!optc_decision_is_view(copy) && optc_decision_reason(copy));
  ok(optc_layout_deduce(rows, turned, &deduced));
  assert(optc_decision_is_view(deduced) && 0 < optc_decision_map_count(deduced));
  OptcMap map;
  ok(optc_decision_map(deduced, optc_decision_map_count(deduced) - 1, &map));
  assert(map.result_rank == 2 && map.result[0] == 3);
  fails(optc_decision_map(view, 7, &map), "foreign-argument");

  float in[] = {1, 2, 3, 4, 5, 6}, out[6];
  ok(optc_layout_convert(rows, columns, (const uint8_t *)in, sizeof in, (uint8_t *)out, sizeof out));
  assert(out[1] == 4 && out[2] == 2);
  fails(optc_layout_convert(rows, columns, (const uint8_t *)in, 3, (uint8_t *)out, sizeof out), "layout-conversion");
  optc_decision_free(view);
  optc_decision_free(copy);
  optc_decision_free(deduced);
  optc_layout_free(rows);
  optc_layout_free(columns);
  optc_layout_free(turned);
  optc_layout_free(strided);
}

static const char *program_text =
    "func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {\n"
    "  %0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
    "  return %0 : tensor<3x2xf32>\n"
    "}\n";

static OptcProgram *parsed(const char *text) {
  OptcProgram *program;
  ok(optc_program_read((const uint8_t *)text, strlen(text), "a.ir", NULL, &program));
  return program;
}

static void pinned(void) {
  OptcProgram *program = parsed(program_text);
  assert(optc_program_value_count(program) == 2 && strcmp(optc_program_value_name(program, 0), "x") == 0);
  size_t x, y, none;
  ok(optc_program_find(program, "x", &x));
  ok(optc_program_find(program, "result0", &y));
  ok(optc_program_find(program, "z", &none));
  assert(x == 0 && y == 1 && none == SIZE_MAX);

  OptcAnswer *answer;
  ok(optc_fold(program, NULL, &answer));
  OptcConversion conversion;
  size_t count;
  ok(optc_answer_conversion_count(answer, &count));
  assert(count == 1);
  ok(optc_answer_conversion(answer, 0, &conversion));
  assert(conversion.bytes == 48 && strcmp(conversion.from, "row-major") == 0 && conversion.reason);
  uint64_t bytes, bound;
  ok(optc_answer_stat(answer, "movement_bytes", &bytes));
  ok(optc_answer_stat(answer, "lower_bound_bytes", &bound));
  assert(bytes == 48 && bound == 48 && strcmp(optc_answer_proof(answer), "optimal") == 0);
  ok(optc_answer_stat(answer, "peak_bytes", &bytes));
  fails(optc_answer_stat(answer, "beauty", &bytes), "foreign-argument");
  OptcView view;
  ok(optc_answer_view(answer, y, &view));
  assert(view == OPTC_VIEW_VIEW); // A conversion of the view follows.
  optc_answer_free(answer);
  optc_program_free(program);
}

static void freed(void) {
  OptcProgram *program = parsed(program_text);
  OptcTarget *target;
  ok(optc_target_find("cpu", &target));
  assert(strcmp(optc_target_name(target), "cpu") == 0);
  OptcOptions *options = optc_options_new();
  ok(optc_options_target(options, target));
  ok(optc_options_free_boundary(options, "result0"));
  ok(optc_options_pin(options, "x", "{order = [0, 1]}"));
  OptcAnswer *answer;
  ok(optc_fold(program, options, &answer));
  optc_program_free(program);
  optc_options_free(options);
  optc_target_free(target);

  OptcFate fate;
  ok(optc_answer_fate(answer, 1, &fate));
  assert(fate == OPTC_FATE_HELD);
  size_t count;
  ok(optc_answer_holder_count(answer, 1, &count));
  OptcHolder holder;
  ok(optc_answer_holder(answer, 1, 0, &holder));
  assert(0 < count && holder.rank == 2 && holder.strides[0] == 1 && holder.strides[1] == 3);
  assert(strcmp(holder.buffer, "x") == 0 && strcmp(holder.func, "main") == 0);
  uint64_t index[] = {1, 1};
  int64_t offset;
  ok(optc_answer_offset(answer, 1, 0, index, 2, &offset));
  assert(offset == 4);
  fails(optc_answer_holder(answer, 1, count, &holder), "foreign-argument");
  fails(optc_answer_fate(answer, 99, &fate), "foreign-argument");
  OptcView view;
  ok(optc_answer_view(answer, 1, &view));
  assert(view == OPTC_VIEW_VIEW);
  const char *formats[] = {"ir", "json", "onnx", "stablehlo"};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    OptcBytes bytes;
    ok(optc_answer_write(answer, formats[i], &bytes));
    assert(0 < bytes.len);
    optc_bytes_free(&bytes);
    optc_bytes_free(&bytes);
  }
  optc_answer_free(answer);
}

static void errors(void) {
  OptcProgram *program;
  OptcTarget *target;
  OptcError *error = optc_program_read((const uint8_t *)"\n  %0 = ", 8, "a.ir", NULL, &program);
  assert(error && optc_error_line(error) == 2 && optc_error_column(error) == 7);
  assert(strcmp(optc_error_file(error), "a.ir") == 0 && *optc_error_message(error));
  optc_error_free(error);
  fails(optc_target_find("gpu", &target), "unknown-target");
  fails(optc_target_parse("name = 3", &target), "target-file");
  fails(optc_target_find(NULL, &target), "foreign-argument");
  fails(optc_fold(NULL, NULL, NULL), "foreign-argument");
  fails(optc_program_load("absent.ir", NULL, &program), "io-read");
  OptcOptions *options = optc_options_new();
  ok(optc_options_pin(options, "z", "{order = [0, 1]}"));
  fails(optc_options_bind(options, "N", 0), "foreign-argument");
  OptcAnswer *answer;
  program = parsed(program_text);
  fails(optc_fold(program, options, &answer), "unknown-port");
  optc_options_free(options);
  options = optc_options_new();
  ok(optc_options_alias(options, "x", "result0"));
  ok(optc_options_bind(options, "N", 7));
  ok(optc_options_pipeline(options, "no-such-pass"));
  error = optc_fold(program, options, &answer);
  assert(error);
  optc_error_free(error);
  optc_options_free(options);
  optc_program_free(program);
  optc_program_free(NULL);
  optc_answer_free(NULL);
  optc_error_free(NULL);
}

// A pseudo-random number, the same on every machine (xorshift).
static uint64_t state = 88172645463325252u;
static size_t below(size_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (size_t)(state % n);
}

static uint8_t *read_file(const char *path, size_t *len) {
  FILE *file = fopen(path, "rb");
  assert(file && fseek(file, 0, SEEK_END) == 0);
  *len = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(*len);
  assert(fread(bytes, 1, *len, file) == *len);
  fclose(file);
  return bytes;
}

// Changes, drops or repeats some bytes. The buffer has room for twice the length.
static size_t mutate(uint8_t *bytes, size_t len) {
  for (size_t edits = 1 + below(3); 0 < edits && 0 < len; edits--) {
    size_t at = below(len), run = 1 + below(len - at < 9 ? len - at : 9);
    switch (below(4)) {
    case 0:
      bytes[at] ^= (uint8_t)(1u << below(8));
      break;
    case 1:
      bytes[at] = (uint8_t)"0123456789-[]{}()%<>x,"[below(22)];
      break;
    case 2:
      memmove(bytes + at, bytes + at + run, len - at - run);
      len -= run;
      break;
    default:
      memmove(bytes + at + run, bytes + at, len - at);
      len += run;
    }
  }
  return len;
}

// Reads, folds and writes one input; returns true if it is a program.
static bool whole(const uint8_t *bytes, size_t len, const char *name) {
  OptcProgram *program;
  OptcError *error = optc_program_read(bytes, len, name, NULL, &program);
  if (error) {
    assert(*optc_error_code(error) && *optc_error_message(error));
    assert(strcmp(optc_error_code(error), "internal-error") != 0);
    optc_error_free(error);
    return false;
  }
  OptcAnswer *answer;
  error = optc_fold(program, NULL, &answer);
  if (!error) {
    for (size_t i = 0; i < optc_program_value_count(program); i++) {
      size_t count;
      ok(optc_answer_holder_count(answer, i, &count));
    }
    size_t count;
    ok(optc_answer_conversion_count(answer, &count));
    OptcBytes written;
    error = optc_answer_write(answer, "onnx", &written);
    if (!error)
      optc_bytes_free(&written);
    optc_answer_free(answer);
  }
  assert(!error || strcmp(optc_error_code(error), "internal-error") != 0);
  optc_error_free(error);
  optc_program_free(program);
  return true;
}

int main(int argc, char **argv) {
  printf("optc %s\n", optc_version());
  layouts();
  pinned();
  freed();
  errors();
  if (argc < 3)
    return 0;
  size_t wanted = strtoul(argv[1], NULL, 10), read = 0;
  for (size_t i = 0; i < wanted; i++) {
    const char *path = argv[2 + i % (size_t)(argc - 2)];
    size_t len;
    uint8_t *bytes = read_file(path, &len);
    bytes = realloc(bytes, 2 * len + 64);
    len = mutate(bytes, len);
    read += whole(bytes, len, path);
    free(bytes);
  }
  printf("%zu mutated inputs, %zu of them programs\n", wanted, read);
  return 0;
}
