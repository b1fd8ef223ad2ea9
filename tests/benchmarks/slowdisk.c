/* Load with LD_PRELOAD: reading takes SLOW_MS milliseconds per MiB for files whose path
 * contains SLOW_NAME. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

static void wait_for(int fd, size_t bytes)
{
    char link[64], path[4096];
    const char *name = getenv("SLOW_NAME"), *ms = getenv("SLOW_MS");
    if (!name || !ms) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    if (!strstr(path, name)) return;
    double ns = atof(ms) * 1e6 * (double)bytes / (1 << 20);
    struct timespec pause = {(time_t)(ns / 1e9), (long)((long long)ns % 1000000000)};
    nanosleep(&pause, NULL);
}

ssize_t read(int fd, void *to, size_t count)
{
    static ssize_t (*next)(int, void *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "read");
    ssize_t done = next(fd, to, count);
    if (done > 0) wait_for(fd, done);
    return done;
}

#define PREAD(NAME) \
    ssize_t NAME(int fd, void *to, size_t count, off_t at) \
    { \
        static ssize_t (*next)(int, void *, size_t, off_t); \
        if (!next) next = dlsym(RTLD_NEXT, #NAME); \
        ssize_t done = next(fd, to, count, at); \
        if (done > 0) wait_for(fd, done); \
        return done; \
    }
PREAD(pread)
PREAD(pread64)

#define SENDFILE(NAME) \
    ssize_t NAME(int to, int fd, off_t *at, size_t count) \
    { \
        static ssize_t (*next)(int, int, off_t *, size_t); \
        if (!next) next = dlsym(RTLD_NEXT, #NAME); \
        ssize_t done = next(to, fd, at, count); \
        if (done > 0) wait_for(fd, done); \
        return done; \
    }
SENDFILE(sendfile)
SENDFILE(sendfile64)
