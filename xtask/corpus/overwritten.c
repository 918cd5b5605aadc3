/* A load that changes its own code: a function that is written over again and again, in memory that is never writable and
   executable at a time, and libraries that are loaded one after the other, each where the one before it was.
   argv[1]: how often each is called; argv[2], argv[3]: the libraries. Built with -DLIBRARY=n it is the n-th of them. */

#ifdef LIBRARY
long stir(long value)
{
    for (int i = 0; i < LIBRARY; i++)
        value = value * 31 + (value >> 7) + i;
    return value;
}
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef long (*function)(long);

/* lea rax, [rdi+step]; xor rax, step; ret */
static void write_code(unsigned char *code, int step)
{
    static const unsigned char bytes[] = { 0x48, 0x8d, 0x87, 0, 0, 0, 0, 0x48, 0x35, 0, 0, 0, 0, 0xc3 };
    memcpy(code, bytes, sizeof bytes);
    memcpy(code + 3, &step, 4);
    memcpy(code + 9, &step, 4);
}

static void protect(void *code, int protection)
{
    if (mprotect(code, 4096, protection)) {
        perror("mprotect");
        exit(1);
    }
}

static long overwritten(int turns, long calls)
{
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long value = 1;
    for (int turn = 1; turn <= turns; turn++) {
        protect(code, PROT_READ | PROT_WRITE);
        write_code(code, turn * 1001);
        protect(code, PROT_READ | PROT_EXEC);
        for (long i = 0; i < calls; i++)
            value = ((function)code)(value);
    }
    return value;
}

static long reloaded(int turns, long calls, char **names)
{
    long value = 1;
    for (int turn = 0; turn < turns; turn++) {
        void *library = dlopen(names[turn % 2], RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        function stir = (function)dlsym(library, "stir");
        for (long i = 0; i < calls; i++)
            value = stir(value);
        dlclose(library);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    long calls = atol(argv[1]);
    printf("%ld\n", overwritten(20, calls));
    printf("%ld\n", reloaded(30, calls, argv + 2));
    return 0;
}
#endif
