/* Which part of the program is slow? The phases of the matrix program as regions, each counted by itself.
 *
 *     regions [SIZE]
 */
#include <cyclometer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const EVENTS[] = {"instructions", "cycles", "page-faults", "task-clock"};
enum { INSTRUCTIONS, CYCLES, TASK_CLOCK = 3, EVENT_COUNT, LARGEST = 4096 };

static void check(int status, const cyclometer_t *monitor) {
    char message[512] = "", remedy[512] = "";
    if (status >= 0)
        return;
    cyclometer_message(monitor, message, sizeof message);
    cyclometer_remedy(monitor, remedy, sizeof remedy);
    fprintf(stderr, "regions: %s: %s\nhelp: %s\n", cyclometer_status_text(status), message, remedy);
    exit(1);
}

/* What a region counted: a number for each event, or the reason why there is none. */
static void print(const cyclometer_counts_t *counts) {
    double values[EVENT_COUNT];
    printf("%s\n", cyclometer_counts_label(counts));
    for (unsigned i = 0; i < EVENT_COUNT; i++) {
        cyclometer_count_t count;
        check(cyclometer_counts_get(counts, i, &count, sizeof count), NULL);
        values[i] = count.value;
        if (isnan(count.value))
            printf("  %-14s  none: %s\n", cyclometer_counts_name(counts, i), cyclometer_counts_reason(counts, i));
        else
            printf("  %-14s  %s%.0f%s\n", cyclometer_counts_name(counts, i),
                   count.state == CYCLOMETER_COUNT_EXACT ? "" : "about ", count.value, i == TASK_CLOCK ? " ns" : "");
    }
    if (values[INSTRUCTIONS] > 0 && values[CYCLES] > 0)
        printf("  %-14s  %.2f\n", "IPC", values[INSTRUCTIONS] / values[CYCLES]);
}

typedef void work_t(int size, int *matrices);

static void measure(cyclometer_t *monitor, const char *label, work_t *work, int size, int *matrices) {
    cyclometer_region_t *region = NULL;
    cyclometer_counts_t *counts = NULL;
    check(cyclometer_region_begin(monitor, label, &region), monitor);
    work(size, matrices);
    check(cyclometer_region_end(&region, &counts), monitor);
    print(counts);
    cyclometer_counts_free(&counts);
}

static void fill(int size, int *matrices) {
    for (int i = 0; i < 2 * size * size; i++)
        matrices[i] = 2;
    for (int i = 2 * size * size; i < 3 * size * size; i++)
        matrices[i] = 0;
}

static void down_the_columns(int size, int *matrices) {
    const int *first = matrices, *second = matrices + size * size;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int sum = 0;
            for (int k = 0; k < size; k++)
                sum += first[i * size + k] * second[k * size + j];
            matrices[(2 * size + i) * size + j] = sum;
        }
}

static void along_the_rows(int size, int *matrices) {
    const int *first = matrices, *second = matrices + size * size;
    for (int i = 0; i < size; i++)
        for (int k = 0; k < size; k++)
            for (int j = 0; j < size; j++)
                matrices[(2 * size + i) * size + j] += first[i * size + k] * second[k * size + j];
}

int main(int argc, char **argv) {
    char *end = "";
    long size = argc > 1 ? strtol(argv[1], &end, 10) : 10;
    cyclometer_t *monitor = NULL;
    int *matrices;

    if (argc > 2 || *end != '\0' || size < 1 || size > LARGEST) {
        fprintf(stderr, "usage: regions [SIZE], from 1 to %d\n", LARGEST);
        return 2;
    }
    matrices = malloc(3 * (size_t)size * (size_t)size * sizeof *matrices);
    if (matrices == NULL) {
        fputs("regions: no memory\n", stderr);
        return 1;
    }
    check(cyclometer_open(&monitor), NULL);
    for (unsigned i = 0; i < EVENT_COUNT; i++)
        check(cyclometer_configure(monitor, i, EVENTS[i]), monitor);
    measure(monitor, "fill", fill, (int)size, matrices);
    measure(monitor, "product, down the columns", down_the_columns, (int)size, matrices);
    measure(monitor, "fill again", fill, (int)size, matrices);
    measure(monitor, "product, along the rows", along_the_rows, (int)size, matrices);
    check(cyclometer_close(&monitor), NULL);
    free(matrices);
    return 0;
}
