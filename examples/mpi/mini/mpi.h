/* SPDX-License-Identifier: BSD-3-Clause */
/* The header that the kernels include, when they are built against minimpi in place of an MPI. */
#include <minimpi.h>
