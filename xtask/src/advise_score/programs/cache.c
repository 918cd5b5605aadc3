// Memory in an order that caches cannot serve. SIZE: MiB.
#include "common.h"

#define BYTES ((ulong64)SIZE << 20)

static __attribute__((noinline)) void chase(void)
{
	ulong64 n = BYTES / 64, state = SEED | 1, at = 0, sum = 0;
	ulong64 *order = malloc(n * 8), (*nodes)[8] = malloc(n * 64);
	for (ulong64 i = 0; i < n; i++)
		order[i] = i;
	for (ulong64 i = n - 1; i; i--) {
		ulong64 j = next_random(&state) % i, t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	for (ulong64 i = 0; i < n; i++)
		nodes[order[i]][0] = order[(i + 1) % n];
	free(order);
	for (long i = 0; i < ROUNDS * 40000L; i++) {
		at = nodes[at][0];
		sum += at;
	}
	result += sum;
}

static __attribute__((noinline)) void gather(void)
{
	ulong64 n = BYTES / 4, state = SEED | 1, sum = 0;
	unsigned *data = malloc(n * 4);
	memset(data, 1, n * 4);
	for (long i = 0; i < ROUNDS * 100000L; i++)
		sum += data[(next_random(&state) >> 20) % n];
	result += sum;
}

static __attribute__((noinline)) void columns(void)
{
	ulong64 width = 4096 + 16 * (SEED % 16), height = BYTES / 4 / width, sum = 0;
	int *matrix = malloc(width * height * 4);
	memset(matrix, 1, width * height * 4);
	for (long round = 0; round < ROUNDS / 6 + 1; round++)
		for (ulong64 x = 0; x < width / 8; x++)
			for (ulong64 y = 0; y < height; y++)
				sum += matrix[y * width + x * 8];
	result += sum;
}

struct entry {
	ulong64 key, value;
};

static __attribute__((noinline)) void table(void)
{
	ulong64 n = 1, state = SEED | 1, sum = 0;
	while (n * sizeof(struct entry) * 2 <= BYTES)
		n *= 2;
	struct entry *all = calloc(n, sizeof *all);
	for (ulong64 i = 0; i < n / 2; i++) {
		ulong64 key = next_random(&state), at = key * 0x9e3779b97f4a7c15ul & (n - 1);
		all[at] = (struct entry){key, i};
	}
	for (long i = 0; i < ROUNDS * 60000L; i++) {
		ulong64 at = next_random(&state) * 0x9e3779b97f4a7c15ul & (n - 1);
		all[at].value += i;
		sum += all[at].key;
	}
	result += sum;
}

static __attribute__((noinline)) void histogram(void)
{
	ulong64 n = BYTES / 8, state = SEED | 1;
	ulong64 *counts = malloc(n * 8);
	memset(counts, 0, n * 8);
	for (long i = 0; i < ROUNDS * 70000L; i++)
		counts[(next_random(&state) >> 11) % n]++;
	result += counts[n / 2];
}

int main(void)
{
	other_work();
#if VARIANT == 0
	chase();
#elif VARIANT == 1
	gather();
#elif VARIANT == 2
	columns();
#elif VARIANT == 3
	table();
#else
	histogram();
#endif
	other_work();
	printf("%lu\n", result);
}
