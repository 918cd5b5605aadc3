/* Reads PAPI's counters as often as it is told, and says how long that took: for each line `read N` or `start N` on standard input
 * one line with nanoseconds. The arguments name the events. */
#include <papi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST = 16 };

static long long values[MOST];

static int fail(const char *what, int error) {
    fprintf(stderr, "%s: %s\n", what, PAPI_strerror(error));
    return 1;
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static int reads(int set, long times) {
    int error = PAPI_OK;
    for (; times > 0 && error == PAPI_OK; times--)
        error = PAPI_read(set, values);
    return error;
}

static int starts(int set, long times) {
    int error = PAPI_OK;
    for (; times > 0 && error == PAPI_OK; times--) {
        error = PAPI_start(set);
        if (error == PAPI_OK)
            error = PAPI_stop(set, values);
    }
    return error;
}

int main(int argc, char **argv) {
    int set = PAPI_NULL, i, error;
    char what[16];
    long times;
    if (argc < 2 || argc > MOST + 1)
        return 2;
    if ((error = PAPI_library_init(PAPI_VER_CURRENT)) != PAPI_VER_CURRENT)
        return fail("PAPI_library_init", error);
    if ((error = PAPI_create_eventset(&set)) != PAPI_OK)
        return fail("PAPI_create_eventset", error);
    for (i = 1; i < argc; i++)
        if ((error = PAPI_add_named_event(set, argv[i])) != PAPI_OK)
            return fail(argv[i], error);
    while (scanf("%15s %ld", what, &times) == 2) {
        double began;
        int is_read = strcmp(what, "read") == 0;
        if (is_read && (error = PAPI_start(set)) != PAPI_OK)
            return fail("PAPI_start", error);
        began = now_ns();
        error = is_read ? reads(set, times) : starts(set, times);
        printf("%.0f\n", now_ns() - began);
        fflush(stdout);
        if (error != PAPI_OK)
            return fail(what, error);
        if (is_read && (error = PAPI_stop(set, values)) != PAPI_OK)
            return fail("PAPI_stop", error);
    }
    return 0;
}
