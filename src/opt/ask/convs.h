// opt/ask/convs.h: convolutions as calls of cuDNN: what the passes over them share.
//
// A call's result is a tuple: the array and a work space (u8[0] until an algorithm is chosen). Its window and
// dim_labels are always those of the forward convolution that the call belongs to, whatever the call
// computes: the result, the gradient of the input, or that of the filter.
#ifndef HILO_OPT_CONVS_H
#define HILO_OPT_CONVS_H

#include "hilo/pass.h"
#include "ir/backend_config.h"

typedef enum ConvKind {
  CONV_FORWARD,          // (input, filter) -> result
  CONV_BACKWARD_INPUT,   // (gradient of the result, filter) -> gradient of the input
  CONV_BACKWARD_FILTER,  // (input, gradient of the result) -> gradient of the filter
  CONV_FUSED,            // (input, filter, bias[, side input]) -> activation(scaled sum)
  CONV_KINDS
} ConvKind;

// False: it is none of them.
bool conv_kind(const HlInst *inst, ConvKind *kind);
// The call that `inst` takes the array out of, if nobody else uses the call; else NULL.
HlInst *conv_behind(const HlInst *inst, ConvKind *kind);

// What an array of a convolution is to the forward convolution.
typedef enum ConvPart { CONV_INPUT, CONV_FILTER, CONV_OUTPUT } ConvPart;
ConvPart conv_part(ConvKind kind, int operand);  // operand -1: the result
// The dimensions of a part that count features: of the filter those of the input and of the result.
HlI64s conv_spatial(const HlDimLabels *labels, ConvPart part);

// What all kinds of calls have.
typedef struct ConvCall {
  ConvKind kind;
  const HlShape *result;  // of the array
  HlWindow window;        // in the module's arena, as the labels
  const HlDimLabels *labels;
  int64_t groups;  // of features
  HlI64s precision;
  HlConvConfig config;     // what it computes besides
  const char *old_config;  // the text of which `config` is a part; "": none
} ConvCall;
// False: it computes what we do not know.
bool conv_read(const HlInst *call, ConvCall *out);
// Of a call that is still to be made, that computes nothing besides.
HlConvConfig conv_plain(void);
// Builds the call and takes the array out.
HlInst *conv_build(HlPass *p, HlBuild *b, const ConvCall *call, int n, HlInst *const *operands);

#endif
