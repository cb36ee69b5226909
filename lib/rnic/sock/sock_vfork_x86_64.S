/* SPDX-License-Identifier: BSD-3-Clause */
/* vfork(): says that the next calls may be the child's, and goes on in libc's, which returns twice to the program. */
	.text
	.globl	vfork
	.type	vfork, @function
vfork:
	.cfi_startproc
	endbr64
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	sock_vfork_begins
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	jmp	*%rax
	.cfi_endproc
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", @progbits
