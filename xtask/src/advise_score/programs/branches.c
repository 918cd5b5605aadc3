// Branches that depend on random data. SIZE: KiB of data, which fit in a cache.
#include "common.h"

static unsigned char data[SIZE * 1024];
static ulong64 bins[16];

static __attribute__((noinline)) void low(ulong64 x) { bins[x & 7] += x; }
static __attribute__((noinline)) void high(ulong64 x) { bins[8 + (x & 7)] ^= x; }

static __attribute__((noinline)) void filter(void)
{
	ulong64 state = SEED | 1;
	for (long i = 0; i < ROUNDS * 200000L; i++) {
		ulong64 x = next_random(&state);
		if (x & 0x4000)
			low(x);
		else
			high(x);
	}
}

static __attribute__((noinline)) void dispatch(void)
{
	static void *targets[] = {&&a, &&b, &&c, &&d, &&e, &&f, &&g, &&h};
	ulong64 state = SEED | 1, sum = 0;
	long left = ROUNDS * 150000L;
	goto *targets[0];
a: sum += left; goto next;
b: sum ^= left * 3; goto next;
c: sum -= left; goto next;
d: sum += sum >> 3; goto next;
e: sum ^= 0x55; goto next;
f: sum += 7 * left; goto next;
g: sum = sum * 5 + 1; goto next;
h: sum ^= sum << 2;
next:
	if (left--)
		goto *targets[next_random(&state) >> 40 & 7];
	result += sum;
}

static void sort(unsigned *a, long n)
{
	while (n > 12) {
		unsigned pivot = a[n / 2];
		long i = 0, j = n - 1;
		while (i <= j) {
			while (a[i] < pivot)
				i++;
			while (a[j] > pivot)
				j--;
			if (i <= j) {
				unsigned t = a[i];
				a[i++] = a[j];
				a[j--] = t;
			}
		}
		sort(a, j + 1);
		a += i;
		n -= i;
	}
	for (long i = 1; i < n; i++)
		for (long j = i; j && a[j - 1] > a[j]; j--) {
			unsigned t = a[j];
			a[j] = a[j - 1];
			a[j - 1] = t;
		}
}

static __attribute__((noinline)) void sorts(void)
{
	static unsigned numbers[SIZE * 256];
	ulong64 state = SEED | 1;
	for (long round = 0; round < ROUNDS * 600L / SIZE + 1; round++) {
		for (long i = 0; i < SIZE * 256; i++)
			numbers[i] = next_random(&state) >> 13;
		sort(numbers, SIZE * 256);
		result += numbers[SIZE];
	}
}

static __attribute__((noinline)) void tokens(void)
{
	ulong64 state = SEED | 1, words = 0, digits = 0, others = 0;
	for (long i = 0; i < (long)sizeof data; i++)
		data[i] = next_random(&state) >> 17;
	for (long round = 0; round < ROUNDS * 180L / SIZE + 1; round++) {
		for (long i = 0; i < (long)sizeof data; i++) {
			unsigned char c = data[i] ^ (next_random(&state) >> 29);
			if (c < 80)
				low(++words);
			else if (c < 170)
				high(++digits);
			else
				others++;
		}
	}
	result += words + digits * 3 + others;
}

static __attribute__((noinline)) void walks(void)
{
	// A tree in an array: left or right by a random key.
	static unsigned tree[4096];
	ulong64 state = SEED | 1, sum = 0;
	for (int i = 0; i < 4096; i++)
		tree[i] = next_random(&state) >> 20;
	for (long i = 0; i < ROUNDS * 20000L; i++) {
		unsigned key = next_random(&state) >> 20, at = 1;
		while (at < 2048) {
			if (tree[at] < key) {
				bins[at & 7]++;
				at = 2 * at;
			} else {
				at = 2 * at + 1;
			}
		}
		sum += at;
	}
	result += sum;
}

int main(void)
{
	other_work();
#if VARIANT == 0
	filter();
#elif VARIANT == 1
	dispatch();
#elif VARIANT == 2
	sorts();
#elif VARIANT == 3
	tokens();
#else
	walks();
#endif
	other_work();
	printf("%lu\n", result + bins[3] + bins[9]);
}
