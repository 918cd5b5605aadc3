/* How does the program's use of memory and CPU change in time? Samples two events while it works.
 *
 *     cc samples.c $(pkg-config --cflags --libs cyclometer) && ./a.out
 */
#include <cyclometer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const EVENTS[] = {"page-faults", "task-clock", CYCLOMETER_INSTRUCTIONS};
enum { COUNTERS = sizeof EVENTS / sizeof *EVENTS };

static int check(int status, const cyclometer_t *monitor) {
    char message[512] = "", remedy[512] = "";
    if (status >= 0)
        return status;
    cyclometer_message(monitor, message, sizeof message);
    cyclometer_remedy(monitor, remedy, sizeof remedy);
    fprintf(stderr, "%s: %s\nhelp: %s\n", cyclometer_status_text(status), message, remedy);
    exit(1);
}

static void work(void) {
    size_t size = 2000 * 4096;
    char *memory = malloc(size);
    if (memory == NULL)
        exit(1);
    memset(memory, 1, size);
    free(memory);
}

static void print(const cyclometer_samples_t *samples, const cyclometer_sample_t *sample, const double *values) {
    unsigned i;
    printf("%8.3f ms", sample->at_ns / 1e6);
    for (i = 0; i < COUNTERS; i++) {
        if (!isnan(values[i]))
            printf("  %s %.0f", EVENTS[i], values[i]);
        else if (cyclometer_samples_reason(samples, i) != NULL)
            printf("  %s not counted", EVENTS[i]);
        else
            printf("  %s lost", EVENTS[i]);
    }
    printf("\n");
}

int main(void) {
    cyclometer_t *monitor = NULL;
    cyclometer_samples_t *samples = NULL;
    cyclometer_sample_t sample;
    double values[COUNTERS];
    uint64_t lost = 0, missed = 0;
    unsigned i, shown = 0;

    check(cyclometer_open(&monitor), NULL);
    for (i = 0; i < COUNTERS; i++)
        check(cyclometer_configure(monitor, i, EVENTS[i]), monitor);
    check(cyclometer_samples_open(monitor, 200, 1024, &samples), monitor);

    while (shown < 10) {
        work();
        while (check(cyclometer_samples_next(samples, &sample, sizeof sample, values, COUNTERS), monitor) !=
               CYCLOMETER_NO_SAMPLE) {
            print(samples, &sample, values);
            shown++;
        }
    }
    check(cyclometer_samples_lost(samples, &lost, &missed), monitor);
    printf("lost %lu, missed %lu\n", (unsigned long)lost, (unsigned long)missed);

    check(cyclometer_samples_close(&samples), NULL);
    check(cyclometer_close(&monitor), NULL);
    return 0;
}
