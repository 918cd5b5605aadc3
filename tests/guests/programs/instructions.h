/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The same few steps on three instruction sets, each of the same number of instructions everywhere, so that what a program
 * executes in user mode can be added up by hand.
 *
 *   SET0..SET4(n), SP_TO_1   an argument of a system call          1
 *   CALL(n)                  the system call of that number        2
 *   IF_ZERO(label)           goes there if a call returned zero    2
 *   LOOP                     rounds of two instructions            1 + 2 * ROUNDS
 */
#define ROUNDS_UPPER (ROUNDS >> 12)	/* ROUNDS is a multiple of 0x10000 below 2^31 */

#if defined(__x86_64__)

#define SET0(n) mov $(n), %edi
#define SET1(n) mov $(n), %esi
#define SET2(n) mov $(n), %edx
#define SET3(n) mov $(n), %r10d
#define SET4(n) mov $(n), %r8d
#define SP_TO_1 mov %rsp, %rsi
#define CALL(n) mov $(n), %eax; syscall
#define IF_ZERO(label) test %eax, %eax; jz label
#define LOOP mov $ROUNDS, %ecx; 1: dec %ecx; jnz 1b
#define READ 0
#define CLONE 56
#define EXIT 60
#define WAIT4 61

#elif defined(__aarch64__)

#define SET0(n) mov x0, n
#define SET1(n) mov x1, n
#define SET2(n) mov x2, n
#define SET3(n) mov x3, n
#define SET4(n) mov x4, n
#define SP_TO_1 mov x1, sp
#define CALL(n) mov x8, n; svc 0
#define IF_ZERO(label) nop; cbz x0, label
#define LOOP mov x9, ROUNDS; 1: subs x9, x9, 1; b.ne 1b

#elif defined(__riscv)

#define SET0(n) addi a0, zero, n
#define SET1(n) addi a1, zero, n
#define SET2(n) addi a2, zero, n
#define SET3(n) addi a3, zero, n
#define SET4(n) addi a4, zero, n
#define SP_TO_1 addi a1, sp, 0
#define CALL(n) addi a7, zero, n; ecall
#define IF_ZERO(label) addi zero, zero, 0; beq a0, zero, label
#define LOOP lui t0, ROUNDS_UPPER; 1: addi t0, t0, -1; bne t0, zero, 1b

#endif

#ifndef READ
#define READ 63
#define CLONE 220
#define EXIT 93
#define WAIT4 260
#endif

#define SIGCHLD 17
