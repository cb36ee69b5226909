/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * execve() and its relatives, and prctl(), in front of libc's. If this library is preloaded in the next program, that
 * program finds the sockets that it inherits itself (sock_found.c). Without this library a program cannot use the
 * sockets: one line on stderr says so, and each socket is replaced by a descriptor that has been reset. If the program
 * cannot be executed, everything is restored.
 *
 * A child of vfork() runs these functions in its parent's memory. So they change nothing but descriptors, which are the
 * child's own.
 */
#include <alloca.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC   __attribute__((visibility("default")))
#define SELF     "librnicsock.so"
#define DEAD_MAX 128u /* maximum number of replaced descriptors; further ones stay, and fail in the next program */
#define HEAD     4096u

/* ---- whether the next program is preloaded ---- */

static bool env_preloads(char *const env[])
{
	static const char name[] = "LD_PRELOAD=";

	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		if (strncmp(env[i], name, sizeof(name) - 1) == 0)
			return strstr(env[i], SELF) != NULL;
	return false;
}

static bool is_static(const uint8_t *head, size_t n)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	memcpy(&e, head, sizeof(e));
	if (n < sizeof(e) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	for (size_t i = 0, at = e.e_phoff; i < e.e_phnum && at < n && n - at >= sizeof(p); i++, at += sizeof(p)) {
		memcpy(&p, head + at, sizeof(p));
		if (p.p_type == PT_INTERP)
			return false;
	}
	return e.e_type == ET_EXEC; /* others without an interpreter may be the dynamic linker itself */
}

/* NULL: the program loads this library if its environment says so. Else why it does not. */
static const char *file_refuses(const char *path)
{
	uint8_t head[HEAD] = { 0 };
	struct stat st;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	n = fstat(fd, &st) == 0 ? sock_libc.read(fd, head, sizeof(head)) : -1;
	sock_libc.close(fd);
	if (n < 0)
		return NULL;
	if (((st.st_mode & S_ISUID) != 0 && st.st_uid != geteuid()) ||
	    ((st.st_mode & S_ISGID) != 0 && st.st_gid != getegid()))
		return "it runs as another user";
	return is_static(head, (size_t)n) ? "it is linked statically" : NULL;
}

/* ---- descriptors that the next program cannot use ---- */

struct dead {
	uint32_t n;
	int fd[DEAD_MAX], was[DEAD_MAX];
};

static bool goes_over(int fd)
{
	int flags = sock_libc.fcntl(fd, F_GETFD);

	return flags >= 0 && (flags & FD_CLOEXEC) == 0 && sock_looks_ours(fd);
}

static uint32_t list_of(struct dead *d)
{
	for (int fd = 0; fd < SOCK_FDS && d->n < DEAD_MAX; fd++)
		if ((fd <= STDERR_FILENO || __atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) != NULL) && goes_over(fd))
			d->fd[d->n++] = fd;
	return d->n;
}

/* Makes a socket whose peer has reset it; -1: failed. */
static int reset_socket(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	/* closed with unread data: the other end gets ECONNRESET */
	(void)sock_libc.send(pair[0], "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	sock_libc.close(pair[1]);
	return pair[0];
}

/*
 * If fd is a connection and standard input, output or error: with `on`, the peer gets a reset when the last process has
 * closed the connection. Without `on`, undoes that, unless SO_LINGER asks for the same.
 */
static void abort_last(int fd, bool on)
{
	struct sock *s = fd <= STDERR_FILENO ? sock_get(fd) : NULL;

	if (s == NULL)
		return;
	if (s->kind == SOCK_IS_STREAM && on)
		__atomic_fetch_or(&s->mem->fin, IPC_STREAM_ABORT, __ATOMIC_RELEASE);
	else if (s->kind == SOCK_IS_STREAM && (s->linger.l_onoff == 0 || s->linger.l_linger != 0))
		__atomic_fetch_and(&s->mem->fin, ~(uint32_t)IPC_STREAM_ABORT, __ATOMIC_RELEASE);
	sock_put(s);
}

static void kill_all(struct dead *d)
{
	for (uint32_t i = 0; i < d->n; i++) {
		int made = reset_socket();
		d->was[i] = sock_libc.fcntl(d->fd[i], F_DUPFD_CLOEXEC, 0);
		abort_last(d->fd[i], true);
		if (made < 0 || d->was[i] < 0)
			sock_libc.fcntl(d->fd[i], F_SETFD, FD_CLOEXEC); /* no replacement: exec closes it instead */
		else
			sock_libc.dup2(made, d->fd[i]);
		if (made >= 0)
			sock_libc.close(made);
	}
}

/* The exec has failed: undoes kill_all(). */
static void revive(const struct dead *d)
{
	int saved = errno;

	for (uint32_t i = 0; i < d->n; i++) {
		if (d->was[i] >= 0) {
			sock_libc.dup2(d->was[i], d->fd[i]);
			sock_libc.close(d->was[i]);
		}
		sock_libc.fcntl(d->fd[i], F_SETFD, 0);
		abort_last(d->fd[i], false);
	}
	errno = saved;
}

static void exec_say(const char *path, const char *why)
{
	char line[512];
	int n = snprintf(line, sizeof(line),
			 "librnicsock: %.200s runs without this library (%s): the sockets of rnicd that it would "
			 "inherit "
			 "are reset\n",
			 path, why);

	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr is closed */
}

/*
 * Called before an exec: prints the line if the next program cannot use its sockets, and, with `kills`, replaces them;
 * revive() undoes that. Leaves errno unchanged.
 */
static void before(const char *path, char *const env[], bool kills, struct dead *d)
{
	int saved = errno;
	const char *why = NULL;

	sock_ready();
	d->n = 0;
	if (path != NULL && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 && list_of(d) != 0) {
		why = env_preloads(env) ? file_refuses(path) : "no LD_PRELOAD in its environment names the library";
		if (why != NULL)
			exec_say(path, why);
	}
	if (why == NULL || !kills)
		d->n = 0;
	kill_all(d);
	errno = saved;
}

/* The path at which execvp() finds the program; NULL: nowhere. */
static const char *search(const char *file, char at[HEAD])
{
	const char *path = getenv("PATH");

	if (strchr(file, '/') != NULL)
		return file;
	for (path = path != NULL ? path : "/bin:/usr/bin"; *path != '\0';) {
		size_t n = strcspn(path, ":");
		if (snprintf(at, HEAD, "%.*s%s%s", (int)n, path, n != 0 ? "/" : "", file) < (int)HEAD &&
		    access(at, X_OK) == 0)
			return at;
		path += n + (path[n] == ':');
	}
	return NULL;
}

/* ---- the environment ---- */

static size_t count_env(char *const env[])
{
	size_t n = 0;

	while (env != NULL && env[n] != NULL)
		n++;
	return n;
}

/*
 * Copies the environment, with `wires` in place of the variable of the same name. `to` has room for two pointers more
 * than env has.
 */
static void copy_env(char **to, char *const env[], char *wires)
{
	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		if (!sock_wires_is(env[i]))
			*to++ = env[i];
	*to++ = wires;
	*to = NULL;
}

/* If there are wires to pass to a preloaded program: env becomes a copy, on the caller's stack, that has the wires. */
#define CARRY_WIRES(env) \
	do { \
		const size_t many = env_preloads(env) ? sock_wires_say(NULL, 0) : 0; \
		if (many != 0) { \
			char *const text = alloca(many + 1); \
			char **const all = alloca((count_env(env) + 2) * sizeof(*all)); \
			sock_wires_say(text, many + 1); \
			copy_env(all, env, text); \
			(env) = all; \
		} \
	} while (0)

/* ---- the calls ---- */

PUBLIC int execve(const char *path, char *const argv[], char *const env[])
{
	struct dead d;

	before(path, env, true, &d);
	CARRY_WIRES(env);
	int rc = sock_libc.execve(path, argv, env);
	revive(&d);
	return rc;
}

PUBLIC int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

PUBLIC int execvpe(const char *file, char *const argv[], char *const env[])
{
	char at[HEAD];
	struct dead d;

	before(search(file, at), env, true, &d);
	CARRY_WIRES(env);
	int rc = sock_libc.execvpe(file, argv, env);
	revive(&d);
	return rc;
}

PUBLIC int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

PUBLIC int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
	char at[HEAD];
	struct dead d;

	snprintf(at, sizeof(at), "/proc/self/fd/%d%s%s", dir, *path != '\0' ? "/" : "", path);
	before(dir == AT_FDCWD || *path == '/' ? path : at, env, true, &d);
	CARRY_WIRES(env);
	int rc = sock_libc.execveat(dir, path, argv, env, flags);
	revive(&d);
	return rc;
}

PUBLIC int fexecve(int fd, char *const argv[], char *const env[])
{
	char at[64];
	struct dead d;

	snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	before(at, env, true, &d);
	CARRY_WIRES(env);
	int rc = sock_libc.fexecve(fd, argv, env);
	revive(&d);
	return rc;
}

/* Number of arguments of execl() and its relatives, with the first one and the NULL at the end. */
static size_t count(va_list ap)
{
	size_t n = 1;

	while (va_arg(ap, char *) != NULL)
		n++;
	return n + 1;
}

#define ARGUMENTS(argv, first, ap) \
	do { \
		va_start(ap, first); \
		const size_t many = count(ap); \
		va_end(ap); \
		(argv) = alloca(many * sizeof(*(argv))); \
		va_start(ap, first); \
		(argv)[0] = (char *)(uintptr_t)(first); \
		for (size_t i = 1; i < many; i++) \
			(argv)[i] = va_arg(ap, char *); \
	} while (0)

PUBLIC int execl(const char *path, const char *arg, ...)
{
	va_list ap;
	char **argv;

	ARGUMENTS(argv, arg, ap);
	va_end(ap);
	return execve(path, argv, environ);
}

PUBLIC int execlp(const char *file, const char *arg, ...)
{
	va_list ap;
	char **argv;

	ARGUMENTS(argv, arg, ap);
	va_end(ap);
	return execvpe(file, argv, environ);
}

PUBLIC int execle(const char *path, const char *arg, ...)
{
	va_list ap;
	char **argv;

	ARGUMENTS(argv, arg, ap);
	char *const *env = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, env);
}

/* Only libc knows which descriptors the child will inherit, so the line is printed and no socket is replaced. */
PUBLIC int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	struct dead d;

	before(path, env, false, &d);
	CARRY_WIRES(env);
	return sock_libc.posix_spawn(pid, path, actions, attr, argv, env);
}

PUBLIC int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	char at[HEAD];
	struct dead d;

	before(search(file, at), env, false, &d);
	CARRY_WIRES(env);
	return sock_libc.posix_spawnp(pid, file, actions, attr, argv, env);
}

PUBLIC int prctl(int what, ...)
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, what);
	for (size_t i = 0; i < RN_ARRAY_LEN(a); i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	sock_ready();
	if (what == PR_SET_SECCOMP)
		sock_libc_confine();
	return sock_libc.prctl(what, a[0], a[1], a[2], a[3]);
}
