/* SPDX-License-Identifier: BSD-3-Clause */
#include "picture.h"

#include <png.h>
#include <stdlib.h>

#include "say.h"

void picture_write(const char *path, const struct canvas *c, uint32_t width, uint32_t height)
{
	png_image image = { .version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_RGB };
	uint8_t *rgb = allocate(3ul * c->n);

	for (uint32_t i = 0; i < c->n; i++) {
		rgb[3 * i] = (uint8_t)(c->px[i].colour >> 16);
		rgb[3 * i + 1] = (uint8_t)(c->px[i].colour >> 8);
		rgb[3 * i + 2] = (uint8_t)c->px[i].colour;
	}
	if (!png_image_write_to_file(&image, path, 0, rgb, 0, NULL))
		die("%s cannot be written: %s", path, image.message);
	free(rgb);
}

uint32_t picture_differs(const struct canvas *a, const struct canvas *b)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->n; i++)
		n += a->px[i].colour != b->px[i].colour;
	return n;
}
