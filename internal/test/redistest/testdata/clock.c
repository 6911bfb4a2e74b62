// The wall clock of a redis-server under test: the machine's, moved by as many microseconds as the
// file says that REDISTEST_CLOCK names; or, if its second number is not 0, the instant of that many
// microseconds since the epoch, at which the clock stands still. libfaketime does the same, but does not go with jemalloc,
// which asks for the time before the library is ready. The monotonic clock stays as it is.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset; // and then the instant

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("REDISTEST_CLOCK");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0) return;
    void *p = mmap(NULL, 2 * sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED) offset = p;
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
    int failed = syscall(SYS_clock_gettime, clock, ts);
    if (failed || !offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t instant = offset[1];
    if (instant) {
        ts->tv_sec = instant / 1000000;
        ts->tv_nsec = instant % 1000000 * 1000;
        return 0;
    }
    int64_t ns = ts->tv_nsec + *offset % 1000000 * 1000;
    ts->tv_sec += *offset / 1000000 + (ns >= 1000000000) - (ns < 0);
    ts->tv_nsec = (ns + 1000000000) % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec ts;
    if (clock_gettime(CLOCK_REALTIME, &ts)) return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (t) *t = ts.tv_sec;
    return ts.tv_sec;
}
