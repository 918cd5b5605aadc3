/* Every operation of the interface, and every mistake that it finds out. Says on standard output what it saw of the machine. */
#include <cyclometer.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int line_failed;

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                    \
            line_failed = 1;                                                                                           \
        }                                                                                                              \
    } while (0)

static cyclometer_t *monitor;

/* What the last message or remedy says. */
static int says(size_t (*which)(const cyclometer_t *, char *, size_t), const char *part) {
    char text[1024];
    size_t length = which(monitor, text, sizeof text);
    int found = strstr(text, part) != NULL;
    if (length == 0 || !found)
        fprintf(stderr, "expected `%s` in `%s`\n", part, text);
    return length != 0 && found;
}

/* What was touched, so that none of it is given back and touched again. */
static void *touched[400];
static size_t touched_blocks;

/* Makes about 1000 page faults: in blocks that are too small for huge pages. */
static void touch(void) {
    size_t block, i, size = 100 * 4096;
    for (block = 0; block < 10; block++) {
        volatile char *memory = malloc(size);
        if (memory == NULL || touched_blocks == sizeof touched / sizeof *touched)
            exit(1);
        touched[touched_blocks++] = (void *)memory;
        for (i = 0; i < size; i += 4096)
            memory[i] = 1;
    }
}

static void numbered_counters(void) {
    uint64_t value = 7, later = 7;
    EXPECT(cyclometer_configure(monitor, 3, "page-faults") == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_configure(monitor, 5, "task-clock") == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_read(monitor, 3, &value) == CYCLOMETER_ERR_NOT_COUNTED && value == 7);
    EXPECT(says(cyclometer_message, "counter 3 was not enabled"));

    touch();
    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_read(monitor, 3, &value) == CYCLOMETER_SUCCESS);
    EXPECT(value > 900 && value < 1900);
    touch();
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_read(monitor, 3, &later) == CYCLOMETER_SUCCESS);
    EXPECT(later > value + 900 && later < value + 1900);

    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_reset(monitor, 3) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_read(monitor, 3, &value) == CYCLOMETER_SUCCESS);
    EXPECT(value > 900 && value < 1900);
    EXPECT(cyclometer_reset(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_read(monitor, 3, &value) == CYCLOMETER_ERR_NOT_COUNTED);
}

static void all_counters_at_once(void) {
    cyclometer_count_t counts[8];
    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_read_all(monitor, counts, 8, sizeof *counts) == CYCLOMETER_SUCCESS);
    EXPECT(counts[0].state == CYCLOMETER_COUNT_NONE && isnan(counts[0].value) && counts[0].raw == UINT64_MAX);
    EXPECT(counts[3].state == CYCLOMETER_COUNT_EXACT && counts[3].raw > 900 && counts[3].value > 900);
    EXPECT(counts[3].provenance == CYCLOMETER_FROM_KERNEL);
    EXPECT(counts[5].state == CYCLOMETER_COUNT_NOT_COUNTED && isnan(counts[5].value));
    EXPECT(cyclometer_read_all(monitor, counts, 8, 4) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_remedy, "sizeof"));
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_SUCCESS);
}

static void regions(void) {
    cyclometer_region_t *outer = NULL, *inner = NULL;
    cyclometer_counts_t *counts = NULL;
    cyclometer_count_t count;
    unsigned index = 99;
    EXPECT(cyclometer_region_begin(monitor, "outer", &outer) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_region_begin(monitor, "inner", &inner) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_configure(monitor, 0, "page-faults") == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_message, "while 2 counters or regions are counting"));
    EXPECT(cyclometer_region_end(&inner, NULL) == CYCLOMETER_SUCCESS && inner == NULL);
    touch();
    EXPECT(cyclometer_region_end(&outer, &counts) == CYCLOMETER_SUCCESS && outer == NULL);
    EXPECT(cyclometer_region_end(&outer, NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(strcmp(cyclometer_counts_label(counts), "outer") == 0 && cyclometer_counts_calls(counts) == 1);
    EXPECT(cyclometer_counts_length(counts) == 2);
    EXPECT(cyclometer_counts_find(counts, "page-faults", &index) == CYCLOMETER_SUCCESS && index == 0);
    EXPECT(cyclometer_counts_get(counts, index, &count, sizeof count) == CYCLOMETER_SUCCESS);
    EXPECT(count.state == CYCLOMETER_COUNT_EXACT && count.raw > 1800 && count.half_width >= 0);
    EXPECT(cyclometer_counts_reason(counts, index) == NULL);
    EXPECT(strncmp(cyclometer_counts_name(counts, index), "page-faults", 11) == 0);
    EXPECT(cyclometer_counts_get(counts, 2, &count, sizeof count) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_counts_name(counts, 2) == NULL);
    EXPECT(cyclometer_counts_find(counts, "cycles", &index) == CYCLOMETER_ERR_INVALID_INPUT && index == 0);
    cyclometer_counts_free(&counts);
    cyclometer_counts_free(&counts);
    EXPECT(counts == NULL && cyclometer_counts_length(counts) == 0);

    EXPECT(cyclometer_total(monitor, "inner", &counts) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_counts_calls(counts) == 1);
    cyclometer_counts_free(&counts);
    EXPECT(cyclometer_total(monitor, "never", &counts) == CYCLOMETER_ERR_INVALID_INPUT && counts == NULL);
}

static cyclometer_region_t *of_main;

static void *other_thread(void *unused) {
    cyclometer_region_t *own = NULL;
    uint64_t value = 7;
    (void)unused;
    EXPECT(cyclometer_region_end(&of_main, NULL) == CYCLOMETER_ERR_INVALID_INPUT && of_main != NULL);
    EXPECT(says(cyclometer_message, "belongs to another thread"));
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_read(monitor, 3, &value) == CYCLOMETER_ERR_INVALID_INPUT && value == 7);
    EXPECT(cyclometer_region_begin(monitor, "shared", &own) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_region_end(&own, NULL) == CYCLOMETER_SUCCESS);
    return NULL;
}

static void threads(void) {
    cyclometer_counts_t *counts = NULL;
    cyclometer_count_t count;
    pthread_t thread;
    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_region_begin(monitor, "shared", &of_main) == CYCLOMETER_SUCCESS);
    EXPECT(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    touch();
    EXPECT(cyclometer_region_end(&of_main, NULL) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_total(monitor, "shared", &counts) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_counts_calls(counts) == 2);
    EXPECT(cyclometer_counts_get(counts, 0, &count, sizeof count) == CYCLOMETER_SUCCESS && count.raw > 1800);
    cyclometer_counts_free(&counts);
}

static void mistakes(void) {
    cyclometer_t *nothing = NULL;
    uint64_t value = 7;
    char text[4];
    EXPECT(cyclometer_open(NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_close(NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_close(&nothing) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_configure(NULL, 0, "cycles") == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_read(NULL, 0, &value) == CYCLOMETER_ERR_INVALID_INPUT && value == 7);
    EXPECT(cyclometer_message(NULL, text, sizeof text) == 0);

    EXPECT(cyclometer_configure(monitor, 0, NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_message, "the event is a null pointer"));
    EXPECT(cyclometer_configure(monitor, 0, "instrucions") == CYCLOMETER_ERR_UNKNOWN_EVENT);
    EXPECT(says(cyclometer_message, "instrucions") && says(cyclometer_remedy, "instructions"));
    EXPECT(cyclometer_configure(monitor, 0, "\xff") == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_configure(monitor, 0, "cycles,instructions") == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_message, "is 2 events"));
    EXPECT(cyclometer_configure(monitor, 64, "cycles") == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_remedy, "0 to 63"));
    EXPECT(cyclometer_enable(monitor, 9) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_message, "counter 9 is not configured"));
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_message, "counter 3 is disabled already"));
    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_set_scope(monitor, CYCLOMETER_SCOPE_PROCESS, 0) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_read(monitor, 3, NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_set_scope(monitor, 77, 0) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_set_scope(monitor, CYCLOMETER_SCOPE_PID, 0x3fffffff) == CYCLOMETER_ERR_NO_SUCH_TARGET);
    EXPECT(cyclometer_set_scope(monitor, CYCLOMETER_SCOPE_CPU, 4000) == CYCLOMETER_ERR_NO_SUCH_TARGET);
    EXPECT(cyclometer_message(monitor, text, sizeof text) > 3 && strlen(text) == 3);
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        exit(1);
}

static void configuration(void) {
    const char *name = "settings.yaml";
    write_file(name, "performance_monitoring:\n  buffer_size: 512\n  max_counters: many\n");
    EXPECT(cyclometer_load(monitor, name) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_message, "max_counters") && says(cyclometer_message, "line 3"));
    EXPECT(cyclometer_load(monitor, "no-such-file.yaml") == CYCLOMETER_ERR_IO);
    write_file(name, "performance_monitoring:\n  sampling_interval_ms: 10\n  max_counters: 8\n");
    EXPECT(cyclometer_load(monitor, name) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_load(monitor, NULL) == CYCLOMETER_SUCCESS);
    remove(name);
}

/* An event of the CPU: a number that is one, or an error that says why not; never a zero. */
static void hardware_event(void) {
    uint64_t value = 7;
    int status;
    char why[512] = "";
    EXPECT(cyclometer_configure(monitor, 1, CYCLOMETER_INSTRUCTIONS) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_enable(monitor, 1) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_disable(monitor, 1) == CYCLOMETER_SUCCESS);
    status = cyclometer_read(monitor, 1, &value);
    if (status >= 0) {
        EXPECT(value > 1000);
        return;
    }
    EXPECT(status == CYCLOMETER_ERR_EVENT_UNSUPPORTED || status == CYCLOMETER_ERR_NOT_COUNTED);
    EXPECT(value == 7);
    EXPECT(cyclometer_message(monitor, why, sizeof why) > 20);
    EXPECT(cyclometer_ladder(monitor, NULL, 0) > 20);
    printf("not counted: %s\n", why);
}

static void machine(void) {
    cyclometer_capabilities_t capabilities;
    EXPECT(cyclometer_capabilities(monitor, &capabilities, sizeof capabilities) == CYCLOMETER_SUCCESS);
    EXPECT(capabilities.arch >= CYCLOMETER_ARCH_UNKNOWN && capabilities.name[0] != '\0');
    EXPECT(cyclometer_capabilities(monitor, &capabilities, 3) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(strcmp(cyclometer_status_text(CYCLOMETER_SUCCESS), "success") == 0);
    EXPECT(strlen(cyclometer_version()) >= 5);
    printf("%s, %u counters\n", capabilities.name, capabilities.pmc_count);
}

static void whole_process(void) {
    uint64_t value = 0;
    EXPECT(cyclometer_set_scope(monitor, CYCLOMETER_SCOPE_PROCESS, 0) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_disable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_read(monitor, 3, &value) >= 0 && value > 900);
}

int main(void) {
    EXPECT(cyclometer_open(&monitor) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_message(monitor, NULL, 0) == 0);
    EXPECT(cyclometer_ladder(monitor, NULL, 0) == 0);
    numbered_counters();
    all_counters_at_once();
    regions();
    threads();
    mistakes();
    configuration();
    hardware_event();
    machine();
    whole_process();
    EXPECT(cyclometer_enable(monitor, 3) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_close(&monitor) == CYCLOMETER_SUCCESS && monitor == NULL);
    EXPECT(cyclometer_read(monitor, 3, NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_close(&monitor) == CYCLOMETER_ERR_INVALID_INPUT);
    while (touched_blocks > 0)
        free(touched[--touched_blocks]);
    return line_failed;
}
