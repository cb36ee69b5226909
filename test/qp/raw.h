/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One device, and one raw peer whose bytes are the test's: tests send good and bad FPDUs and check the answers. One
 * bench at a time. The raw side is number 0 as initiator, 1 as responder; the device is the other one.
 */
#ifndef RAW_H
#define RAW_H

#include "iwarp/ddp.h"
#include "iwarp/rdmap_wire.h"
#include "rig.h"

struct bench {
	struct rig *r;
	int raw, dev;
	uint32_t rx_at; /* bytes of the device's stream that have been checked */
	struct mpa_rx rx;
	uint8_t stage[MPA_STAGE_SIZE];
	uint32_t ro, other_pd, stale, small; /* STags with which tests make errors */
};

#define SMALL_LEN 4096u /* bytes of each of these regions */

extern struct bench B;
extern uint8_t junk[60000];

void open_bench(int raw_id, const struct rig_cfg *with); /* with NULL: the defaults */
void close_bench(void);
struct rig_node *dev(void);
struct rig_raw *raw(void);
uint64_t iova(uint32_t off); /* tagged offset of the device's memory */
bool untouched(void);        /* no byte of the device's memory has been written */

struct mpa_policy raw_policy(void);
void raw_up(void);                            /* raw side as initiator: up to Full Operation */
void raw_reply(const struct mpa_policy *p);   /* raw side as responder: answers the device's Request */
void raw_respond(const struct mpa_policy *p); /* the same, and the device handles the Reply */

void send_bytes(const void *p, uint32_t n);
void send_ulpdu(const uint8_t *ulpdu, uint32_t len, bool flip); /* flip: with a wrong CRC */
void send_ddp(const struct ddp_hdr *h, const void *payload, uint32_t len);
void send_write(uint32_t stag, uint64_t to, uint32_t len, bool last);
void send_send(uint32_t msn, uint32_t mo, uint32_t len, bool last);
void send_read(uint32_t msn, uint32_t stag, uint64_t to, uint32_t len);
void send_terminate(struct iw_err e, const struct ddp_hdr *seg, const struct rdmap_read_req *q);

bool next_fpdu(struct ddp_hdr *h, uint8_t *payload, uint32_t *len); /* the device's next FPDU; false: none */
void expect_terminate(enum iw_layer layer, uint8_t etype, uint8_t code);

#endif
