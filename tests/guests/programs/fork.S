/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A parent and its child, each with LOOP: in user mode 2 * ROUNDS + 19 and 2 * ROUNDS + 6 instructions, together
 * 4 * ROUNDS + 25.
 */
#include "instructions.h"
	.globl _start
_start:
	SET0(SIGCHLD)
	SET1(0)
	SET2(0)
	SET3(0)
	SET4(0)
	CALL(CLONE)		/* 7, the parent's */
	IF_ZERO(child)		/* 2 of each */
	LOOP			/* 1 + 2 * ROUNDS */
	SET0(-1)
	SET1(0)
	SET2(0)
	SET3(0)
	CALL(WAIT4)		/* 6 */
	SET0(0)
	CALL(EXIT)		/* 3 */
child:
	LOOP			/* 1 + 2 * ROUNDS */
	SET0(0)
	CALL(EXIT)		/* 3 */
