/* The unified interface: every member of the structure, its mistakes, and an implementation of the program's own behind it. */
#define _DEFAULT_SOURCE
#include <cyclometer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                    \
            failed = 1;                                                                                                \
        }                                                                                                              \
    } while (0)

static int says(cyclometer_t *monitor, const char *part) {
    char text[1024] = "";
    cyclometer_message(monitor, text, sizeof text);
    if (strstr(text, part) == NULL)
        fprintf(stderr, "expected `%s` in `%s`\n", part, text);
    return strstr(text, part) != NULL;
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

/* An event that every machine counts is on counter 1; the others may have no counter here. */
static void counters_of_both_interfaces(const cyclometer_api_t *api) {
    cyclometer_t *monitor = NULL;
    uint64_t values[70], value = 7, before;
    int i, status;
    EXPECT(api->init(&monitor) == CYCLOMETER_SUCCESS && monitor != NULL);
    EXPECT(api->read_all_counters(monitor, values, 2) == CYCLOMETER_SUCCESS);
    EXPECT(values[0] == UINT64_MAX && values[1] == UINT64_MAX);
    EXPECT(cyclometer_configure(monitor, 1, "page-faults") == CYCLOMETER_SUCCESS);
    EXPECT(api->read_all_counters(monitor, values, 2) == CYCLOMETER_PARTIAL);
    EXPECT(values[1] == UINT64_MAX);
    EXPECT(api->enable_counter(monitor, 1) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(api->read_counter(monitor, 1, &value) == CYCLOMETER_SUCCESS);
    EXPECT(value > 900 && value < 1900);
    memset(values, 0, sizeof values);
    EXPECT(api->read_all_counters(monitor, values, 70) == CYCLOMETER_SUCCESS);
    EXPECT(values[0] == UINT64_MAX && values[1] >= value && values[69] == UINT64_MAX);
    EXPECT(api->disable_counter(monitor, 1) == CYCLOMETER_SUCCESS);
    EXPECT(cyclometer_read(monitor, 1, &before) == CYCLOMETER_SUCCESS && before >= value);
    EXPECT(api->reset_counter(monitor, 1) == CYCLOMETER_SUCCESS);
    EXPECT(api->read_counter(monitor, 1, &value) == CYCLOMETER_ERR_NOT_COUNTED);

    for (i = CYCLOMETER_EVENT_CPU_CYCLES; i <= CYCLOMETER_EVENT_BRANCH_MISSES; i++)
        EXPECT(api->configure_counter(monitor, 10 + (unsigned)i, i) == CYCLOMETER_SUCCESS);
    EXPECT(api->enable_counter(monitor, 10 + CYCLOMETER_EVENT_INSTRUCTIONS) == CYCLOMETER_SUCCESS);
    touch();
    EXPECT(api->disable_counter(monitor, 10 + CYCLOMETER_EVENT_INSTRUCTIONS) == CYCLOMETER_SUCCESS);
    value = 7;
    status = api->read_counter(monitor, 10 + CYCLOMETER_EVENT_INSTRUCTIONS, &value);
    EXPECT(status >= 0 ? value > 1000 : value == 7);
    EXPECT(api->cleanup(&monitor) == CYCLOMETER_SUCCESS && monitor == NULL);
}

static void mistakes(const cyclometer_api_t *api) {
    cyclometer_t *monitor = NULL;
    cyclometer_capabilities_t capabilities;
    uint64_t value = 7;
    EXPECT(api->init(NULL) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(api->init(&monitor) == CYCLOMETER_SUCCESS);
    EXPECT(api->configure_counter(monitor, 0, 8) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(monitor, "there is no event number 8"));
    EXPECT(api->configure_counter(monitor, 0, -1) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(api->configure_counter(monitor, 64, CYCLOMETER_EVENT_INSTRUCTIONS) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(says(monitor, "there is no counter 64"));
    EXPECT(api->configure_counter(NULL, 0, CYCLOMETER_EVENT_INSTRUCTIONS) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(api->enable_counter(monitor, 0) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(api->read_counter(monitor, 0, &value) == CYCLOMETER_ERR_INVALID_INPUT && value == 7);
    EXPECT(api->read_all_counters(monitor, NULL, 1) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(api->get_capabilities(monitor, &capabilities, sizeof capabilities) == CYCLOMETER_SUCCESS);
    EXPECT(capabilities.name[0] != 0);
    EXPECT(api->get_capabilities(monitor, &capabilities, 1) == CYCLOMETER_ERR_INVALID_INPUT);
    EXPECT(api->cleanup(&monitor) == CYCLOMETER_SUCCESS);
    EXPECT(api->cleanup(&monitor) == CYCLOMETER_ERR_INVALID_INPUT);
}

static int always_seven(cyclometer_t *monitor, unsigned int counter, uint64_t *value) {
    (void)monitor;
    *value = 7 + counter;
    return CYCLOMETER_SUCCESS;
}

/* Code that takes the structure does not know who is behind it. */
static void an_implementation_of_ours(const cyclometer_api_t *api) {
    cyclometer_api_t ours = *api;
    cyclometer_t *monitor = NULL;
    uint64_t value = 0;
    ours.read_counter = always_seven;
    EXPECT(ours.init(&monitor) == CYCLOMETER_SUCCESS);
    EXPECT(ours.read_counter(monitor, 3, &value) == CYCLOMETER_SUCCESS && value == 10);
    EXPECT(ours.cleanup(&monitor) == CYCLOMETER_SUCCESS);
}

int main(void) {
    const cyclometer_api_t *api = cyclometer_api();
    EXPECT(api != NULL && api == cyclometer_api() && api->size == sizeof *api);
    counters_of_both_interfaces(api);
    mistakes(api);
    an_implementation_of_ours(api);
    if (!failed)
        puts("done");
    return failed;
}
