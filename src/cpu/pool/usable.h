// cpu/pool/usable.h: how many threads this process may keep busy.
#ifndef HILO_CPU_USABLE_H
#define HILO_CPU_USABLE_H

// How many processors' time the control groups of this process allow, rounded up; INT_MAX: any. Files are looked for under `root`
// ("" is the machine's), as ROOT/proc/self/cgroup and ROOT/sys/fs/cgroup/...
int cpu_group_limit(const char *root);

#endif
