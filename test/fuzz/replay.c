/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs one fuzz target over the files of its corpus, with any compiler: replay_NAME FOLDER. One TAP case for each file.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

int main(int argc, char **argv)
{
	static uint8_t data[1 << 20];
	struct dirent **list;
	int n = argc == 2 ? scandir(argv[1], &list, visible, alphasort) : -1;

	if (n <= 0) {
		fprintf(stderr, "usage: replay_NAME FOLDER, with at least one file in it\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0); /* line by line: after an abort the log must name the file that was running */
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		char path[4096];
		FILE *f;
		size_t size;

		snprintf(path, sizeof(path), "%s/%s", argv[1], list[i]->d_name);
		printf("# %s\n", path);
		f = fopen(path, "rb");
		if (f == NULL)
			return 2;
		size = fread(data, 1, sizeof(data), f);
		fclose(f);
		LLVMFuzzerTestOneInput(data, size);
		printf("ok %d - %s\n", i + 1, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return 0;
}
