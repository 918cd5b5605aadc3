// Programs without a fault. SIZE: a size of data in KiB, small enough for a cache.
#include "common.h"
#include <fcntl.h>

#define FLOATS (SIZE * 256)

static float x[FLOATS], y[FLOATS];
static double first[64][64], second[64][64], product[64][64];

__attribute__((noinline, optimize("O3"))) static void vector(float *restrict to, const float *restrict from)
{
	for (int i = 0; i < FLOATS; i++)
		to[i] = to[i] * 0.5f + from[i];
}

__attribute__((noinline, optimize("O3"))) static void multiply(void)
{
	for (int i = 0; i < 64; i++)
		for (int k = 0; k < 64; k++)
			for (int j = 0; j < 64; j++)
				product[i][j] += first[i][k] * second[k][j];
}

static void *hash(void *argument)
{
	ulong64 state = (long)argument + SEED + 1, sum = 0;
	for (long i = 0; i < ROUNDS * 500000L; i++)
		sum += next_random(&state);
	__atomic_fetch_add((ulong64 *)&result, sum, __ATOMIC_RELAXED);
	return 0;
}

static void bodies(void)
{
	double p[3][2] = {{1, 0}, {-1, 0}, {0, 2}}, v[3][2] = {{0, 1}, {0, -1}, {0.5, 0}};
	for (long i = 0; i < ROUNDS * 6000L; i++)
		for (int a = 0; a < 3; a++) {
			for (int b = 0; b < 3; b++) {
				double dx = p[b][0] - p[a][0], dy = p[b][1] - p[a][1], d = dx * dx + dy * dy + 0.1;
				v[a][0] += dx / d * 1e-4;
				v[a][1] += dy / d * 1e-4;
			}
			p[a][0] += v[a][0] * 1e-4;
			p[a][1] += v[a][1] * 1e-4;
		}
	result += (ulong64)(p[0][0] * 1e6);
}

static void sieve(void)
{
	static char composite[SIZE * 1024];
	for (long round = 0; round < ROUNDS * 100L / SIZE + 1; round++) {
		memset(composite, 0, sizeof composite);
		for (long i = 2; i * i < (long)sizeof composite; i++)
			if (!composite[i])
				for (long j = i * i; j < (long)sizeof composite; j += i)
					composite[j] = 1;
	}
	result += composite[97];
}

static void blocks(void)
{
	static char block[1 << 18];
	int null = open("/dev/null", O_WRONLY);
	ulong64 state = SEED | 1;
	for (long i = 0; i < ROUNDS * 10L; i++) {
		for (long at = 0; at < (long)sizeof block; at += 8)
			*(ulong64 *)(block + at) = next_random(&state);
		result += write(null, block, sizeof block);
	}
}

static void checksum(void)
{
	static unsigned table[256];
	static unsigned char text[SIZE * 1024];
	unsigned crc = ~0u;
	for (unsigned i = 0; i < 256; i++) {
		table[i] = i;
		for (int k = 0; k < 8; k++)
			table[i] = table[i] & 1 ? table[i] >> 1 ^ 0xedb88320 : table[i] >> 1;
	}
	for (long round = 0; round < ROUNDS * 900L / SIZE + 1; round++)
		for (long i = 0; i < (long)sizeof text; i++)
			crc = table[(crc ^ text[i]) & 255] ^ crc >> 8;
	result += crc;
}

static void pattern(void)
{
	// Branches with a pattern, which every predictor learns.
	ulong64 even = 0, third = 0;
	for (long i = 0; i < ROUNDS * 500000L; i++) {
		if (i % 2 == 0)
			result += even += i;
		if (i % 3 == 0)
			third ^= i;
	}
	result += third;
}

static void stream(void)
{
	// More memory than the caches, in order.
	long n = 24 << 20;
	char *memory = malloc(n);
	memset(memory, 1, n);
	for (long round = 0; round < ROUNDS / 2 + 1; round++)
		memmove(memory, memory + 64, n - 64);
	result += memory[100];
}

static void *independent(void *argument)
{
	static float all[4][FLOATS + 64], from[FLOATS];
	float *mine = all[(long)argument];
	for (long i = 0; i < ROUNDS * 3000L / SIZE + 1; i++)
		vector(mine, from);
	return 0;
}

int main(void)
{
	ulong64 state = SEED | 1;
	for (long i = 0; i < FLOATS; i++)
		x[i] = y[i] = next_random(&state) >> 40;
	other_work();
#if VARIANT == 0
	for (long i = 0; i < ROUNDS * 8000L / SIZE + 1; i++)
		vector(x, y);
#elif VARIANT == 1
	for (long i = 0; i < ROUNDS * 20L; i++)
		multiply();
#elif VARIANT == 2
	hash(0);
#elif VARIANT == 3
	bodies();
#elif VARIANT == 4
	sieve();
#elif VARIANT == 5
	blocks();
#elif VARIANT == 6
	checksum();
#elif VARIANT == 7
	pattern();
#elif VARIANT == 8
	stream();
#elif VARIANT == 9
	run_threads(hash, 2);
#elif VARIANT == 10
	run_threads(independent, 2);
#else
	result += fibonacci(34 + SEED % 2);
#endif
	other_work();
	printf("%lu %f\n", result, x[3] + product[2][3]);
}
