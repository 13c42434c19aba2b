// hilo/tuning.h: what XLA's autotuner has decided by measuring, read from its files and written as such: for each kernel of a
// device, whose code computes it and with which sizes.
//
//   HlTuning *tuning = hl_tuning_new();
//   bool ok = hl_tuning_read(cx, tuning, source);       // --xla_gpu_load_autotune_results_from
//   ... HlEngineOptions.tuning = tuning ...             // config-assigner looks there before it chooses by itself
//   hl_tuning_free(tuning);
//
// A kernel is known as XLA knows it: AutotuneCache (since 0.11) has fingerprints of the device and of the kernel's text,
// AutotuneResults the words themselves. XLA's other conditions, versions of XLA and of libraries, are not asked.
#ifndef HILO_TUNING_H
#define HILO_TUNING_H

#include "hilo/ir.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlTuning HlTuning;
HlTuning *hl_tuning_new(void);
void hl_tuning_free(HlTuning *tuning);                 // NULL is fine
// Adds what a file says, AutotuneCache or AutotuneResults, text or binary. Of two choices for a kernel the later one counts.
// Unknown fields are named in warnings, a file without choices gets one. False after reporting; the source is borrowed.
bool hl_tuning_read(HlCx *cx, HlTuning *tuning, HlSource *source);
// Adds what another one says.
void hl_tuning_join(HlTuning *tuning, const HlTuning *other);
// Appends all there is, as AutotuneCache; what came as AutotuneResults, whose kernels have no fingerprints, is left out. Text
// names the kernels that are known by name, in comments.
void hl_tuning_write(const HlTuning *tuning, bool as_text, HlBuf *out);
int hl_tuning_count(const HlTuning *tuning);
// Whether XLA writes the file of this name as text.
bool hl_tuning_is_text(const char *path);

#ifdef __cplusplus
}
#endif
#endif
