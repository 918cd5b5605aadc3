/* Loops of known length between markers. */
#include <cyclometer.h>

/* Two instructions a round, and one before them. */
static void loop(unsigned long rounds)
{
#if defined(__x86_64__)
    unsigned long left;
    __asm__ volatile("mov %1, %0\n1:\n\tsub $1, %0\n\tjne 1b" : "=&r"(left) : "r"(rounds) : "cc");
#else
    for (volatile unsigned long i = 0; i < rounds; i++)
        ;
#endif
}

int main(void)
{
    for (int i = 0; i < 3; i++) {
        cyclometer_marker_begin("a loop of a thousand rounds");
        loop(1000);
        cyclometer_marker_end("a loop of a thousand rounds");
        cyclometer_marker_begin("l");
        loop(5000);
        cyclometer_marker_end("l");
    }
    cyclometer_marker_begin("outer");
    for (int i = 0; i < 4; i++) {
        cyclometer_marker_begin("inner");
        loop(100);
        cyclometer_marker_end("inner");
    }
    cyclometer_marker_end("outer");
    cyclometer_marker_begin("\xff no UTF-8");
    cyclometer_marker_end("\xff no UTF-8");
    cyclometer_marker_begin(0);
    cyclometer_marker_end(0);
    cyclometer_marker_end("never begun");
    return 0;
}
