/* Encodes events by libpfm4 and times that, as told line by line: "encode NAME", "keep NAME", "round". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* libpfm4 include/perfmon/pfmlib.h: PFM_OS_PERF_EVENT, PFM_PLM3. */
enum { PERF_EVENT = 1, USER = 8 };

/* libpfm4 include/perfmon/pfmlib_perf_event.h: pfm_perf_encode_arg_t. */
struct arguments {
	uint64_t *attr;
	char **text;
	size_t size;
	int index, cpu, flags, padding;
};

static int (*encode_event)(const char *, int, int, void *);

/* config and config1 are words 1 and 7 of linux/perf_event.h's perf_event_attr. */
static int encode(const char *name, uint64_t words[2])
{
	uint64_t attr[64] = {0};
	struct arguments arguments = {attr, NULL, sizeof arguments, 0, -1, 0, 0};
	int status = encode_event(name, USER, PERF_EVENT, &arguments);

	words[0] = attr[1];
	words[1] = attr[7];
	return status;
}

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(void)
{
	char line[512];
	char **kept = NULL;
	size_t count = 0;
	void *library = dlopen("libpfm.so.4", RTLD_NOW);
	int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "pfm_initialize") : NULL;

	encode_event = library ? (int (*)(const char *, int, int, void *))dlsym(library, "pfm_get_os_event_encoding") : NULL;
	if (!initialize || !encode_event || initialize() != 0) {
		puts("no");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		uint64_t words[2];

		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "encode ", 7)) {
			if (encode(line + 7, words) == 0)
				printf("%llu %llu\n", (unsigned long long)words[0], (unsigned long long)words[1]);
			else
				puts("-");
		} else if (!strncmp(line, "keep ", 5)) {
			kept = realloc(kept, (count + 1) * sizeof *kept);
			if (!kept || !(kept[count++] = strdup(line + 5)))
				return 1;
			puts("kept");
		} else if (!strcmp(line, "round") && count) {
			double started = now_ns();
			uint64_t all = 0;

			for (size_t i = 0; i < count; i++) {
				encode(kept[i], words);
				all += words[0];
			}
			printf("%f %llu\n", (now_ns() - started) / count, (unsigned long long)all);
		} else {
			return 1;
		}
		fflush(stdout);
	}
	return 0;
}
