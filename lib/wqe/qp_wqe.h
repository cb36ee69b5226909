/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client and the daemon's engine share: the entries of queues as they lie in shared memory, that is send and
 * receive work requests (WQEs) and completions (CQEs); access rights of memory; the states of a queue pair. librnic
 * writes WQEs and reads CQEs; lib/qp the other way round. Rings are ring/spsc.h rings of QP_SLOT_SIZE-byte (WQE) and
 * QP_CQE_SIZE-byte (CQE) slots.
 *
 * Trust: the client can change a WQE at any time. lib/qp copies each WQE once, checks the copy and uses only the copy.
 * Integers are in host order: both sides run on one machine.
 */
#ifndef QP_WQE_H
#define QP_WQE_H

#include <stdint.h>

#include "base/rn_base.h"

#define QP_SLOT_SIZE  64
#define QP_CQE_SIZE   32
#define QP_CQE_WIDE   64                   /* with the sender's address behind it */
#define QP_MAX_SGE    30                   /* SGEs of a work request, send or receive */
#define QP_MAX_INLINE 480                  /* inline bytes of a work request */
#define QP_MSG_MAX    UINT32_C(0x80000000) /* bytes of one message */

/*
 * Operation of a send WQE. SOLICITED in flags turns Send into Send with Solicited Event (RFC 5040, 5.1). Operations
 * after READ in this list are no plain message, or send nothing.
 */
enum qp_wr_op {
	QP_WR_SEND = 0,
	QP_WR_SEND_INV, /* aux = STag to invalidate at the peer */
	QP_WR_WRITE,
	QP_WR_READ,
	QP_WR_SEND_IMM,  /* aux = immediate data, its 4 bytes as they go on the wire */
	QP_WR_WRITE_IMM, /* the same */
	QP_WR_CMP_SWAP,  /* one SGE of 8 bytes: the value found there; w.atomic */
	QP_WR_FETCH_ADD,
	QP_WR_LOCAL_INV, /* aux = STag */
	QP_WR_BIND_MW,   /* w.bind */
	QP_WR_OPS
};

enum {
	QP_WF_SIGNALED = 1 << 0,
	QP_WF_FENCE = 1 << 1, /* starts after all earlier Reads and Atomics of this QP have completed */
	QP_WF_SOLICITED = 1 << 2,
	QP_WF_INLINE = 1 << 3, /* payload bytes follow the fixed part instead of SGEs */
};

struct qp_sge {
	uint64_t addr; /* tagged offset in the MR of lkey: the client's virtual address */
	uint32_t len;  /* bytes */
	uint32_t lkey;
};

/*
 * Send WQE: a 32-byte fixed part, then num_sge SGEs (or inline_len bytes), in as many consecutive slots as are needed
 * (the ring wraps slot-wise). A work request with two SGEs or 32 inline bytes fits one slot. In a WQE of a datagram
 * queue pair the receiver's address stands between the fixed part and the SGEs, so one SGE or 16 inline bytes fit one
 * slot. In a datagram queue pair's Write the remote tagged offset stands there too.
 */
struct qp_wqe {
	uint64_t wr_id;
	uint8_t op;    /* enum qp_wr_op */
	uint8_t flags; /* QP_WF_* */
	uint8_t num_sge;
	uint8_t slots;       /* slots that this WQE takes: qp_wqe_slots() */
	uint16_t inline_len; /* bytes, with QP_WF_INLINE */
	union {
		struct {
			uint8_t hop_limit; /* of a datagram to a group: hop limit of its packets; 0: 1 */
			uint8_t rsv;
		};
		uint16_t srqn; /* of an XRC initiator: the peer's shared receive queue that takes the message */
	};
	union {
		/* Write, Read, Atomic: remote tagged offset; bind: the window's first byte, as in its MR */
		uint64_t raddr;
		struct {
			uint32_t qpn,
				qkey; /* of the receiver; with QP_QKEY_OWN the Q_Key is the sending queue pair's own */
		} ud;
	};
	uint32_t rkey; /* Write, Read, Atomic: remote STag; bind: the window's STag from now on */
	uint32_t aux;  /* as said at enum qp_wr_op; bind: lkey of the MR */
	union {
		struct qp_sge sge[2];
		struct {
			struct qp_sge result;
			uint64_t operand; /* to add, or to compare with */
			uint64_t swap;
		} atomic;
		struct {
			uint64_t len;    /* bytes; 0 unbinds a window of type 1 */
			uint32_t access; /* QP_ACC_REMOTE_*, QP_ACC_ZERO_BASED */
		} bind;
		struct {
			uint8_t addr[16]; /* of the receiver's device */
			struct qp_sge sge[1];
		} dgram;
		struct {
			uint8_t addr[16]; /* of the receiver's device */
			uint64_t raddr;   /* remote tagged offset */
			uint64_t rsv;
		} dgram_write; /* a datagram queue pair's Write: SGEs or inline data follow in the next slot */
	};
};
_Static_assert(sizeof(struct qp_wqe) == QP_SLOT_SIZE, "a plain send WQE fills one slot");
/* The last slot of a work request on a queue pair with many peers (qp_attr.many): the destination. */
struct qp_wqe_dest {
	uint8_t addr[16];   /* of the receiver's device */
	uint32_t qpn, qkey; /* of the receiver */
	uint8_t rsv[40];
};
_Static_assert(sizeof(struct qp_wqe_dest) == QP_SLOT_SIZE, "a destination fills one slot");
#define QP_WQE_FIXED    32
#define QP_UD_ADDR_LEN  16u
#define QP_UD_WRITE_LEN 32u /* bytes of struct dgram_write */
#define QP_QKEY_OWN     UINT32_C(0x80000000)

/* Receive WQE: a 16-byte fixed part, then the SGEs, running on through consecutive slots. */
struct qp_rwqe {
	uint64_t wr_id;
	uint8_t num_sge;
	uint8_t slots; /* qp_rwqe_slots() or more; the same for all receives of a shared queue */
	uint16_t rsv0;
	uint32_t rsv1;
	struct qp_sge sge[3];
};
_Static_assert(sizeof(struct qp_rwqe) == QP_SLOT_SIZE, "a plain receive WQE fills one slot");
#define QP_RWQE_FIXED 16

#define QP_WQE_MAX_SLOTS 9 /* (QP_WQE_FIXED + QP_UD_WRITE_LEN + QP_MAX_SGE * 16) / 64 rounded up; inline fits too */
_Static_assert(QP_WQE_FIXED + QP_UD_WRITE_LEN + QP_MAX_SGE * 16 <= QP_WQE_MAX_SLOTS * QP_SLOT_SIZE, "all SGEs fit");
_Static_assert(QP_WQE_FIXED + QP_UD_WRITE_LEN + QP_MAX_INLINE <= QP_WQE_MAX_SLOTS * QP_SLOT_SIZE,
	       "all inline bytes fit");
_Static_assert(QP_WQE_FIXED + QP_MAX_SGE * 16 <= (QP_WQE_MAX_SLOTS - 1) * QP_SLOT_SIZE, "a destination fits behind");

/* Slots of a WQE with `bytes` bytes of SGEs or inline data, a receiver's address before them included. */
static inline uint32_t qp_wqe_slots(uint32_t bytes) { return (QP_WQE_FIXED + bytes + QP_SLOT_SIZE - 1) / QP_SLOT_SIZE; }
static inline uint32_t qp_rwqe_slots(uint32_t num_sge)
{
	return (QP_RWQE_FIXED + num_sge * (uint32_t)sizeof(struct qp_sge) + QP_SLOT_SIZE - 1) / QP_SLOT_SIZE;
}

/* Access rights, with the numbers of ibv_access_flags. Local read is always allowed. */
enum {
	QP_ACC_LOCAL_WRITE = 1,
	QP_ACC_REMOTE_WRITE = 2,
	QP_ACC_REMOTE_READ = 4,
	QP_ACC_REMOTE_ATOMIC = 8,
	QP_ACC_MW_BIND = 16, /* windows may be bound to the region */
	QP_ACC_ALL = 31,
	QP_ACC_REMOTE = QP_ACC_REMOTE_WRITE | QP_ACC_REMOTE_READ | QP_ACC_REMOTE_ATOMIC,
	QP_ACC_ZERO_BASED = 32 /* of a window: its tagged offsets begin at 0 */
};

/* Completion status and opcode: numbers equal to ibv_wc_status and ibv_wc_opcode, so that librnic copies them. */
enum qp_wc_status {
	QP_WC_SUCCESS = 0,
	QP_WC_LOC_LEN_ERR = 1,
	QP_WC_LOC_QP_OP_ERR = 2,
	QP_WC_LOC_PROT_ERR = 4,
	QP_WC_WR_FLUSH_ERR = 5,
	QP_WC_MW_BIND_ERR = 6, /* also a local invalidation that failed */
	QP_WC_BAD_RESP_ERR = 7,
	QP_WC_LOC_ACCESS_ERR = 8,
	QP_WC_REM_INV_REQ_ERR = 9,
	QP_WC_REM_ACCESS_ERR = 10,
	QP_WC_REM_OP_ERR = 11,
	QP_WC_RETRY_EXC_ERR = 12,
	QP_WC_RNR_RETRY_EXC_ERR = 13,
	QP_WC_FATAL_ERR = 18,
	QP_WC_GENERAL_ERR = 21
};

enum qp_wc_op {
	QP_WC_SEND = 0,
	QP_WC_RDMA_WRITE = 1,
	QP_WC_RDMA_READ = 2,
	QP_WC_COMP_SWAP = 3,
	QP_WC_FETCH_ADD = 4,
	QP_WC_BIND_MW = 5,
	QP_WC_LOCAL_INV = 6,
	QP_WC_RECV = 128,
	QP_WC_RECV_RDMA_WITH_IMM = 129,
	QP_WC_RECORD = 135 /* IBV_WC_DRIVER1: octets of an RDMA Write-Record that are valid here */
};

/* Numbers of ibv_wc_flags. */
enum {
	QP_WCF_GRH = 1 << 0, /* of a datagram: the 40 bytes of its GRH lie before the message, and count in byte_len */
	QP_WCF_WITH_IMM = 1 << 1, /* aux = the 4 bytes as they came from the wire */
	QP_WCF_WITH_INV = 1 << 3, /* aux = the STag that was invalidated */
	/* of QP_WC_RECORD, as in <rnic/rnicdv.h>; no numbers of ibv_wc_flags that other completions have */
	QP_WCF_RECORD_MAP = 1 << 5,   /* an entry of the queue pair's ring of maps says which octets are valid */
	QP_WCF_RECORD_WHOLE = 1 << 6, /* the record is whole, and this range is all of it */
	QP_WCF_RECORD_MORE = 1 << 7   /* more ranges of the same record follow */
};

struct qp_cqe {
	uint64_t wr_id; /* QP_WC_RECORD: the tagged offset of the first valid octet; with a map of the record's first */
	uint32_t qpn;
	/* receive and Read completions; of an immediate behind a Write: of the Write; with a map: all valid octets */
	uint32_t byte_len;
	uint32_t aux;
	uint8_t op;        /* enum qp_wc_op */
	uint8_t status;    /* enum qp_wc_status */
	uint8_t flags;     /* QP_WCF_* */
	uint8_t solicited; /* 1: the message was a Send with Solicited Event, or the completion is an error */
	union {
		uint32_t vendor_err; /* Terminate layer<<16 | etype<<8 | code that caused it, or 0 */
		uint32_t src_qp;     /* of a received datagram, reliable or not: the sender's QPN */
	};
	uint32_t when; /* when the CQE was written: low half of ns of CLOCK_MONOTONIC, the daemon's clock */
};
_Static_assert(sizeof(struct qp_cqe) == QP_CQE_SIZE, "two completions a cache line");

/* An entry of a completion queue that also tells the sender's address. */
struct qp_cqe_wide {
	struct qp_cqe e;
	uint8_t from[QP_UD_ADDR_LEN]; /* of a received datagram: the sender's device; else 0 */
	uint8_t rsv[16];
};
_Static_assert(sizeof(struct qp_cqe_wide) == QP_CQE_WIDE, "one completion a cache line");

/*
 * Which octets of an RDMA Write-Record that has ended incomplete are valid: an entry of the ring that a queue pair may
 * have for these, in the order of its completions with QP_WCF_RECORD_MAP. The daemon writes, the client reads.
 */
#define QP_MAP_SIZE 256
#define QP_MAP_SEGS 1024u
#define QP_MAPS_MAX 4096u /* entries of a ring */
struct qp_record_map {
	uint64_t to;                    /* tagged offset of the record's first octet */
	uint32_t unit;                  /* octets that a bit stands for; the last bit for what is left of the total */
	uint32_t total;                 /* octets of the record */
	uint32_t valid;                 /* valid octets of the record */
	uint32_t src_qp;                /* the sender's QPN */
	uint64_t seg[QP_MAP_SEGS / 64]; /* bit i % 64 of seg[i / 64] is set: the octets from i * unit on are valid */
	uint8_t rsv[QP_MAP_SIZE - 24 - QP_MAP_SEGS / 8];
};
_Static_assert(sizeof(struct qp_record_map) == QP_MAP_SIZE, "an entry of the ring");

/*
 * One completion queue in shared memory: a control block and one spsc ring per worker (each worker is the only
 * producer of its ring, the client the only consumer of all of them), `ring_stride` bytes from one ring to the next.
 */
struct qp_cq_shm {
	/* Written by the client (ibv_req_notify_cq); the worker that raises the event takes it by atomic exchange. */
	uint32_t armed RN_ALIGNED(RN_CACHE_LINE); /* enum qp_cq_arm */
	/* Written by the daemon. */
	uint32_t error RN_ALIGNED(RN_CACHE_LINE); /* 1: overrun, the CQ takes no more entries */
};

enum qp_cq_arm { QP_CQ_UNARMED = 0, QP_CQ_ARM_SOLICITED = 1, QP_CQ_ARM_ANY = 2 };

/* Numbers of ibv_qp_state. One writer: qp_set_state of lib/qp. */
enum qp_state {
	QP_S_RESET = 0, /* nothing may be posted; ibv_modify_qp moves it on */
	QP_S_INIT = 1,  /* receives may be posted; attaching to a connection or ibv_modify_qp moves it on */
	QP_S_RTR = 2,   /* as INIT; posts are kept until a connection is attached */
	QP_S_RTS = 3,   /* works while a connection is attached; error, close or ibv_modify_qp moves it on */
	/*
	 * With a CM: the local side asked for a graceful end; all posted work is sent, then FIN. Without a CM: no new
	 * send work is begun until ibv_modify_qp to RTS.
	 */
	QP_S_SQD = 4,
	QP_S_ERR = 6 /* all posted and later posted work is flushed; ibv_modify_qp to RESET moves it on */
};

/* State of a QP, which the daemon tells the client without being asked (the daemon writes, the client reads). */
struct qp_shm {
	uint32_t state RN_ALIGNED(RN_CACHE_LINE); /* enum qp_state */
	uint32_t worker;                          /* the worker whose doorbell bitmap the client rings */
};

#endif
