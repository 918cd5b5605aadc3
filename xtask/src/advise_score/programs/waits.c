// Threads, processes and devices that are waited for.
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static ulong64 shared[SIZE];
static long turn;

static ulong64 spin(long steps, ulong64 state)
{
	for (long i = 0; i < steps; i++)
		next_random(&state);
	return state;
}

static void *convoy(void *argument)
{
	ulong64 sum = (long)argument + 1;
	for (long i = 0; i < ROUNDS * 20L; i++) {
		pthread_mutex_lock(&lock);
		shared[i % SIZE] += sum = spin(500, sum | 1);
		// Held while it waits for something else: the others queue up.
		usleep(20);
		pthread_mutex_unlock(&lock);
		sum = spin(500, sum | 1);
	}
	return 0;
}

static void *turns(void *argument)
{
	long me = (long)argument;
	for (long i = 0; i < ROUNDS * 600L; i++) {
		pthread_mutex_lock(&lock);
		while (turn % 2 != me)
			pthread_cond_wait(&changed, &lock);
		turn++;
		shared[0] = spin(300, shared[0] | 1);
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return 0;
}

static void *uneven(void *argument)
{
	long me = (long)argument;
	__atomic_fetch_add((ulong64 *)&result, spin(me ? ROUNDS * 200000L : ROUNDS * 4000000L, me + 1), __ATOMIC_RELAXED);
	// Its helpers wait until the first is done.
	pthread_mutex_lock(&lock);
	turn += me == 0;
	pthread_cond_broadcast(&changed);
	while (!turn)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void pipes(void)
{
	int there[2], back[2];
	char byte = 1;
	if (pipe(there) || pipe(back))
		exit(1);
	if (!fork()) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			if (write(back[1], &byte, 1) != 1)
				break;
		_exit(0);
	}
	for (long i = 0; i < ROUNDS * 800L; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			break;
	close(there[1]);
	wait(0);
}

static void synchronise(void)
{
	char name[] = "advise-score-XXXXXX", bytes[4096] = {1};
	int file = mkstemp(name);
	unlink(name);
	for (long i = 0; i < ROUNDS * 4L; i++) {
		if (pwrite(file, bytes, sizeof bytes, i % 16 * 4096) < 0 || fsync(file))
			exit(1);
		spin(20000, i + 1);
	}
}

int main(void)
{
	other_work();
#if VARIANT == 0
	run_threads(convoy, 2 + SEED % 3);
#elif VARIANT == 1
	run_threads(turns, 2);
#elif VARIANT == 2
	pipes();
#elif VARIANT == 3
	synchronise();
#elif VARIANT == 4
	for (long i = 0; i < ROUNDS * 6L; i++) {
		result += spin(20000, i + 1);
		usleep(3000);
	}
#elif VARIANT == 5
	for (long i = 0; i < ROUNDS * 4L; i++) {
		result += spin(40000, i + 1);
		poll(0, 0, 5);
	}
#else
	run_threads(uneven, 2 + SEED % 2);
#endif
	printf("%lu\n", result + shared[1]);
}
