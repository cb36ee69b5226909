/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of types that standard verbs do not have: datagrams of more than one packet, reliable datagrams. Also
 * queue pairs of a standard type that choose their design. Everything else about these queue pairs is standard:
 * ibv_modify_qp(), ibv_post_send(), ibv_wr_*, ibv_poll_cq(), address handles. Safe from any thread.
 *
 * RDMA Write-Record (doc/datagram-iwarp.md): ibv_wr_rdma_write() and ibv_wr_rdma_write_imm() with ibv_wr_set_ud_addr()
 * on a queue pair of RNICDV_QPT_UD. A record has 1 to max_ud_msg bytes. The target's memory needs
 * IBV_ACCESS_REMOTE_WRITE and the protection domain of the target's queue pair. No receive is consumed. Each segment is
 * written when it arrives, even if others are lost. Completions of opcode IBV_WC_DRIVER1 in the target's receive CQ say
 * which bytes are valid: one completion as soon as all bytes have arrived, or one for each valid range when
 * `record-timeout` has passed since the last segment. The contents of bytes that no completion names are undefined. A
 * record of which no segment arrives has no completion. Completions of records take at most half of a CQ; a completion
 * that finds no room there waits until there is room.
 *
 * A completion of IBV_WC_DRIVER1 in ibv_poll_cq(): wr_id is the address of the first valid byte as the sender named it,
 * byte_len the number of valid bytes from there on, src_qp the sender's QPN; wc_flags has RNICDV_WC_RECORD_* and
 * IBV_WC_WITH_IMM. Programs that use ibv_start_poll() call rnicdv_wc_read_record().
 *
 * A queue pair with RNICDV_QP_ATTR_MAPS gets one completion for an incomplete record instead, whatever the number of
 * valid ranges. This completion has RNICDV_WC_RECORD_MAP: wr_id is the address of the record's first byte, byte_len the
 * number of valid bytes of the record. rnicdv_read_map() says which bytes are valid.
 *
 * RDMA Read-Record: ibv_wr_rdma_read() with ibv_wr_set_ud_addr() and one SGE. The memory that is read needs
 * IBV_ACCESS_REMOTE_READ, and the reader's own memory IBV_ACCESS_REMOTE_WRITE, because the peer answers with a
 * Write-Record. The work request completes when the request is sent. The answer's completions come to the reader's
 * receive CQ, as those of any record. When the request or the answer is lost, no completion comes: use the time-out of
 * rnicdv_poll_cq().
 *
 * Unless said otherwise, functions that return an int return 0 or an errno. EOPNOTSUPP: the device is another vendor's.
 */
#ifndef RNIC_RNICDV_H
#define RNIC_RNICDV_H

#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rnicdv_qp_type {
	/* The standard type that attr->qp_type names, as ibv_create_qp_ex() makes it. Used to choose the `design`. */
	RNICDV_QPT_VERBS = 0,
	/*
	 * Unreliable datagrams with Sends of any size up to max_ud_msg. A message longer than one packet is sent as
	 * segments, each with its own header and CRC (doc/datagram-iwarp.md). Segments may arrive in any order. One
	 * receive takes the whole message behind 40 bytes of GRH, as with IBV_QPT_UD. The receive completes when the
	 * last missing segment has arrived, so receives may complete in another order than they were posted in. When a
	 * segment is lost, its message is dropped after rnicd's `record-timeout` and counted as ud_incomplete; the
	 * receive is used again for a later message.
	 *
	 * Everything else is as with IBV_QPT_UD, which is qp_type: states, Q_Key, groups. The two kinds exchange
	 * messages of one packet with each other.
	 */
	RNICDV_QPT_UD = 1,
	/*
	 * Reliable datagrams: each work request names its peer, and messages to one peer arrive once and in order (in
	 * any order: RNICDV_QP_UNORDERED). ibv_post_send() with wr.ud posts Sends; ibv_wr_*() with ibv_wr_set_ud_addr()
	 * post Sends, Writes, Reads and Atomics of any size. States and Q_Key are as with IBV_QPT_UD, which is qp_type.
	 * Receive completions have src_qp, but receives have no GRH. There are no multicast groups.
	 *
	 * A work request completes with IBV_WC_SUCCESS when the peer has its bytes. After IBV_WC_RETRY_EXC_ERR or
	 * another error the bytes have arrived once, or never, or in part. An error flushes the work requests for the
	 * same peer that were posted before the error was known; work requests for other peers, and later ones, go on
	 * (unless RNICDV_QP_STRICT is set).
	 *
	 * A message that finds no receive waits for one, unless the receiver's rnicd forbids that by `rnr`. The
	 * sender's IBV_QP_RNR_RETRY says how often the message waits (0 to 6; 7, the default: until there is a
	 * receive). The receiver's IBV_QP_MIN_RNR_TIMER says how long each wait lasts, at least 100 ms. After the last
	 * wait the work request completes with IBV_WC_RNR_RETRY_EXC_ERR.
	 */
	RNICDV_QPT_RD = 2
};

enum {
	RNICDV_QP_ATTR_FLAGS = 1 << 0,   /* in comp_mask: flags is set */
	RNICDV_QP_ATTR_DESIGN = 1 << 1,  /* design is set */
	RNICDV_QP_ATTR_MAPS = 1 << 2,    /* maps is set */
	RNICDV_QP_ATTR_UDP_PORT = 1 << 3 /* udp_port is set */
};

/*
 * Where the iWARP of a queue pair runs. RNIC_DESIGN or rnicrun --design gives a process one of these designs, and its
 * queue pairs have the design of the process. In a process of design host or assisted, a queue pair of IBV_QPT_RC or
 * IBV_QPT_UC may choose either of these two. The wire is the same for all designs, and the peer may have another one.
 */
enum rnicdv_design {
	RNICDV_DESIGN_OFFLOADED = 1, /* in rnicd */
	RNICDV_DESIGN_ASSISTED = 2,  /* in the program; rnicd runs TCP and computes the CRCs */
	RNICDV_DESIGN_HOST = 3,      /* in the program; rnicd runs TCP */
	RNICDV_DESIGN_EMBEDDED = 4   /* in the program, over the kernel's TCP */
};

enum {
	/*
	 * RNICDV_QPT_RD: no work request waits for another one, not even for one to the same peer. A lost packet delays
	 * only its own message. Messages may arrive, be carried out and complete in any order: only a Write's own
	 * completion says that the peer sees the Write's bytes, a later Send does not. IBV_SEND_FENCE keeps its
	 * meaning. An unordered and an ordered queue pair can talk to each other: the flag of a queue pair is about the
	 * messages that this queue pair sends.
	 */
	RNICDV_QP_UNORDERED = 1 << 0,
	/*
	 * RNICDV_QPT_RD: the first work request that fails, to any peer, takes the queue pair to ERR, which flushes all
	 * posted work requests. Without the flag the queue pair goes on.
	 */
	RNICDV_QP_STRICT = 1 << 1
};

struct rnicdv_qp_attr {
	uint32_t comp_mask; /* RNICDV_QP_ATTR_* */
	uint32_t type;      /* enum rnicdv_qp_type */
	uint32_t flags;     /* RNICDV_QP_* */
	uint32_t design;    /* enum rnicdv_design; 0: the design of the process */
	/*
	 * RNICDV_QPT_UD: the number of maps of incomplete records that may wait for rnicdv_read_map(), RNICDV_MAPS_MAX
	 * at most; rounded up to a power of two. The completion of a further record waits until a map has been read. 0:
	 * each valid range has a completion, and there are no maps.
	 */
	uint32_t maps;
	/*
	 * RNICDV_QPT_UD: a UDP port of the queue pair's own, 1 to 65535, in place of the device's datagram-port, which
	 * all other queue pairs share. 0: none. The queue pair's QPN is RNICDV_QPN_OF_PORT(udp_port): a peer that knows
	 * the port knows the QPN, so the two ends need to exchange nothing before the first message. If the sender of a
	 * message has a UDP port of its own, src_qp of the completion is the QPN of that port.
	 *
	 * errno: EADDRINUSE: a queue pair or a datagram socket of the device has the port; EACCES: the port is
	 * datagram-port, or below 1024 and the user is not root; ENOBUFS: the user's share of such ports is used up
	 * (user-share); EOPNOTSUPP: the device has personality efa. In a program with design embedded the port is one
	 * of the host's: EADDRINUSE: any socket of the host has it at the device's address; EMFILE: the process has no
	 * file descriptor left.
	 */
	uint16_t udp_port;
};
#define RNICDV_MAPS_MAX          4096
#define RNICDV_QPN_OF_PORT(port) (0xfd0000u | (uint16_t)(port))
#define RNICDV_QPN_HAS_PORT(qpn) ((qpn) >> 16 == 0xfdu) /* the UDP port is in the low 16 bits */

/*
 * As ibv_create_qp_ex(); attr->qp_type is IBV_QPT_UD unless type is RNICDV_QPT_VERBS. ibv_destroy_qp() ends the queue
 * pair, and a message of which only a part has been sent. A program that wants rdma_cm to connect the queue pair takes
 * it to INIT by ibv_modify_qp(), and then sets id->qp.
 *
 * On failure NULL and errno: EINVAL; ENOMEM; EOPNOTSUPP: another type, unknown bits in a comp_mask or in flags, a
 * design that the process cannot have beside its own (a line on stderr names the latter), a device without such queue
 * pairs, or another vendor's device.
 */
struct ibv_qp *rnicdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				const struct rnicdv_qp_attr *dv);

struct rnicdv_device_attr {
	uint32_t comp_mask; /* 0 */
	/* maximum size of a Send or Write-Record of RNICDV_QPT_UD, bytes; 0: the device has no datagrams */
	uint32_t max_ud_msg;
};

/* In wc_flags of an IBV_WC_DRIVER1 completion. */
enum {
	RNICDV_WC_RECORD_MAP = 1 << 5, /* the record is incomplete, and rnicdv_read_map() says which bytes are valid */
	RNICDV_WC_RECORD_WHOLE = 1 << 6, /* the record is whole, and this range is all of it */
	RNICDV_WC_RECORD_MORE = 1 << 7   /* more ranges of the same record follow, in ascending order */
};

/* A range of valid bytes. */
struct rnicdv_record {
	uint64_t addr;   /* of the first byte, as the sender named it */
	uint32_t length; /* bytes */
	uint32_t flags;  /* RNICDV_WC_RECORD_* */
};

/*
 * Which bytes of a record are valid. Segment i begins at byte i * unit and has `unit` bytes, or the rest of the record.
 * The segment is valid if bit i % 64 of segment[i / 64] is 1.
 */
#define RNICDV_MAP_SEGMENTS 1024
struct rnicdv_map {
	uint64_t addr;   /* of the record's first byte, as the sender named it */
	uint32_t length; /* bytes of the record */
	uint32_t unit;   /* bytes of a segment */
	uint32_t valid;  /* number of valid bytes of the record */
	uint32_t src_qp; /* of the sender */
	uint64_t segment[RNICDV_MAP_SEGMENTS / 64];
};

/*
 * Reads the next map of a queue pair with RNICDV_QP_ATTR_MAPS. Each completion with RNICDV_WC_RECORD_MAP has one map,
 * and the maps come in the order of the completions: call this function once after each such completion has been
 * polled. ENOENT: no map waits.
 */
int rnicdv_read_map(struct ibv_qp *qp, struct rnicdv_map *map);

/*
 * Reads the current completion, between ibv_start_poll() and ibv_end_poll(). EINVAL: its opcode is not IBV_WC_DRIVER1.
 */
int rnicdv_wc_read_record(struct ibv_cq_ex *cq, struct rnicdv_record *record);

/*
 * As ibv_poll_cq(), but waits up to timeout_us microseconds for the first completion; -1: without end, 0: not at all.
 * A message that is lost on the way to a datagram queue pair never completes, so a wait for a message needs a time-out.
 * During the wait other threads may have the CPU. Returns the number of completions in wc, 0 when the time is over, or
 * -1 as ibv_poll_cq() does.
 */
int rnicdv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc, int64_t timeout_us);

/*
 * Binds a multicast group's tag to memory of this queue pair: RDMA Write-Records to the group that name the tag arrive
 * there. The queue pair is of RNICDV_QPT_UD and attached to the group by ibv_attach_mcast(). The writer names the
 * group's address handle and QPN 0xffffff, gives `tag` as rkey, and a remote address of which 0 stands for `addr` here.
 * Each member binds memory of its own: `length` bytes of `mr`, at most 2^32 - 1, with IBV_ACCESS_REMOTE_WRITE.
 * Completions name addresses in this memory. A queue pair has at most 16 tags. Binding a tag again replaces its memory.
 * With mr NULL, or once mr has been deregistered, the tag is bound to nothing.
 *
 * EINVAL: `group` is no multicast group, the queue pair is of another type, the memory lacks the right or is out of
 * bounds, or mr is NULL and the tag was not bound. ENOMEM: the queue pair has 16 tags.
 */
int rnicdv_group_bind(struct ibv_qp *qp, const union ibv_gid *group, uint32_t tag, struct ibv_mr *mr, void *addr,
		      uint64_t length);

int rnicdv_query_device(struct ibv_context *context, struct rnicdv_device_attr *attr);

/*
 * An RDMA connection over a TCP socket that is connected already. Both ends have agreed at which byte of the stream MPA
 * begins (RFC 5044, 7.1): all bytes that the program has written are sent before MPA, and the first byte that the
 * program has not read belongs to MPA. id is a new id of RDMA_PS_TCP.
 *
 * The end that sends the MPA Request (by the standard the one that has called connect()) calls rnicdv_resolve_socket(),
 * which gives id its device and route, then rdma_create_qp() and rdma_connect(). The other end calls
 * rnicdv_await_socket(). When the peer's Request has come, the event CONNECT_REQUEST names id itself; rdma_accept()
 * (with a queue pair on id) or rdma_reject() answers. CONNECT_ERROR: no Request came within 10 s, or the peer has ended
 * the stream.
 *
 * After either call the program closes fd or leaves it alone: a read would take the connection's bytes. Returns 0, or
 * -1 and errno, and then the socket is unchanged: EOPNOTSUPP: the program's iWARP runs in rnicd (rnicrun without
 * --embedded or --design host); ENOTSOCK, ENOTCONN: fd is no connected TCP socket, or in design host none over rnicd;
 * EADDRNOTAVAIL: no device has the socket's address.
 */
struct rdma_cm_id;
int rnicdv_resolve_socket(struct rdma_cm_id *id, int fd);
int rnicdv_await_socket(struct rdma_cm_id *id, int fd);

#ifdef __cplusplus
}
#endif

#endif
