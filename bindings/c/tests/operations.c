/* Every operation of the interface, and every mistake that it finds out. Says on standard output what it saw of the machine. */
#define _DEFAULT_SOURCE
#include <cyclometer.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
static void *touched[1000];
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

/* What a child sees of a region that was open at the fork, as its exit status. */
static int of_child(cyclometer_region_t *region) {
    cyclometer_region_t *own = NULL;
    cyclometer_counts_t *counts = NULL;
    cyclometer_count_t count;
    if (cyclometer_region_end(&region, &counts) != CYCLOMETER_SUCCESS)
        return 1;
    if (cyclometer_counts_get(counts, 0, &count, sizeof count) != CYCLOMETER_SUCCESS)
        return 2;
    if (count.state != CYCLOMETER_COUNT_LOST || !isnan(count.value) || count.raw != UINT64_MAX)
        return 3;
    if (strstr(cyclometer_counts_reason(counts, 0), "forked") == NULL)
        return 4;
    cyclometer_counts_free(&counts);
    if (cyclometer_region_begin(monitor, "child", &own) != CYCLOMETER_SUCCESS)
        return 5;
    if (cyclometer_region_end(&own, &counts) != CYCLOMETER_SUCCESS)
        return 6;
    if (cyclometer_counts_get(counts, 0, &count, sizeof count) != CYCLOMETER_SUCCESS)
        return 7;
    return count.state == CYCLOMETER_COUNT_EXACT ? 0 : 8;
}

/* A region that is open at a fork is lost in the child, which then counts for itself, and counts on in the parent. */
static void forks(void) {
    cyclometer_region_t *region = NULL;
    cyclometer_counts_t *counts = NULL;
    cyclometer_count_t count;
    int status = 0;
    pid_t child;
    EXPECT(cyclometer_region_begin(monitor, "fork", &region) == CYCLOMETER_SUCCESS);
    child = fork();
    if (child == 0)
        _exit(of_child(region));
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    touch();
    EXPECT(cyclometer_region_end(&region, &counts) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_counts_get(counts, 0, &count, sizeof count) == CYCLOMETER_SUCCESS);
    EXPECT(count.state == CYCLOMETER_COUNT_EXACT && count.raw > 900);
    cyclometer_counts_free(&counts);
}

/* A region can be ended when its monitor was closed. */
static void end_after_close(void) {
    cyclometer_t *other = NULL;
    cyclometer_region_t *region = NULL;
    cyclometer_counts_t *counts = NULL;
    cyclometer_count_t count;
    EXPECT(cyclometer_open(&other) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_configure(other, 0, "page-faults") == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_region_begin(other, "outlives", &region) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(cyclometer_close(&other) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_region_end(&region, &counts) == CYCLOMETER_SUCCESS && region == NULL);
    EXPECT(cyclometer_counts_get(counts, 0, &count, sizeof count) == CYCLOMETER_SUCCESS && count.raw > 900);
    cyclometer_counts_free(&counts);
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

/* Waits for a sample, half a minute at most. */
static int next_sample(cyclometer_samples_t *samples, cyclometer_sample_t *sample, double *values, unsigned length) {
    int status, tries;
    for (tries = 0; tries < 30000; tries++) {
        status = cyclometer_samples_next(samples, sample, sizeof *sample, values, length);
        if (status != CYCLOMETER_NO_SAMPLE)
            return status;
        EXPECT(usleep(1000) == 0);
    }
    return CYCLOMETER_NO_SAMPLE;
}

/* Counter 3 counts page faults, 5 CPU time, and the others nothing. */
static void samples(void) {
    cyclometer_samples_t *samples = NULL;
    cyclometer_sample_t sample, last;
    double values[8], faults_before;
    uint64_t lost = UINT64_MAX, missed = UINT64_MAX;
    int i;
    EXPECT(cyclometer_samples_open(monitor, 200, 1 << 16, &samples) == CYCLOMETER_SUCCESS);
    EXPECT(next_sample(samples, &sample, values, 8) == CYCLOMETER_SUCCESS);
    faults_before = values[3];
    EXPECT(isnan(values[0]) && isnan(values[7]) && !isnan(values[3]) && values[5] >= 0);
    EXPECT(sample.scaled == 0);
    touch();
    for (i = 0, last = sample; i < 20; i++, last = sample) {
        EXPECT(next_sample(samples, &sample, values, 8) == CYCLOMETER_SUCCESS);
        EXPECT(sample.number > last.number && sample.at_ns > last.at_ns && sample.skew_ns > 0);
    }
    EXPECT(values[3] - faults_before > 900);
    EXPECT(cyclometer_samples_reason(samples, 3) == NULL && cyclometer_samples_reason(samples, 0) == NULL);
    EXPECT(cyclometer_samples_lost(samples, &lost, &missed) == CYCLOMETER_SUCCESS);
    EXPECT(lost == 0 && missed != UINT64_MAX);
    EXPECT(cyclometer_samples_lost(samples, NULL, NULL) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_samples_close(&samples) == CYCLOMETER_SUCCESS && samples == NULL);

    /* Of a small buffer that nobody looks at, samples are lost, and counted. */
    EXPECT(cyclometer_samples_open(monitor, 1000, 2, &samples) == CYCLOMETER_SUCCESS);
    for (i = 0, lost = 0; i < 1000 && lost < 3; i++) {
        EXPECT(usleep(20000) == 0);
        EXPECT(next_sample(samples, &sample, NULL, 0) == CYCLOMETER_SUCCESS);
        EXPECT(cyclometer_samples_lost(samples, &lost, NULL) == CYCLOMETER_SUCCESS);
    }
    EXPECT(lost >= 3 && sample.number >= 3);
    EXPECT(cyclometer_samples_close(&samples) == CYCLOMETER_SUCCESS);
}

static void mistakes_with_samples(void) {
    cyclometer_t *unconfigured = NULL, *other = NULL;
    cyclometer_samples_t *samples = NULL;
    cyclometer_sample_t sample = {77, 77, 77, 77, 77};
    double value = 7;
    EXPECT(cyclometer_samples_open(monitor, 0, 0, &samples) == CYCLOMETER_ERR_INVALID_INPUT && samples == NULL);
    EXPECT(says(cyclometer_message, "0 Hz") && says(cyclometer_remedy, "1 to 10000 Hz"));
    EXPECT(cyclometer_samples_open(monitor, 1000000000, 0, &samples) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_message, "1000000000") && says(cyclometer_remedy, "1 to 10000 Hz"));
    EXPECT(cyclometer_samples_open(monitor, 100, (size_t)1 << 30, &samples) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(cyclometer_remedy, "1 to 1048576"));
    EXPECT(cyclometer_samples_open(monitor, 100, 0, NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_samples_open(NULL, 100, 0, &samples) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_open(&unconfigured) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_samples_open(unconfigured, 100, 0, &samples) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_close(&unconfigured) == CYCLOMETER_SUCCESS);

    EXPECT(cyclometer_samples_next(NULL, &sample, sizeof sample, NULL, 0) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_samples_lost(NULL, NULL, NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_samples_reason(NULL, 3) == NULL);
    EXPECT(cyclometer_samples_close(&samples) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_samples_close(NULL) == CYCLOMETER_ERR_INVALID_INPUT);

    /* Samples are their own: the monitor may be closed before. */
    EXPECT(cyclometer_open(&other) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_configure(other, 0, "page-faults") == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_samples_open(other, 500, 0, &samples) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_samples_next(samples, NULL, sizeof sample, NULL, 0) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_samples_next(samples, &sample, 4, NULL, 0) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(cyclometer_samples_next(samples, &sample, sizeof sample, NULL, 1) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(sample.number == 77);
    EXPECT(cyclometer_close(&other) == CYCLOMETER_SUCCESS);
    EXPECT(next_sample(samples, &sample, &value, 1) == CYCLOMETER_SUCCESS && sample.at_ns != 77 && value >= 0);
    EXPECT(cyclometer_samples_close(&samples) == CYCLOMETER_SUCCESS);
}

/* What the configuration says counts where nothing else is said. */
static void configured_samples(void) {
    cyclometer_samples_t *samples = NULL;
    cyclometer_sample_t sample;
    write_file("sampling.yaml", "performance_monitoring:\n  sampling_interval_ms: 2\n  buffer_size: 16\n");
    EXPECT(cyclometer_load(monitor, "sampling.yaml") == CYCLOMETER_SUCCESS);
    remove("sampling.yaml");
    EXPECT(cyclometer_samples_open(monitor, 0, 0, &samples) == CYCLOMETER_SUCCESS);
    EXPECT(next_sample(samples, &sample, NULL, 0) == CYCLOMETER_SUCCESS && sample.at_ns >= 2000000);
    EXPECT(cyclometer_samples_close(&samples) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_load(monitor, NULL) == CYCLOMETER_SUCCESS);
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

/* Counter 1 is an event of the CPU: its samples are numbers, or there is a reason. */
static void hardware_samples(void) {
    cyclometer_samples_t *samples = NULL;
    cyclometer_sample_t sample;
    double values[2];
    EXPECT(cyclometer_samples_open(monitor, 200, 0, &samples) == CYCLOMETER_SUCCESS);
    EXPECT(next_sample(samples, &sample, values, 2) == CYCLOMETER_SUCCESS);
    if (isnan(values[1]))
        EXPECT(strlen(cyclometer_samples_reason(samples, 1)) > 10);
    EXPECT(cyclometer_samples_close(&samples) == CYCLOMETER_SUCCESS);
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
    hardware_samples();
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
    forks();
    end_after_close();
    mistakes();
    samples();
    mistakes_with_samples();
    configured_samples();
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
