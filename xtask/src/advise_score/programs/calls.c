// Many small system calls.
#include "common.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

int main(void)
{
	char bytes[SIZE];
	struct stat about;
	int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
	memset(bytes, 1, sizeof bytes);
	other_work();
	for (long i = 0; i < ROUNDS * 20000L; i++) {
#if VARIANT == 0
		result += syscall(SYS_getppid);
#elif VARIANT == 1
		result += read(zero, bytes, SIZE % 16 + 1);
#elif VARIANT == 2
		result += write(null, bytes, SIZE % 16 + 1);
#elif VARIANT == 3
		result += stat("/", &about) + about.st_ino;
#else
		struct timespec now;
		result += syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
#endif
	}
	other_work();
	printf("%lu\n", result);
}
