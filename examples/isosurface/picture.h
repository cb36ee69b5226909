/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_PICTURE_H
#define ISO_PICTURE_H

#include "raster.h"

/* Writes a canvas with all rows as a PNG of width x height. If the file cannot be written, the process ends. */
void picture_write(const char *path, const struct canvas *c, uint32_t width, uint32_t height);
/* How many pixels of two canvases of one size differ in colour. */
uint32_t picture_differs(const struct canvas *a, const struct canvas *b);

#endif
