/* A wall clock that can be set, for one process: preloaded, it adds the milliseconds in the file CHAOS_CLOCK to every reading, and
 * up to CHAOS_TREMBLE microseconds, other ones each time: as if much time passed between any two looks at the clock, at times.
 *
 * libfaketime does this for most programs, but not for those with jemalloc, which reads the clock while the first library
 * looks for the real one. So the real one is asked without any library, and the file is mapped before anything else runs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *off_ms;
static int64_t tremble_us;
static volatile uint64_t shaken = 88172645463325252;

__attribute__((constructor)) static void begin(void) {
    const char *tremble = getenv("CHAOS_TREMBLE");
    tremble_us = tremble ? atoll(tremble) : 0;
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof *off_ms, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) off_ms = map;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || !off_ms || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *off_ms * INT64_C(1000000);
    if (tremble_us > 0) {
        uint64_t state = shaken;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        shaken = state;
        ns += (int64_t)(state % (uint64_t)tremble_us) * 1000;
    }
    now->tv_sec = ns / INT64_C(1000000000);
    now->tv_nsec = ns % INT64_C(1000000000);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
