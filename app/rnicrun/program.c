/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool find(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/') != NULL) {
		snprintf(path, PATH_MAX, "%s", name);
		return access(path, X_OK) == 0;
	}
	dirs = dirs != NULL ? dirs : "/bin:/usr/bin";
	for (;;) { /* an empty folder, also the last one, is the working directory */
		size_t n = strcspn(dirs, ":");
		if (snprintf(path, PATH_MAX, "%.*s/%s", (int)n, n > 0 ? dirs : ".", name) < PATH_MAX &&
		    access(path, X_OK) == 0)
			return true;
		if (dirs[n] == '\0')
			return false;
		dirs += n + 1;
	}
}

/* Whether a program is linked statically. Only programs of the machine's own word size are checked. */
static bool is_static(const char *path)
{
	FILE *f = fopen(path, "re");
	Elf64_Ehdr e;
	Elf64_Phdr p;
	bool elf = f != NULL && fread(&e, sizeof(e), 1, f) == 1 && memcmp(e.e_ident, ELFMAG, SELFMAG) == 0 &&
		   e.e_ident[EI_CLASS] == ELFCLASS64 && e.e_phentsize == sizeof(p) &&
		   fseek(f, (long)e.e_phoff, SEEK_SET) == 0;

	for (int i = 0; elf && i < e.e_phnum; i++)
		if (fread(&p, sizeof(p), 1, f) != 1 || p.p_type == PT_INTERP)
			elf = false;
	if (f != NULL)
		fclose(f);
	return elf;
}

const char *program_obstacle(const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (!find(name, path) || stat(path, &st) != 0)
		return NULL;
	/* ld.so runs such programs in secure-execution mode (ld.so(8)), in which it does not preload librnic */
	if (((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid()) ||
	    ((st.st_mode & S_ISGID) != 0 && st.st_gid != getgid()))
		return "it is setuid or setgid, and the system preloads nothing into such programs: run a copy of it, or run "
		       "it as its owner";
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return "it has file capabilities, and the system preloads nothing into such programs: run a copy of it";
	if (is_static(path))
		return "it is linked statically, so nothing can be preloaded: link it with -lrnic or dynamically";
	return NULL;
}

const char *program_none(const char *name)
{
	char path[PATH_MAX], head[2] = "";
	struct stat st;
	bool found = find(name, path);

	if (!found && strchr(name, '/') == NULL)
		return "there is no such program on the PATH";
	if (stat(path, &st) != 0)
		return "there is no such file";
	if (S_ISDIR(st.st_mode))
		return "it is a folder: name the program in it";
	if (!S_ISREG(st.st_mode) || !found)
		return "it is a file without permission to execute (chmod +x, if it is a program)";
	FILE *f = fopen(path, "re");
	bool runs = f == NULL ||
		    (fread(head, 1, 2, f) == 2 && (memcmp(head, ELFMAG, 2) == 0 || memcmp(head, "#!", 2) == 0));
	if (f != NULL)
		fclose(f);
	return runs ? NULL : "it is no program: neither an ELF file nor a script that names its interpreter (#!)";
}

/* Gets the path of the loader that the program names. False: it names none, as it is a script or linked statically. */
static bool loader_of(const char *path, char loader[PATH_MAX])
{
	FILE *f = fopen(path, "re");
	Elf64_Ehdr e;
	Elf64_Phdr p = { .p_type = PT_NULL };
	bool ok = f != NULL && fread(&e, sizeof(e), 1, f) == 1 && memcmp(e.e_ident, ELFMAG, SELFMAG) == 0 &&
		  e.e_ident[EI_CLASS] == ELFCLASS64 && e.e_phentsize == sizeof(p) &&
		  fseek(f, (long)e.e_phoff, SEEK_SET) == 0;

	for (int i = 0; ok && i < e.e_phnum && p.p_type != PT_INTERP; i++)
		ok = fread(&p, sizeof(p), 1, f) == 1;
	ok = ok && p.p_type == PT_INTERP && p.p_filesz > 1 && p.p_filesz < PATH_MAX &&
	     fseek(f, (long)p.p_offset, SEEK_SET) == 0 && fread(loader, p.p_filesz, 1, f) == 1 &&
	     loader[p.p_filesz - 1] == '\0' && loader[0] == '/';
	if (f != NULL)
		fclose(f);
	return ok;
}

bool program_links_verbs(const char *name)
{
	char path[PATH_MAX], loader[PATH_MAX], line[PATH_MAX + 256];
	bool found = false;
	int out[2];

	if (!find(name, path) || !loader_of(path, loader) || pipe2(out, O_CLOEXEC) != 0)
		return true;
	pid_t pid = fork();
	if (pid == 0) {
		unsetenv("LD_PRELOAD");
		dup2(out[1], STDOUT_FILENO);
		execl(loader, loader, "--list", path, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	FILE *f = fdopen(out[0], "r");
	while (pid > 0 && f != NULL && fgets(line, sizeof(line), f) != NULL)
		found |= strstr(line, "libibverbs.so") != NULL || strstr(line, "librdmacm.so") != NULL ||
			 strstr(line, "librnic.so") != NULL;
	if (f != NULL)
		fclose(f);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return pid <= 0 || found;
}
