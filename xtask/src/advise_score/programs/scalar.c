// Loops over arrays that could be vectorised, compiled so that they are not. SIZE: KiB of data.
#include "common.h"

#define DOUBLES (SIZE * 128)

static double a[DOUBLES], b[DOUBLES];
static float f[DOUBLES], g[DOUBLES];
static int ints[DOUBLES], others[DOUBLES];

__attribute__((noinline, optimize("no-tree-vectorize"))) static void work(long n, long rounds)
{
	double sum = 0;
	unsigned total = 0;
	for (long round = 0; round < rounds; round++) {
		for (long i = 0; i < n; i++) {
#if VARIANT == 0
			a[i] = a[i] * 0.99 + b[i];
#elif VARIANT == 1
			sum += a[i] * b[i];
#elif VARIANT == 2
			f[i] = (f[i] * 0.5f + 1.0f) * g[i] + 0.25f;
#elif VARIANT == 3
			ints[i] = ints[i] * 3 + others[i];
#else
			total += ints[i] ^ others[i];
#endif
		}
		a[round % n] += 1e-9;
		ints[round % n] += round;
	}
	result += (ulong64)sum + total;
}

int main(void)
{
	ulong64 state = SEED | 1;
	for (long i = 0; i < DOUBLES; i++) {
		a[i] = f[i] = (next_random(&state) >> 40) * 1e-6;
		b[i] = g[i] = (next_random(&state) >> 40) * 1e-7;
		ints[i] = others[i] = next_random(&state);
	}
	other_work();
	work(DOUBLES, ROUNDS * 4000L / SIZE);
	printf("%lu %f\n", result, a[5] + f[7] + ints[9]);
}
