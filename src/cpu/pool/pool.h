// cpu/pool/pool.h: threads that share the work of kernels.
//
// A kernel cuts its work into chunks that do not depend on each other. Which thread does which chunk, and in what order, is
// not known; so that results do not depend on the number of threads, how work is cut must not depend on it either. A chunk costs
// 10 ns beside its work, more where many threads take them; a few times as many chunks as there may be threads let all end at about the same time.
//
// Memory of pools, teams and members belongs to no try (base/memory.h): who makes a pool or a team in one holds it (base_hold).
#ifndef HILO_CPU_POOL_H
#define HILO_CPU_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/pool/alloc.h"

typedef struct CpuPool CpuPool;
// `threads` that work, the caller of cpu_parallel among them; 0: as many as this process may use (affinity, control groups).
// Workers are started when first needed, and sleep when there is nothing to do. NULL: no memory.
CpuPool *cpu_pool_new(int threads);
void cpu_pool_free(CpuPool *pool);  // nothing may be running; NULL is fine
// Workers without work for so many seconds give back what the allocator keeps, and their scratch. Before the first region.
void cpu_pool_tend(CpuPool *pool, CpuAlloc *alloc, double seconds);
// From now on all threads are woken for however little work there is, for tests of what they share.
void cpu_pool_share_all(CpuPool *pool);
int cpu_pool_threads(const CpuPool *pool);
int cpu_usable_threads(void);       // what 0 stands for

// One execution of a program: it runs one kernel after another. Many may share a pool, each from a thread of its own.
typedef struct CpuTeam CpuTeam;
CpuTeam *cpu_team_new(CpuPool *pool);  // NULL: no memory
void cpu_team_free(CpuTeam *team);     // NULL is fine
void cpu_team_rest(CpuTeam *team);     // the same, but its scratch stays for who takes the team next
int cpu_team_threads(const CpuTeam *team);  // of its pool: to choose how to work, never what comes out
// Memory that a kernel's chunks share, and its regions one after another: as cpu_scratch, but the team's, and not in a chunk. The
// next kernel asks for its own, and may get the same.
void *cpu_team_scratch(CpuTeam *team, size_t bytes);

// A member of a team while it works on a chunk: what memory it may scribble on.
typedef struct CpuMember CpuMember;
// At least so many bytes, aligned to 64, kept until the same member asks for more; what is in it is not kept from chunk to
// chunk. NULL: no memory.
void *cpu_scratch(CpuMember *member, size_t bytes);

// One chunk, 0 <= chunk < n. False: it failed; chunks not begun are left out.
typedef bool CpuChunk(void *user, int64_t chunk, CpuMember *member);
// Runs n chunks and returns when all are done; false when one failed. `seconds` is about how long all of them take on one
// thread: short work is not worth waking anybody (cpu.md 4: 70 us), though those who are awake anyway help; less than 2 us,
// and 0, the caller does alone. A chunk must not call this itself.
bool cpu_parallel(CpuTeam *team, int64_t n, double seconds, CpuChunk *chunk, void *user);

// Copies bytes between places that do not overlap. False: the run is to end.
bool cpu_copy(CpuTeam *team, void *to, const void *from, int64_t bytes);

// The caller wants the run to end: chunks not begun are left out and cpu_parallel returns false. Any thread may say so.
void cpu_team_stop(CpuTeam *team);
bool cpu_team_stopped(const CpuTeam *team);
// It may run again.
void cpu_team_resume(CpuTeam *team);
// The same happens to a region when the try that is open in its caller's thread is not wanted any more (base_unwanted): the
// caller looks before each chunk that it does. A chunk of many milliseconds asks itself now and then, and returns false.
bool cpu_unwanted(const CpuMember *member);

// Called on each of the pool's own threads, numbered from 1 on, when it has done a chunk of the team's, before the region ends;
// times as hl_now has them. NULL: nobody wants to know. Between regions.
typedef void CpuWatch(void *user, int thread, double start, double end);
void cpu_team_watch(CpuTeam *team, CpuWatch *watch, void *user);

#endif
