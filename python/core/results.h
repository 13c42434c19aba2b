// python/core/results.h: arguments and results of runs, for the files of python/core (run.c).
#ifndef PYTHON_CORE_RESULTS_H
#define PYTHON_CORE_RESULTS_H

#include "call.h"

// Takes the values over, whose leaves become the results. NULL, and they are freed: there is no memory.
HiloResults *results_new(HlCx *cx, HlLiteral **value, int64_t n_values);
// The arguments of every device from the job's arrays: new references. False after reporting that there are too few, or too many.
bool results_arguments(Job *job, const HlModule *m, int devices, HlLiteral ***out);

#endif
