// The C interface of optc (docs/c.md). Made from bindings/c by cbindgen; do not edit.
//
// A call returns NULL, or an error that the caller frees. It writes its results through pointers, and only if it
// succeeds. No pointer may be NULL unless a comment says so: NULL is an error, not a crash. Texts are UTF-8 and end
// with NUL. An array is given by a pointer and its length, and stays unchanged during the call. A handle is freed once,
// by its own function. Handles do not change after they are made, except OptcOptions, so threads may share them.

#ifndef OPTC_H
#define OPTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The fate of a value in a fold.
typedef enum {
  // Values of the result have its elements: its holders.
  OPTC_FATE_HELD,
  // Nothing depended on it.
  OPTC_FATE_DEAD,
  // Operations of the result compute it inside.
  OPTC_FATE_INSIDE,
  // A pass removed it.
  OPTC_FATE_REMOVED,
} OptcFate;

// The fate of a reshape, a transpose or another rearrangement.
typedef enum {
  // Its result is its operand in the same buffer.
  OPTC_VIEW_VIEW,
  // Operations of the result write the elements again.
  OPTC_VIEW_MOVED,
  // Operand and result are computed apart.
  OPTC_VIEW_COMPUTED,
  // The operand or the result is in no value.
  OPTC_VIEW_ABSENT,
} OptcView;

// A program after its fold, and the fate of each value that went in.
typedef struct OptcAnswer OptcAnswer;

// The answer whether one layout is a view of another: a chain of maps, or a reason.
typedef struct OptcDecision OptcDecision;

// The reason why a call failed. The caller frees it.
typedef struct OptcError OptcError;

// A tensor type with its layout.
typedef struct OptcLayout OptcLayout;

// The options of a fold. Names are those of arguments and results of the program; they are checked by the fold.
typedef struct OptcOptions OptcOptions;

// A program that was read and verified.
typedef struct OptcProgram OptcProgram;

// A machine: the layouts that it takes, and their prices.
typedef struct OptcTarget OptcTarget;

// A value of the result that has the elements of a value that went in. Texts and arrays live as long as the answer.
typedef struct {
  // The name of the function in the result.
  const char *func;
  // The name of the value in the result.
  const char *value;
  // The layout of the value that went in, in the buffer of `value`; NULL if no layout describes it.
  const char *layout;
  // The stride of each dimension in elements, NULL if one has several or a size is not known.
  const uint64_t *strides;
  // The number of strides.
  size_t rank;
  // The name of the value whose buffer it is.
  const char *buffer;
  // True if the elements are in pieces, in the buffers of operands.
  bool in_pieces;
  // True if the value is known when the program is compiled.
  bool is_constant;
} OptcHolder;

// A conversion between layouts that the result runs. Texts live as long as the answer.
typedef struct {
  // The name of the converted value in the result.
  const char *value;
  // The layout that it reads; NULL if a size has no name.
  const char *from;
  // The layout that it writes; NULL if a size has no name.
  const char *to;
  // Bytes read plus written.
  uint64_t bytes;
  // True if it runs when the program is compiled.
  bool is_constant;
  // The reason why it stays; NULL for a constant, and for a conversion that the program stated.
  const char *reason;
} OptcConversion;

// Bytes that a call returns. The caller frees them with `optc_bytes_free`.
typedef struct {
  // The first byte.
  uint8_t *data;
  // The number of bytes.
  size_t len;
} OptcBytes;

// A map of elements: a reshape to `shape`, a transpose by `perm`, a reshape to `result`. The arrays live as long as
// the decision.
typedef struct {
  // Elements along each dimension before the transpose; NULL for those of the operand.
  const uint64_t *shape;
  // The number of dimensions before the transpose.
  size_t shape_rank;
  // The input axis of each output axis; NULL for no transpose.
  const size_t *perm;
  // The number of axes of `perm`.
  size_t perm_rank;
  // Elements along each dimension of the result.
  const uint64_t *result;
  // The number of dimensions of the result.
  size_t result_rank;
} OptcMap;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library.
const char *optc_version(void);

// Runs the passes on a program. NULL stands for the default options. The caller frees the answer.
OptcError *optc_fold(const OptcProgram *program, const OptcOptions *options, OptcAnswer **answer);

// Frees an answer; NULL is allowed.
void optc_answer_free(OptcAnswer *answer);

// The fate of a value that went in, by its number in the program.
OptcError *optc_answer_fate(const OptcAnswer *answer, size_t value, OptcFate *fate);

// The number of holders of a value that went in.
OptcError *optc_answer_holder_count(const OptcAnswer *answer, size_t value, size_t *count);

// A holder of a value that went in.
OptcError *optc_answer_holder(const OptcAnswer *answer,
                              size_t value,
                              size_t number,
                              OptcHolder *holder);

// The place of an element of a value that went in, in elements from the start of the holder's buffer.
OptcError *optc_answer_offset(const OptcAnswer *answer,
                              size_t value,
                              size_t number,
                              const uint64_t *index,
                              size_t rank,
                              int64_t *offset);

// The fate of the rearrangement that has this value as result.
OptcError *optc_answer_view(const OptcAnswer *answer, size_t value, OptcView *view);

// The number of conversions that stay, constants included.
OptcError *optc_answer_conversion_count(const OptcAnswer *answer, size_t *count);

// A conversion that stays.
OptcError *optc_answer_conversion(const OptcAnswer *answer,
                                  size_t number,
                                  OptcConversion *conversion);

// A figure of the result: a name of `docs/stats.md` such as `movement_bytes`, or `lower_bound_bytes`, `bytes_before`
// and `bytes_after` of the fold, or `peak_bytes`, the most bytes that are alive at once.
OptcError *optc_answer_stat(const OptcAnswer *answer,
                            const char *name,
                            uint64_t *figure);

// The strength of the proof of the lower bound, such as `optimal`; `none` if the passes have no `view-fold`. It
// lives as long as the answer.
const char *optc_answer_proof(const OptcAnswer *answer);

// Writes the result into memory: `ir`, `json`, `onnx`, `stablehlo`, `linalg` or `hlo`. The caller frees the bytes.
OptcError *optc_answer_write(const OptcAnswer *answer,
                             const char *format,
                             OptcBytes *bytes);

// Frees bytes, and makes them empty; NULL and empty bytes are allowed.
void optc_bytes_free(OptcBytes *bytes);

// The stable code, such as `unknown-target`. `docs/diagnostics.md` lists the codes.
const char *optc_error_code(const OptcError *error);

// The message of the first error, in one line.
const char *optc_error_message(const OptcError *error);

// The name of the input that the error is about.
const char *optc_error_file(const OptcError *error);

// All errors with their places and hints, as the command prints them.
const char *optc_error_text(const OptcError *error);

// The line of the place in the input, from 1; 0 if the error is about no place in a text.
size_t optc_error_line(const OptcError *error);

// The column of the place in the input, in characters from 1; 0 if the error is about no place in a text.
size_t optc_error_column(const OptcError *error);

// Frees an error; NULL is allowed.
void optc_error_free(OptcError *error);

// Reads a tensor type with its layout: `tensor<2x3xf32, {order = [1, 0]}>`, `f32[2,3]{0,1:T(2,128)}` or CuTe's
// `f32 (2,3):(1,2)`. The caller frees the layout.
OptcError *optc_layout_parse(const char *tensor,
                             OptcLayout **layout);

// Frees a layout; NULL is allowed.
void optc_layout_free(OptcLayout *layout);

// The tensor type as MLIR writes it. It lives as long as the layout.
const char *optc_layout_text(const OptcLayout *layout);

// The number of dimensions.
size_t optc_layout_rank(const OptcLayout *layout);

// Elements along each dimension, as many as the rank. The array lives as long as the layout.
const uint64_t *optc_layout_shape(const OptcLayout *layout);

// The bytes of the buffer, padding included.
uint64_t optc_layout_bytes(const OptcLayout *layout);

// The position of an element, in elements from the start of the buffer. `index` has one number for each of the `rank`
// dimensions.
OptcError *optc_layout_index(const OptcLayout *layout,
                             const uint64_t *index,
                             size_t rank,
                             uint64_t *position);

// The same layout in a notation: `block`, `strided`, `digits` or `xla`. The caller frees it.
OptcError *optc_layout_written_as(const OptcLayout *layout,
                                  const char *notation,
                                  OptcLayout **written);

// Decides whether `result` is `operand` in the same buffer, reshaped to `shape`, transposed by `perm`, and reshaped
// to the result. A NULL `shape` is that of the operand, a NULL `perm` no transpose. The caller frees the decision.
OptcError *optc_layout_is_view(const OptcLayout *operand,
                               const uint64_t *shape,
                               size_t shape_rank,
                               const size_t *perm,
                               size_t perm_rank,
                               const OptcLayout *result,
                               OptcDecision **decision);

// Finds the map between two tensors that share a buffer. The caller frees the decision.
OptcError *optc_layout_deduce(const OptcLayout *operand,
                              const OptcLayout *result,
                              OptcDecision **decision);

// Returns whether the result is a view.
bool optc_decision_is_view(const OptcDecision *decision);

// The reason why the result is no view; NULL if it is one. It lives as long as the decision.
const char *optc_decision_reason(const OptcDecision *decision);

// The number of maps from the operand to the result, one after another; 0 if nothing changes.
size_t optc_decision_map_count(const OptcDecision *decision);

// The map of a number.
OptcError *optc_decision_map(const OptcDecision *decision, size_t number, OptcMap *map);

// Frees a decision; NULL is allowed.
void optc_decision_free(OptcDecision *decision);

// Copies the elements of a buffer in the layout `from` into a buffer in the layout `to`. The buffers have the bytes
// of their layouts and do not overlap. Padding becomes zero.
OptcError *optc_layout_convert(const OptcLayout *from,
                               const OptcLayout *to,
                               const uint8_t *input,
                               size_t input_len,
                               uint8_t *output,
                               size_t output_len);

// Finds a built-in target by its name, such as `cpu`, or reads the file of one if the name ends in `.toml` or has a
// slash. The caller frees the target.
OptcError *optc_target_find(const char *name,
                            OptcTarget **target);

// Reads a target from the text of its file. The caller frees the target.
OptcError *optc_target_parse(const char *file, OptcTarget **target);

// The name of a target. It lives as long as the target.
const char *optc_target_name(const OptcTarget *target);

// Frees a target; NULL is allowed.
void optc_target_free(OptcTarget *target);

// The default options: the pipeline `default` for the default target of the program, all layouts of the boundary as
// declared. The caller frees them.
OptcOptions *optc_options_new(void);

// Frees options; NULL is allowed.
void optc_options_free(OptcOptions *options);

// Sets the target. It may be freed before the options.
OptcError *optc_options_target(OptcOptions *options, const OptcTarget *target);

// Sets the passes, such as `canonicalize,view-fold,bufferize,plan-memory`.
OptcError *optc_options_pipeline(OptcOptions *options, const char *pipeline);

// Gives an argument or result a layout, such as `{order = [1, 0]}`.
OptcError *optc_options_pin(OptcOptions *options, const char *name, const char *layout);

// Lets the fold choose the layout of an argument or result; NULL stands for all of them.
OptcError *optc_options_free_boundary(OptcOptions *options, const char *name);

// Has a result written in the memory of an argument.
OptcError *optc_options_alias(OptcOptions *options, const char *argument, const char *result);

// Compares costs with this size, above 0, for a size that the program only names.
OptcError *optc_options_bind(OptcOptions *options, const char *symbol, uint64_t size);

// Reads a program from memory. `name` is its name in messages; a file name gives the folder of external data.
// `format` is `ir`, `onnx`, `stablehlo`, `linalg` or `hlo`; NULL detects it. The bytes are copied. The caller frees the
// program.
OptcError *optc_program_read(const uint8_t *bytes,
                             size_t len,
                             const char *name,
                             const char *format,
                             OptcProgram **program);

// Reads a program from a file. `format` is as for `optc_program_read`. The caller frees the program.
OptcError *optc_program_load(const char *path,
                             const char *format,
                             OptcProgram **program);

// Frees a program; NULL is allowed. Its answers stay valid.
void optc_program_free(OptcProgram *program);

// The number of values of the default function: its arguments, then the results of its operations in order. A value
// is given by its number.
size_t optc_program_value_count(const OptcProgram *program);

// The name of a value; NULL if there is none of this number. It lives as long as the program.
const char *optc_program_value_name(const OptcProgram *program, size_t value);

// Finds a value by its name, by the name of a result, or by that of a node or an instruction. The value is `SIZE_MAX`
// if there is none.
OptcError *optc_program_find(const OptcProgram *program,
                             const char *name,
                             size_t *value);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OPTC_H */
