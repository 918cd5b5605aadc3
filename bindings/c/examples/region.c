/* What does a piece of a program cost? Counts three events of a region, and says where one cannot be counted.
 *
 *     cc region.c $(pkg-config --cflags --libs cyclometer) && ./a.out
 */
#include <cyclometer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const EVENTS[] = {CYCLOMETER_INSTRUCTIONS, CYCLOMETER_CPU_CYCLES, "page-faults"};

static void check(int status, const cyclometer_t *monitor) {
    char message[512] = "", remedy[512] = "";
    if (status >= 0)
        return;
    cyclometer_message(monitor, message, sizeof message);
    cyclometer_remedy(monitor, remedy, sizeof remedy);
    fprintf(stderr, "%s: %s\nhelp: %s\n", cyclometer_status_text(status), message, remedy);
    exit(1);
}

static void work(void) {
    size_t size = 1000 * 4096;
    char *memory = malloc(size);
    if (memory == NULL)
        exit(1);
    memset(memory, 1, size);
    free(memory);
}

static void print(const cyclometer_counts_t *counts, unsigned index) {
    cyclometer_count_t count;
    const char *reason = cyclometer_counts_reason(counts, index);
    check(cyclometer_counts_get(counts, index, &count, sizeof count), NULL);
    printf("%s: ", cyclometer_counts_name(counts, index));
    switch (count.state) {
    case CYCLOMETER_COUNT_EXACT:
        printf("%.0f\n", count.value);
        break;
    case CYCLOMETER_COUNT_SCALED:
    case CYCLOMETER_COUNT_PARTIAL:
        printf("about %.0f (%s)\n", count.value, reason);
        break;
    default:
        printf("not counted (%s)\n", reason);
    }
}

int main(void) {
    cyclometer_t *monitor = NULL;
    cyclometer_region_t *region = NULL;
    cyclometer_counts_t *counts = NULL;
    unsigned i;

    check(cyclometer_open(&monitor), NULL);
    for (i = 0; i < sizeof EVENTS / sizeof *EVENTS; i++)
        check(cyclometer_configure(monitor, i, EVENTS[i]), monitor);

    check(cyclometer_region_begin(monitor, "work", &region), monitor);
    work();
    check(cyclometer_region_end(&region, &counts), monitor);

    for (i = 0; i < cyclometer_counts_length(counts); i++)
        print(counts, i);
    cyclometer_counts_free(&counts);
    check(cyclometer_close(&monitor), NULL);
    return 0;
}
