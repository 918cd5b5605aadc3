/* Which implementation counts is chosen at run time: one structure of functions for each. Counts four events of a piece of work.
 *
 *     cc unified.c $(pkg-config --cflags --libs cyclometer) && ./a.out
 */
#include <cyclometer.h>
#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *name;
    int event;
} EVENTS[] = {
    {CYCLOMETER_CPU_CYCLES, CYCLOMETER_EVENT_CPU_CYCLES},
    {CYCLOMETER_INSTRUCTIONS, CYCLOMETER_EVENT_INSTRUCTIONS},
    {CYCLOMETER_L1D_CACHE_LOADS, CYCLOMETER_EVENT_L1D_CACHE_LOADS},
    {CYCLOMETER_L1D_CACHE_MISSES, CYCLOMETER_EVENT_L1D_CACHE_MISSES},
};

enum { LENGTH = sizeof EVENTS / sizeof *EVENTS };

static volatile unsigned sum;

static void work(void) {
    unsigned i;
    for (i = 0; i < 1000000; i++)
        sum += i;
}

/* Counts with any implementation of the interface. */
static int count(const cyclometer_api_t *api) {
    cyclometer_t *monitor = NULL;
    uint64_t values[LENGTH];
    char reason[256];
    unsigned i;

    if (api->init(&monitor) < 0)
        return 1;
    for (i = 0; i < LENGTH; i++)
        if (api->configure_counter(monitor, i, EVENTS[i].event) < 0)
            return 1;
    for (i = 0; i < LENGTH; i++)
        if (api->enable_counter(monitor, i) < 0)
            return 1;
    work();
    for (i = LENGTH; i-- > 0;)
        if (api->disable_counter(monitor, i) < 0)
            return 1;
    if (api->read_all_counters(monitor, values, LENGTH) < 0)
        return 1;
    for (i = 0; i < LENGTH; i++) {
        if (values[i] != UINT64_MAX) {
            printf("%s: %" PRIu64 "\n", EVENTS[i].name, values[i]);
            continue;
        }
        api->read_counter(monitor, i, &values[i]);
        cyclometer_message(monitor, reason, sizeof reason);
        printf("%s: not counted (%s)\n", EVENTS[i].name, reason);
    }
    return api->cleanup(&monitor) < 0;
}

int main(void) {
    return count(cyclometer_api());
}
