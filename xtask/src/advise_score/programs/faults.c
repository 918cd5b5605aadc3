// Memory that is new each time. SIZE: KiB.
#include "common.h"
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BYTES (SIZE * 1024L)

int main(void)
{
	other_work();
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	char *keep = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(keep, 1, BYTES);
	for (long i = 0; i < ROUNDS * 8000L / SIZE + 1; i++) {
#if VARIANT == 0
		char *p = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (long at = 0; at < BYTES; at += 4096)
			p[at] = i;
		munmap(p, BYTES);
#elif VARIANT == 1
		for (long at = 0; at < BYTES; at += 4096)
			keep[at] = i;
		madvise(keep, BYTES, MADV_DONTNEED);
#elif VARIANT == 2
		char *p = malloc(BYTES);
		for (long at = 0; at < BYTES; at += 2048)
			p[at] = i;
		result += p[100];
		free(p);
#else
		if (!fork()) {
			for (long at = 0; at < BYTES; at += 4096)
				keep[at] = i;
			_exit(0);
		}
		wait(0);
#endif
	}
	printf("%lu\n", result + keep[0]);
}
