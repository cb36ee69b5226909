/* SPDX-License-Identifier: BSD-3-Clause */
#include "companion.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/ipc_own.h"

#define CANNOT      127
#define BY_SIGNAL   128 /* plus the signal's number: a shell's exit status for it */
#define NOTICE_SIZE 64  /* bytes of sd_notify's "READY=1" and the like */
#define LOOK_MS     50
#define READY       "READY=1" /* sd_notify(3) */
#define LINE_SIZE   1100      /* bytes of a line that rnicd logs, and more */
#define LAST_LINES  64u       /* lines of the log that are printed at most */

static const char configuration[] = "[rnicd]\n"
				    "socket = %s/rnicd.sock\n"
				    "hugepages = auto\n\n"
				    "[port rnic0]\n"
				    "device = pair:rnic1\n"
				    "address = 10.77.0.1/24\n\n"
				    "[port rnic1]\n"
				    "device = pair:rnic0\n"
				    "address = 10.77.0.2/24\n";

/* In place of rnicd: the process that serves the sockets of --embedded --sockets. */
static const char *embedded; /* path of its library; NULL: rnicd itself */

/* What runs beside the program, for messages. */
static const char *its_name(void) { return embedded != NULL ? "the process that serves sockets" : "the private rnicd"; }

/* The private daemon, and the folder with all files that it writes. */
struct companion {
	char dir[32];
	char socket[64], conf[64], log[64], notify[64];
	int ready; /* the socket on which the daemon says that it is ready */
	pid_t pid;
	int signals;               /* signalfd: reads what is blocked */
	sigset_t before;           /* the mask that rnicrun was started with; its children get it */
	struct sigaction at_child; /* what rnicrun was started to do at SIGCHLD; the program gets it */
};

/* Signals that supervisors send to servers. */
static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH };

static volatile sig_atomic_t program_pid, daemon_pid; /* 0: there is none, or none any more */
static sigset_t held; /* passed[] without those that rnicrun was started to ignore, and without SIGWINCH */

/*
 * A terminal's signal goes to the whole process group: the program has it already. SIGALRM is never a terminal's: the
 * kernel sends it for a timer that was set before rnicrun was started. When the program has ended, rnicrun waits for
 * the daemon only: each signal that would end rnicrun ends the daemon now. It is sent as SIGINT, since a service
 * manager may send SIGTERM to all processes of a service at once.
 */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	const int saved = errno;

	(void)context;
	if (program_pid > 0 && (info->si_code != SI_KERNEL || sig == SIGALRM))
		kill((pid_t)program_pid, sig);
	else if (program_pid == 0 && daemon_pid > 0 && sigismember(&held, sig) == 1)
		kill((pid_t)daemon_pid, SIGINT);
	errno = saved;
}

/*
 * Blocks the signals that are passed on, until there is a program to pass them to. A signal that rnicrun was started to
 * ignore (nohup) stays ignored. So does SIGWINCH: a terminal sends it, and no program ends by it.
 */
static bool hold_signals(struct companion *c)
{
	struct sigaction now;

	sigemptyset(&held);
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		if (passed[i] != SIGWINCH && sigaction(passed[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&held, passed[i]);
	sigprocmask(SIG_BLOCK, &held, &c->before);
	c->signals = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
	return c->signals >= 0;
}

/* If SIGCHLD is ignored, the kernel forgets how a child has ended. */
static void keep_children(struct companion *c)
{
	const struct sigaction keep = { .sa_handler = SIG_DFL };

	sigaction(SIGCHLD, &keep, &c->at_child);
}

/* The signal that has come; 0: none. */
static int signal_come(const struct companion *c)
{
	struct signalfd_siginfo info;

	return read(c->signals, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

/* Path of the rnicd beside this program, in a build or an installation; NULL: there is none. */
static const char *find_rnicd(char path[PATH_MAX])
{
	static const char *const places[] = { "../rnicd/rnicd", "../sbin/rnicd", "rnicd", NULL };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return NULL;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (const char *const *p = places; *p != NULL; p++)
		if (snprintf(path, PATH_MAX, "%s/%s", self, *p) < PATH_MAX && access(path, X_OK) == 0)
			return path;
	return NULL;
}

static bool write_configuration(const struct companion *c)
{
	FILE *f = fopen(c->conf, "we");

	if (f == NULL)
		return false;
	fprintf(f, configuration, c->dir);
	return fclose(f) == 0;
}

static bool listen_for_ready(struct companion *c)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	strcpy(sa.sun_path, c->notify);
	c->ready = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return c->ready >= 0 && bind(c->ready, (struct sockaddr *)&sa, sizeof(sa)) == 0;
}

/*
 * A program that root starts may change its user, as servers do in their workers, and each of its processes needs a
 * session of its own. So every user may then enter the folder and connect to the socket. The daemon asks the kernel for
 * the user of each client, and checks each request by that.
 */
static bool users_may_change(void) { return geteuid() == 0; }

static void remove_folder(const struct companion *c)
{
	unlink(c->socket);
	unlink(c->conf);
	unlink(c->log);
	unlink(c->notify);
	rmdir(c->dir);
}

static bool fill_folder(struct companion *c)
{
	return (!users_may_change() || chmod(c->dir, 0711) == 0) && (embedded != NULL || write_configuration(c)) &&
	       listen_for_ready(c);
}

static bool make_folder(struct companion *c)
{
	strcpy(c->dir, "/tmp/rnicrun-XXXXXX");
	if (mkdtemp(c->dir) == NULL)
		return false;
	snprintf(c->socket, sizeof(c->socket), "%s/rnicd.sock", c->dir);
	snprintf(c->conf, sizeof(c->conf), "%s/rnicd.conf", c->dir);
	snprintf(c->log, sizeof(c->log), "%s/log", c->dir);
	snprintf(c->notify, sizeof(c->notify), "%s/ready", c->dir);
	if (fill_folder(c))
		return true;
	const int err = errno;
	remove_folder(c);
	errno = err;
	return false;
}

/* In the child: a listening socket with this path, for this user only; if root starts it, for all. -1: none. */
static int listen_at(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(sa.sun_path, path);
	return bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && (!users_may_change() || chmod(path, 0666) == 0) &&
			       listen(fd, SOMAXCONN) == 0
		       ? fd
		       : -1;
}

static void say_ready(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(sa.sun_path, getenv("NOTIFY_SOCKET"));
	(void)sendto(fd, READY, strlen(READY), 0, (struct sockaddr *)&sa, sizeof(sa));
	close(fd);
}

/* In the child: serves sockets until SIGTERM. Returns the exit status. */
static int serve_sockets(const char *path)
{
	void *library = dlopen(embedded, RTLD_NOW | RTLD_LOCAL);
	ipc_own_serve_fn serve = library != NULL ? (ipc_own_serve_fn)(uintptr_t)dlsym(library, IPC_OWN_SERVE)
						 : (ipc_own_serve_fn)NULL;
	const int listener = listen_at(path);

	prctl(PR_SET_NAME, "rnic-sockets");
	if (serve == NULL)
		fprintf(stderr, "%s cannot be loaded: %s\n", embedded, dlerror());
	else if (listener < 0)
		fprintf(stderr, "socket %s cannot be made: %s\n", path, strerror(errno));
	else
		return serve(listener, say_ready);
	return CANNOT;
}

/* In the child: puts the daemon in a process group of its own. So Ctrl-C reaches only the program, and the daemon ends
 * after the program. */
static void become_rnicd(const struct companion *c, const char *rnicd, pid_t parent)
{
	int log = open(c->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	setpgid(0, 0);
	sigprocmask(SIG_SETMASK, &c->before, NULL);
	unsetenv("LD_PRELOAD"); /* librnic is for the program */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0 ||
	    setenv("NOTIFY_SOCKET", c->notify, 1) != 0)
		_exit(CANNOT);
	if (embedded != NULL)
		_exit(serve_sockets(c->socket));
	/* on the command line, which overrides RNICD_SOCKET in the environment */
	execl(rnicd, rnicd, "--config", c->conf, "--socket", c->socket, (char *)NULL);
	_exit(CANNOT);
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/*
 * True: the daemon is ready. False: the daemon has ended, or a signal has come: *sig is its number, else 0. Without
 * pidfd_open() (Linux before 5.3, seccomp) rnicrun notices the daemon's end at the next look.
 */
static bool wait_until_ready(struct companion *c, int *sig)
{
	char notice[NOTICE_SIZE];
	struct pollfd on[3] = { { .fd = c->ready, .events = POLLIN },
				{ .fd = (int)syscall(SYS_pidfd_open, c->pid, 0), .events = POLLIN },
				{ .fd = c->signals, .events = POLLIN } };
	bool ready = false, ended = false;

	*sig = 0;
	while (!ready && !ended && *sig == 0) {
		(void)poll(on, 3, on[1].fd >= 0 ? -1 : LOOK_MS);
		ended = has_ended(c->pid); /* before recv(): rnicd may have been ready before its end */
		ssize_t n = recv(c->ready, notice, sizeof(notice) - 1, MSG_DONTWAIT);
		notice[n > 0 ? n : 0] = '\0';
		ready = strstr(notice, READY) != NULL;
		*sig = signal_come(c);
	}
	if (on[1].fd >= 0)
		close(on[1].fd);
	return ready && *sig == 0;
}

/* The daemon's last output, which says why it ended. */
static void tell_log(const struct companion *c)
{
	char line[512], last[512] = "it printed nothing\n";
	FILE *f = fopen(c->log, "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		strcpy(last, line);
	if (f != NULL)
		fclose(f);
	fprintf(stderr, "rnicrun: %s did not start: %s%s", its_name(), last,
		last[strlen(last) - 1] == '\n' ? "" : "\n");
}

static bool begins(const char *line, const char *with) { return strncmp(line, with, strlen(with)) == 0; }

/*
 * Prints the lines that the daemon has logged since it was ready, without the first `skip` of them. Returns how many
 * there are in all. The line that says that the daemon ends is none of them: rnicrun has told the daemon to end. The
 * process that serves sockets logs errors only, and no line when it is ready.
 */
static unsigned print_log(FILE *log, unsigned skip)
{
	char line[LINE_SIZE];
	bool ready = embedded != NULL;
	unsigned n = 0;

	rewind(log);
	while (fgets(line, sizeof(line), log) != NULL) {
		if (!ready)
			ready = begins(line, "rnicd: ready, ");
		else if (!begins(line, "rnicd: ending on signal ") && n++ >= skip)
			fputs(line, stderr);
	}
	return n;
}

/* Called when the program or the daemon has failed: the log may say why, and is about to be removed. */
static void tell_why(const struct companion *c, int status)
{
	FILE *log = fopen(c->log, "re");

	if (log == NULL)
		return;
	const unsigned n = print_log(log, UINT_MAX);
	if (n > LAST_LINES)
		fprintf(stderr,
			"rnicrun: the program ended with status %d; the last %u of the %u lines that %s logged "
			"meanwhile:\n",
			status, LAST_LINES, n, its_name());
	else if (n > 0)
		fprintf(stderr, "rnicrun: the program ended with status %d; %s logged meanwhile:\n", status,
			its_name());
	(void)print_log(log, n > LAST_LINES ? n - LAST_LINES : 0);
	fclose(log);
}

/*
 * Waits for the end of a child, and sets *known to 0 before the kernel may give the child's number to another process.
 * Returns a shell's exit status.
 */
static int status_of(pid_t pid, volatile sig_atomic_t *known)
{
	siginfo_t info;
	int status;

	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
		;
	*known = 0;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return CANNOT;
	return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run_program(const struct companion *c, char *const *argv)
{
	struct sigaction act = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO };
	sigset_t winch;

	/* from now on the program may get a SIGWINCH: it waits until there is a handler */
	sigemptyset(&winch);
	sigaddset(&winch, SIGWINCH);
	sigprocmask(SIG_BLOCK, &winch, NULL);
	const pid_t pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &c->before, NULL);
		sigaction(SIGCHLD, &c->at_child, NULL);
		setenv("RNICD_SOCKET", c->socket, 1);
		execvp(argv[0], argv);
		fprintf(stderr, "rnicrun: %s: %s\n", argv[0], strerror(errno));
		_exit(CANNOT);
	}
	program_pid = pid > 0 ? pid : 0;
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaction(passed[i], &act, NULL);
	sigprocmask(SIG_SETMASK, &c->before, NULL);
	return pid < 0 ? CANNOT : status_of(pid, &program_pid);
}

/* The daemon was told to start: runs the program, or says why it cannot. Returns rnicrun's exit status. */
static int accompany(struct companion *c, char *const *argv)
{
	int status = CANNOT, sig;

	if (wait_until_ready(c, &sig)) {
		status = run_program(c, argv);
		const bool in_order = kill(c->pid, SIGTERM) == 0 && status_of(c->pid, &daemon_pid) == 0;
		if (!in_order)
			fprintf(stderr, "rnicrun: %s did not end in order\n", its_name());
		if (status != 0 || !in_order)
			tell_why(c, status);
		return status;
	}
	if (sig != 0) {
		kill(c->pid, SIGTERM);
		status = BY_SIGNAL + sig;
	}
	status_of(c->pid, &daemon_pid);
	if (sig == 0)
		tell_log(c);
	return status;
}

int companion_run(char *const *argv, const char *library)
{
	struct companion c = { .ready = -1 };
	const pid_t self = getpid();
	char path[PATH_MAX];
	const char *rnicd = library != NULL ? NULL : find_rnicd(path);
	int status = CANNOT;

	embedded = library;
	if (rnicd == NULL && library == NULL) {
		fputs("rnicrun: there is no rnicd beside rnicrun: build or install both\n", stderr);
		return CANNOT;
	}
	keep_children(&c);
	if (!hold_signals(&c) || !make_folder(&c)) {
		fprintf(stderr, "rnicrun: cannot make a folder for %s in /tmp: %s\n", its_name(), strerror(errno));
		return CANNOT;
	}
	c.pid = fork();
	if (c.pid == 0)
		become_rnicd(&c, rnicd, self);
	daemon_pid = c.pid > 0 ? c.pid : 0;
	if (c.pid > 0)
		status = accompany(&c, argv);
	remove_folder(&c);
	close(c.ready);
	return status;
}
