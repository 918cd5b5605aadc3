// What the programs share: random numbers, and other work that a program with a fault does as well.
// Defined on the command line: VARIANT, SIZE, ROUNDS, SEED, OTHER_WORK.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long ulong64;

static volatile ulong64 result;

static inline ulong64 next_random(ulong64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static __attribute__((noinline)) ulong64 fibonacci(ulong64 n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static __attribute__((noinline)) void other_work(void)
{
	ulong64 state = SEED | 1, sum = 0;
#if OTHER_WORK == 1
	for (int i = 0; i < 8000000; i++)
		sum += next_random(&state);
#elif OTHER_WORK == 2
	sum = fibonacci(27);
#elif OTHER_WORK == 3
	static char from[65536], to[65536];
	for (int i = 0; i < 2000; i++) {
		from[i] = i;
		memcpy(to, from, sizeof to);
		sum += to[i];
	}
#elif OTHER_WORK == 4
	static unsigned table[4096];
	for (int i = 0; i < 6000000; i++)
		table[i & 4095] += i;
	sum = table[77];
#endif
	result += sum + state;
}

typedef void *(*thread_body)(void *);

static void run_threads(thread_body body, int threads)
{
	pthread_t all[64];
	for (long i = 0; i < threads; i++)
		pthread_create(&all[i], 0, body, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], 0);
}
