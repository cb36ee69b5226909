/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/addr_text.h"

#include <arpa/inet.h>
#include <string.h>

#include "pkt/pkt.h"

const char *addr_text(const uint8_t ip[16], char *buf, size_t len)
{
	struct pkt_addr a;

	memcpy(a.b, ip, sizeof(a.b));
	if (pkt_addr_is_ip4(&a))
		return inet_ntop(AF_INET, ip + 12, buf, (socklen_t)len);
	return inet_ntop(AF_INET6, ip, buf, (socklen_t)len);
}
