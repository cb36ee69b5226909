/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rn_wheel.h"
