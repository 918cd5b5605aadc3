/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waits for a byte or the end of standard input, then LOOP and exit(0): 2 * ROUNDS + 4 instructions after the wait. */
#include "instructions.h"
	.globl _start
_start:
	SET0(0)
	SP_TO_1
	SET2(1)
	CALL(READ)
	LOOP			/* 1 + 2 * ROUNDS */
	SET0(0)
	CALL(EXIT)		/* 3 */
