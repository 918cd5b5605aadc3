// Threads that write to the same cache lines: to different words (0 to 3), or to the same data (4, 5).
#include "common.h"

#define THREADS (2 + SEED % 2)

static volatile ulong64 counters[64] __attribute__((aligned(64)));
static struct {
	volatile unsigned first, second, third, fourth;
} fields __attribute__((aligned(64)));
static ulong64 states[8] __attribute__((aligned(64)));
static volatile int lock;

static void *body(void *argument)
{
	long me = (long)argument;
	long n = ROUNDS * 100000L;
	ulong64 sum = me;
#if VARIANT == 0
	for (long i = 0; i < n; i++)
		counters[me] += i;
#elif VARIANT == 1
	volatile unsigned *field = me == 0 ? &fields.first : me == 1 ? &fields.second : &fields.third;
	for (long i = 0; i < n; i++)
		*field = *field * 3 + i;
#elif VARIANT == 2
	states[me] = SEED + me + 1;
	for (long i = 0; i < n; i++) {
		sum += next_random(&states[me]);
		__asm__ volatile("" ::: "memory");
	}
#elif VARIANT == 3
	for (long i = 0; i < n / 2; i++)
		__atomic_fetch_add((ulong64 *)&counters[me * 2], i, __ATOMIC_RELAXED);
#elif VARIANT == 4
	for (long i = 0; i < n / 2; i++)
		__atomic_fetch_add((ulong64 *)&counters[0], i, __ATOMIC_RELAXED);
#else
	for (long i = 0; i < n / 8; i++) {
		while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
			__builtin_ia32_pause();
		counters[0] += i;
		__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	}
#endif
	__atomic_fetch_add((ulong64 *)&result, sum, __ATOMIC_RELAXED);
	return 0;
}

int main(void)
{
	other_work();
	run_threads(body, THREADS);
	printf("%lu\n", result + counters[0] + fields.first);
}
