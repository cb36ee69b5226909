/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drivers report "Operation not permitted" for nearly every failure. After a failure this file looks for what the
 * driver needed and did not find: the capability, the interface, the folder of a socket, the kernel's driver of a NIC.
 */
#include <errno.h>
#include <linux/capability.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "border/devargs.h"
#include "plane/port.h"

static bool capable(unsigned cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	return syscall(SYS_capget, &head, data) != 0 || (data[cap / 32].effective >> (cap % 32) & 1) != 0;
}

static void interface_of(const struct rnicd_port_cfg *cfg, char name[IFNAMSIZ])
{
	if (strchr(cfg->args, '=') == NULL || !devargs_get(cfg->args, "iface", name, IFNAMSIZ))
		snprintf(name, IFNAMSIZ, "%.*s", (int)strcspn(cfg->args, ","), cfg->args);
}

/* Each of these functions looks for one cause. False: it has found none. */

static bool tap(const struct rnicd_port_cfg *cfg, char *why, size_t len)
{
	char name[IFNAMSIZ], path[64];

	interface_of(cfg, name);
	snprintf(path, sizeof(path), "/sys/class/net/%s/tun_flags", name);
	if (access("/dev/net/tun", R_OK | W_OK) != 0)
		snprintf(why, len, "/dev/net/tun: %s (modprobe tun; a container needs the device)", strerror(errno));
	else if (!capable(CAP_NET_ADMIN))
		snprintf(why, len,
			 "to make the interface %s takes CAP_NET_ADMIN: run rnicd as root or with that capability",
			 name);
	else if (if_nametoindex(name) != 0 && access(path, F_OK) != 0)
		snprintf(why, len, "there is an interface %s already that is no tap: choose another name", name);
	else if (if_nametoindex(name) != 0)
		snprintf(why, len, "another program has the tap %s: choose another name", name);
	else
		return false;
	return true;
}

static bool af_packet(const struct rnicd_port_cfg *cfg, char *why, size_t len)
{
	char name[IFNAMSIZ];

	interface_of(cfg, name);
	if (if_nametoindex(name) == 0)
		snprintf(why, len, "there is no interface %s (ip link shows them)", name);
	else if (!capable(CAP_NET_RAW))
		snprintf(why, len, "a packet socket takes CAP_NET_RAW: run rnicd as root or with that capability");
	else
		return false;
	return true;
}

static bool memif(const struct rnicd_port_cfg *cfg, char *why, size_t len)
{
	char no[8], path[RNICD_ARGS_MAX], *slash;

	if (!devargs_get(cfg->args, "socket-abstract", no, sizeof(no)) || strcmp(no, "no") != 0 ||
	    !devargs_get(cfg->args, "socket", path, sizeof(path)) || (slash = strrchr(path, '/')) == NULL)
		return false;
	slash[slash == path] = '\0';
	if (access(path, W_OK | X_OK) == 0)
		return false;
	snprintf(why, len, "the folder %s of its socket: %s", path, strerror(errno));
	return true;
}

static bool pci(const struct rnicd_port_cfg *cfg, char *why, size_t len)
{
	int n = (int)strcspn(cfg->args, ",");
	char path[RNICD_ARGS_MAX + 64], to[256];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.*s", n, cfg->args);
	if (access(path, F_OK) != 0) {
		snprintf(why, len, "there is no PCI device %.*s (lspci -D shows them)", n, cfg->args);
		return true;
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.*s/driver", n, cfg->args);
	ssize_t k = readlink(path, to, sizeof(to) - 1);
	to[k > 0 ? k : 0] = '\0';
	const char *driver = strrchr(to, '/') != NULL ? strrchr(to, '/') + 1 : "";
	if (strncmp(driver, "vfio", 4) == 0 || strncmp(driver, "uio", 3) == 0 || strncmp(driver, "igb_uio", 7) == 0)
		return false;
	snprintf(why, len, "%s%s has it (dpdk-devbind.py -b vfio-pci %.*s)",
		 driver[0] != '\0' ? "the kernel's driver " : "no driver", driver, n, cfg->args);
	return true;
}

void port_cause(const struct rnicd_port_cfg *cfg, int rc, char *why, size_t len)
{
	bool found = false;

	switch (cfg->kind) {
	case RNICD_PORT_TAP: found = tap(cfg, why, len); break;
	case RNICD_PORT_HOST:
	case RNICD_PORT_AF_PACKET: found = af_packet(cfg, why, len); break;
	case RNICD_PORT_MEMIF: found = memif(cfg, why, len); break;
	case RNICD_PORT_PCI: found = pci(cfg, why, len); break;
	case RNICD_PORT_PAIR:
	case RNICD_PORT_PCAP:
	case RNICD_PORT_PATHS:
	case RNICD_PORT_KINDS: break;
	}
	/* drivers return a plain -1 for any failure, which reads as -EPERM */
	if (!found)
		snprintf(why, len, "%s",
			 rc == 0        ? "it is not an Ethernet device"
			 : rc == -EPERM ? "its driver refuses it (log-level = debug tells more)"
					: strerror(-rc));
}
