/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OBJECT_CASES_H
#define OBJECT_CASES_H

#include "cm_rig.h"

/* object_mr.c */
bool a_region_moves_to_other_memory(void);
bool a_region_changes_its_rights(void);
bool a_region_changes_its_domain(void);
bool a_change_that_cannot_be_leaves_the_region_as_it_is(void);
bool a_null_region_gives_zeros_and_takes_anything(void);
bool a_region_may_begin_anywhere(void);
bool rights_that_cannot_be_are_refused(void);

#endif
