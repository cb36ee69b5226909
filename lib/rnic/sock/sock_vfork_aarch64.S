/* SPDX-License-Identifier: BSD-3-Clause */
/* vfork(): says that the next calls may be the child's, and goes on in libc's, which returns twice to the program. */
	.text
	.globl	vfork
	.type	vfork, %function
vfork:
	.cfi_startproc
	hint	#34
	stp	x29, x30, [sp, #-16]!
	.cfi_adjust_cfa_offset 16
	bl	sock_vfork_begins
	ldp	x29, x30, [sp], #16
	.cfi_adjust_cfa_offset -16
	mov	x16, x0
	br	x16
	.cfi_endproc
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", %progbits
