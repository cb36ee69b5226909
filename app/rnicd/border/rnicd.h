/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicd: the types that its two sides share. The plane (ports, workers, flows, neighbours, capture, impairment,
 * shaping) runs in worker threads. The control side (configuration, client sockets, connection manager, groups,
 * telemetry) runs in the control thread, which is the main thread. Neither side includes the other; both include the
 * border.
 *
 * Messages cross in two queues: commands go to the workers (cmd.h), events come from the workers (event.h). The next
 * table has everything else that both sides touch. "Control thread" means any thread that holds loop_lock.
 *
 *   object                            written by                                     read by
 *   struct rnicd_cfg                  control thread, before the start               all
 *   struct rnicd: ports, secret       the plane's start, before the workers          all
 *     .stalled[w]                     worker w; the control thread, which reads it   control thread
 *                                     and zeroes it: atomic
 *   struct rnicd_port                 the plane's start, before the workers          all
 *     .stats[w]                       worker w                                       all: whole values, perhaps old
 *     .shape_tat                      any worker, by compare-and-swap                any worker
 *   struct bell                       .sleeping: its worker. Descriptors: the start  all
 *   expected TCP ports (expect.h)     control thread                                 any worker
 *   struct worker_client              its worker, between CMD_CLIENT_ADD and _DEL    its worker
 *     .shares                         control thread                                 its worker
 *     .ext_taken                      its worker                                     control thread
 *     .ext_freed[n]                   thread n                                       control thread
 *   struct qp                         control thread until CMD_QP_CREATE, then the   the owner; control thread: state,
 *                                     worker that owns it; nobody while it moves     vendor_err, flushed (atomic)
 *   struct qp_cq                      ring[w]: worker w. Error and armed words: any  all workers
 *                                     worker, atomically
 *   struct qp_srq                     its ring: one worker at a time, under its      all workers
 *                                     lock. Limit: control thread and any worker, atomically
 *   STag table (struct qp_dev)        control thread: entries come and go. Binding   all workers
 *                                     and invalidating: any worker, by compare-and-swap of the entry's word
 *   doorbells (struct ipc_doorbell)   the client sets bits, the worker clears them   the worker: not trusted
 *   struct ud_qp, ud_member, ud_group the worker, between the commands that add and  the worker
 *                                     remove it
 *   struct rc                         its worker. The control thread stores the      the worker
 *                                     address, and a number (struct cmd_conn)
 */
#ifndef RNICD_H
#define RNICD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "ipc/ipc_shm.h"
#include "pkt/pkt_frag.h"

#define RNICD_MAX_PORTS 16u
#define RNICD_PATHS     8u  /* paths of one port at most: TCPL_PATHS */
#define RNICD_MAX_PATHS 16u /* paths of all ports at most */
#define RNICD_MAX_LINES (RNICD_MAX_PORTS + RNICD_MAX_PATHS)
#define RNICD_MTU_WIRE  9000u /* bytes: the largest MTU that Ethernet adapters and their peers take */
#define RNICD_MTU_MAX \
	65280u /* bytes: with headers and head room a frame fits one packet buffer, whose length has 16 bits */
#define RNICD_MAX_WORKERS IPC_MAX_WORKERS
#define RNICD_NAME_MAX    32u
#define RNICD_PATH_MAX    256u
#define RNICD_ARGS_MAX    256u
#define RNICD_IF_NAME_MAX 16u /* IFNAMSIZ */

/* ---- configuration ---- */

enum rnicd_port_kind {
	RNICD_PORT_PAIR,  /* in-process wire to another port of this daemon; args: that port's name */
	RNICD_PORT_MEMIF, /* shared memory to another daemon; args: DPDK's of net_memif, role=server,id=0,socket=PATH */
	RNICD_PORT_TAP,   /* a tap interface of the host's kernel, created by us; args: interface name */
	RNICD_PORT_AF_PACKET, /* an interface of the host's kernel; args: its name */
	RNICD_PORT_HOST,      /* the same by packet sockets of rnicd, with large segments; args: its name */
	RNICD_PORT_PCAP,      /* files; args: DPDK net_pcap arguments, e.g. rx_pcap=in.pcap,tx_pcap=out.pcap */
	RNICD_PORT_PCI,       /* a physical port; args: PCI address and DPDK arguments */
	RNICD_PORT_PATHS,     /* a port of several links, each of which is a line of its own after the ports */
	RNICD_PORT_KINDS
};

enum rnicd_congestion { RNICD_CUBIC, RNICD_NEWRENO, RNICD_BBR }; /* in the order of the key's words */

/* How a device shows itself; in the order of the key's words. The wire is the same. */
enum rnicd_personality { RNICD_IWARP, RNICD_ROCE, RNICD_EFA };

enum rnicd_peers { RNICD_PEERS_DAEMONS, RNICD_PEERS_ANY }; /* in the order of the key's words */

enum rnicd_segments { RNICD_SEGMENTS_MTU, RNICD_SEGMENTS_64K };    /* in the order of the key's words */
enum rnicd_sock_wire { RNICD_WIRE_PLAIN, RNICD_WIRE_IWARP };       /* in the order of the keys' words */
enum rnicd_designs { RNICD_DESIGNS_ANY, RNICD_DESIGNS_OFFLOADED }; /* in the order of the key's words */

/* Octets from one MPA marker to the next; in the order of the key's words. */
enum rnicd_spacing {
	RNICD_SPACING_512,
	RNICD_SPACING_1024,
	RNICD_SPACING_2048,
	RNICD_SPACING_4096,
	RNICD_SPACING_NONE
};

/* By which path of a port the next frame leaves; in the order of the key's words. */
enum rnicd_spread { RNICD_SPREAD_TURNS, RNICD_SPREAD_QUEUE, RNICD_SPREAD_FLOW };

/* What becomes of a TCP segment that arrives before an earlier one; in the order of the key's words. */
enum rnicd_ahead { RNICD_AHEAD_PLACE, RNICD_AHEAD_BUFFER, RNICD_AHEAD_DROP };

enum rnicd_rnr { RNICD_RNR_AUTO, RNICD_RNR_WAIT, RNICD_RNR_END }; /* in the order of the key's words */

/* What an emulated middlebox does to TCP segments; in the order of the key's words. */
enum rnicd_resegment { RNICD_RESEGMENT_OFF, RNICD_RESEGMENT_SPLIT, RNICD_RESEGMENT_MERGE, RNICD_RESEGMENT_RANDOM };

/* Network impairment after the transmit side of a port. Probabilities in units of 2^-32; 0: never. */
struct rnicd_impair_cfg {
	uint32_t loss;
	uint32_t duplicate;
	uint32_t corrupt;     /* one bit of the frame after its Ethernet header is inverted */
	uint32_t reorder;     /* the frame is held back until reorder_gap other frames have passed or 1 ms is over */
	uint32_t reorder_gap; /* frames, default 3 */
	uint64_t delay_ns;
	uint64_t jitter_ns; /* uniform in [0, jitter], added to the delay; order is kept */
	uint32_t limit;     /* frames that may be under way at once, default 4096; more are lost */
	uint64_t seed;      /* the same seed and traffic give the same losses */
	uint8_t resegment;  /* enum rnicd_resegment: applied before all other impairment */
};

struct rnicd_port_cfg {
	char name[RNICD_NAME_MAX]; /* the RDMA device's name: "rnic0" */
	enum rnicd_port_kind kind;
	char args[RNICD_ARGS_MAX];
	bool mac_set; /* false: the device's own MAC is used, or a locally administered one made from the name */
	uint8_t mac[PKT_MAC_LEN];
	struct pkt_addr ip;
	uint32_t prefix_len; /* of 128: IPv4 /24 is 120 */
	bool gateway_set;
	struct pkt_addr gateway;
	uint32_t mtu;      /* bytes of IP packet, 576..RNICD_MTU_MAX (IPv6: 1280..) */
	uint16_t vlan;     /* TCI or PKT_NO_VLAN */
	uint64_t rate_bps; /* line rate in bit/s, wire overhead included; 0: not shaped */
	struct rnicd_impair_cfg impair;
	char capture[RNICD_PATH_MAX]; /* pcapng file; empty: none */
	uint64_t capture_size;        /* bytes of the capture file and of the earlier capture file, at most */
	bool verify_csum;             /* check TCP and UDP checksums even if the port says that they are good */

	/* what connections of this device negotiate */
	bool crc;          /* ask for MPA CRC */
	bool crc_required; /* refuse a peer that declines CRC */
	bool crc_always;   /* compute and check CRCs even if frames do not leave the process */
	bool markers;      /* ask to receive markers */
	uint8_t spacing;   /* enum rnicd_spacing: of markers, both ways */
	uint8_t mpa_rev;   /* 1 or 2 as initiator */
	bool peer_to_peer; /* RFC 6581 peer-to-peer mode with an RTR message */
	uint8_t rtr;       /* MPA_RTR_*: the RTR messages to offer and to accept; 0: any */
	uint16_t qp_port;  /* TCP port where QPs without connection manager find each other (oob.h); 0: they cannot */
	uint8_t qp_peers;  /* enum rnicd_peers: which peers may connect to qp_port */
	uint16_t ud_port;  /* UDP port of datagram QPs (ud.h); 0: there are none */
	uint16_t max_ird, max_ord; /* RDMA Reads under way at once, inbound and outbound; also reported as the device's
			      * limits */
	uint8_t congestion;        /* enum rnicd_congestion */
	uint8_t ahead;             /* enum rnicd_ahead */
	uint64_t min_rto_ns;       /* 0: tcp_lite's default */
	uint64_t keepalive_ns;     /* idle time before a TCP keepalive probe is sent; 0: none is sent */
	uint64_t qp_keepalive_ns;  /* the same for connections without connection manager */
	bool pacing;               /* pacing: segments that cwnd allows are spread over the round trip */
	uint8_t personality;       /* enum rnicd_personality */
	uint8_t segments;          /* enum rnicd_segments: length of the segments that datagram queue pairs send */
	uint8_t gram_wire;         /* enum rnicd_sock_wire: the wire of datagram sockets whose program names none */
	uint8_t stream_wire;       /* the same for stream sockets that connect */
	uint8_t designs;           /* enum rnicd_designs: where iWARP of this device may run */
	uint8_t rnr;               /* enum rnicd_rnr: what happens to a message that finds no receive */
	uint8_t spread;            /* enum rnicd_spread, with kind PATHS */
	bool is_path;              /* a path of the port with the index `of`, whose name and addresses it has */
	uint8_t of;
};

/* Whether the device behaves as adapters of InfiniBand's kind do, and not as iWARP adapters do. */
static inline bool rnicd_adapter(const struct rnicd_port_cfg *cfg) { return cfg->personality != RNICD_IWARP; }

/* Whether a message that finds no receive posted waits for one; else the connection ends (RFC 5040, 5.4). */
static inline bool rnicd_rnr_waits(const struct rnicd_port_cfg *cfg)
{
	return cfg->rnr == RNICD_RNR_WAIT || (cfg->rnr == RNICD_RNR_AUTO && rnicd_adapter(cfg));
}

struct rnicd_cfg {
	struct rnicd_port_cfg port[RNICD_MAX_LINES]; /* first the ports, then the paths */
	uint32_t n_ports, n_paths;
	uint16_t lcore[RNICD_MAX_WORKERS]; /* CPU number of each worker */
	uint32_t n_workers;
	bool pin;             /* false: workers float (fewer CPUs than threads) */
	uint16_t control_cpu; /* CPU number of the control thread; UINT16_MAX: it floats */
	bool hugepages;       /* false: --no-huge */
	uint32_t memory_mb;   /* memory for packet buffers and tables */
	uint32_t fixed_mb;    /* estimated part of memory_mb for all except the ports' buffers and the workers' working
			       * memory */
	uint32_t work_mb;     /* part of memory_mb for each worker's connections at work, beside the worker's share of
			       * the free memory; 0: the share alone */
	uint32_t spin_us;     /* time that an idle worker spins before it sleeps; UINT32_MAX: never sleeps */
	uint32_t zcopy_min;   /* bytes: longer pieces of registered memory go out by reference; 0: 2048 */
	uint32_t flows;       /* connections per worker; 0: 4096 */
	bool stage_cycles;    /* workers count the cycles of each stage of their turn */
	bool own_by_port;     /* a connection to a port's own address goes through that port; false: through its wire */
	char socket[RNICD_PATH_MAX];
	uint32_t socket_mode;             /* permissions of the socket: who may use the RNIC */
	char file_prefix[RNICD_NAME_MAX]; /* DPDK's name of this process: its run-time directory and telemetry socket */
	uint32_t log_level;               /* 0 error, 1 warning, 2 info, 3 debug */
	uint64_t seed;                    /* ISNs, flow hash, STag keys; 0: from the system's random source */

	uint32_t user_share; /* percent of each shared resource that one user may have (user.h) */
	/* of all clients together, bytes; 0: by the memory of the host */
	uint64_t client_memory; /* memory that they share with rnicd */
	uint64_t object_memory; /* memory of rnicd for their objects */
	/* sizes of tables that all clients share */
	uint32_t clients;
	uint32_t listeners;
	uint32_t regions;   /* of each device: entries of its STag table */
	uint32_t groups;    /* of each device */
	uint32_t udp_ports; /* of each device: UDP ports that belong to one queue pair each */
	uint32_t xrc_domains;
	/* quotas of one client */
	uint64_t quota_memory; /* registered bytes */
	uint32_t quota_qps;
	uint32_t quota_cqs;
	uint32_t quota_mrs;
	uint64_t record_timeout_ns; /* time that an incomplete datagram message waits for its next segment */
	uint64_t record_linger_ns;  /* time for which the key of a message is remembered after the message's end */
	uint32_t rd_workers;        /* how many workers share a device's reliable datagrams, at most; 0: all */
	uint64_t rd_idle_ns; /* time after which a flow of reliable datagrams without packets is forgotten; 0: never */
	uint32_t quota_wrs;  /* slots of all send and receive queues of a client together */
};

/* ---- ports ---- */

struct rnicd_port_caps {
	bool multi_seg;  /* transmits chains; else frames are linearised */
	bool zero_copy;  /* a chain may point into a client's memory: the driver copies or never needs a bus address */
	bool tx_csum;    /* computes TCP and UDP checksums; else they are computed when the frame is built */
	bool rx_csum;    /* verifies received TCP and UDP checksums */
	bool rx_fd;      /* has a descriptor by which a sleeping worker can wait for packets */
	bool wire_mem;   /* a pair: frames stay in this process, so bytes cannot be damaged on the way */
	uint16_t queues; /* receive and transmit queues; worker w < queues owns queue w of each */
	uint32_t max_mtu;
};

/* Counters of one port and worker: only this worker writes them. Any thread reads whole values, which may be old. */
struct rnicd_port_stats {
	uint64_t rx_packets, rx_bytes;
	uint64_t tx_packets, tx_bytes; /* handed to the driver */
	uint64_t tx_drops;             /* the port took too long and the queue was full */
	uint64_t tx_data;              /* TCP segments that carried data, as often as they were sent */
	uint64_t tx_again;             /* TCP segments that carried bytes which had been sent before */
	uint64_t tx_copied;            /* TCP segments whose bytes were copied although they are long enough to be sent
				        * by reference */
	uint64_t rx_not_ours;          /* frames to another MAC, VLAN or IP address */
	uint64_t rx_bad[PKT_VERDICTS]; /* by verdict of pkt_parse; PKT_FRAGMENT: fragments that are not reassembled */
	uint64_t rx_bad_csum;
	uint64_t rx_no_flow;         /* TCP without connection or listener: answered by a reset */
	uint64_t rx_unanswered;      /* such segments not answered (rate limit); SYNs and last ACKs to a full backlog;
				      * embedded: connections closed for lack of room */
	uint64_t syn_cookies;        /* SYNs answered with a cookie: the listener's backlog was full */
	uint64_t syn_evicted;        /* connections without an MPA Request that were dropped to make room for newer
				      * ones */
	uint64_t no_request;         /* further connections that ended before the peer's MPA Request had come */
	uint64_t time_wait_overflow; /* connections and sockets whose TIME_WAIT was cut short for newer ones */
	uint64_t rx_other;           /* protocol not supported */
	uint64_t rx_moved;           /* frames handed to the worker that owns the flow */
	uint64_t rx_moved_drops;     /* frames dropped because the ring of this worker was full */
	uint64_t rx_no_room;         /* frames dropped because the control thread was behind */
	uint64_t no_buffer;          /* packet buffers that were needed when the pool was empty */
	uint64_t gram_rx, gram_tx;   /* datagrams of datagram sockets */
	uint64_t gram_full;          /* datagrams dropped because the socket's ring had no room */
	uint64_t gram_iwarp_rx, gram_iwarp_tx; /* datagrams of datagram sockets over the wire iwarp */
	uint64_t gram_slots_rx, gram_slots_tx; /* datagrams of datagram sockets that went as Write-Records */
	uint64_t gram_asked, gram_answered;    /* questions whether a peer accepts the wire iwarp, and their answers */
	uint64_t gram_refused;                 /* ICMP messages to senders: no socket has the UDP port */
	struct pkt_frag_counts frag;           /* of UDP fragments received */
	uint64_t frag_tx;                      /* fragments sent */
	uint64_t sums_rx, sums_tx;             /* FPDUs of design assisted: CRCs checked, CRCs filled in */
	uint64_t arp_rx, arp_tx, icmp_echo;
	uint64_t arp_failed;       /* neighbours that did not answer */
	uint64_t igmp_rx, igmp_tx; /* queries received, reports sent */
	uint64_t igmp_bad;         /* IGMP messages that were malformed, or came through a router */
	uint64_t impair_lost, impair_dup, impair_corrupt, impair_reorder, impair_overflow;
	uint64_t impair_split, impair_joined; /* TCP segments that were cut in two, or appended to another one */
	uint64_t capture_drops;
	uint64_t path_left; /* connections that left this path for others, since none of their segments arrived by it */
} RN_ALIGNED(RN_CACHE_LINE);

/* Which worker owns a connection of the port: flow_owner_of(). */
enum rnicd_owners {
	RNICD_OWNERS_HASH, /* flow_hash spreads connections over all workers */
	RNICD_OWNERS_RSS   /* the worker of the queue into which the device's RSS puts the connection's frames */
};

/*
 * Receive side scaling as the device does it: the lower bits of a Toeplitz hash of addresses and TCP ports choose an
 * entry of a table.
 */
#define RNICD_RSS_KEY_MAX   64u
#define RNICD_RSS_TABLE_MAX 512u
struct rnicd_rss {
	uint8_t key[RNICD_RSS_KEY_MAX];      /* 40 octets at least */
	uint32_t size;                       /* of table: a power of two */
	uint16_t table[RNICD_RSS_TABLE_MAX]; /* queue, which is the number of its worker */
};

/* Whether a port's line carries frames. Written by the control thread (control/link.c), read by everyone. */
enum rnicd_link {
	RNICD_LINK_UP,
	/* no carrier, no peer, or the interface is down: frames to send are dropped, and control/link.c waits */
	RNICD_LINK_DOWN,
	RNICD_LINK_GONE, /* there is no device: workers do not use the port, control/link.c tries to open it again */
};

struct rnicd_port {
	uint16_t index;  /* in rnicd.port[], the device number of ipc_query_dev */
	uint16_t ethdev; /* DPDK port id; control/link.c may change it while the link is GONE */
	uint32_t link;   /* enum rnicd_link: port_link(), port_set_link() */
	int socket;      /* NUMA node, or -1 */
	const struct rnicd_port_cfg *cfg;
	uint8_t mac[PKT_MAC_LEN];
	uint16_t mtu; /* as configured and accepted by the driver */
	struct rnicd_port_caps caps;
	enum rnicd_owners owners;
	bool crc_always;         /* as configured; of a PAIR: set if it is configured at either end */
	struct rnicd_port *peer; /* PAIR: the other end. PATHS: where the wires among them lead, or NULL; else NULL */
	struct rnicd_port *of;   /* a path's port, else NULL */
	uint32_t n_paths;        /* 0: the port has one line, its own */
	struct rnicd_port *path[RNICD_PATHS];
	struct rte_ring *const *wire; /* PAIR: [queue] the frames to this port; NULL: the ethdev receives */
	struct port_host *host;       /* HOST: its sockets, and there is no ethdev; else NULL */
	struct rte_mempool *pool;     /* linear buffers that hold a whole frame */
	int bell[RNICD_MAX_WORKERS];  /* AF_PACKET: socket that wakes the worker, port_wake.c; -1: none */
	void (*tap_look)(int signo);  /* TAP: the driver's signal handler, called before a read; NULL: not needed */
	int tap_signo;
	struct capture *capture;         /* NULL: not captured; port_capture(), control/reload.c */
	uint64_t *qp_ports;              /* port_has_qp(), control/udp_port.c: a bit for each UDP port; NULL: none */
	uint32_t if_index;               /* the host's interface behind the port; 0: there is none */
	char if_name[RNICD_IF_NAME_MAX]; /* the interface's name when the port was opened */
	struct rnicd_rss rss;            /* RNICD_OWNERS_RSS */
	uint64_t shape_tat
		RN_ALIGNED(RN_CACHE_LINE); /* shape.h: when the line is free again, ns; shared by the workers */
	struct rnicd_port_stats stats[RNICD_MAX_WORKERS];
};

/*
 * The capture of a port. A worker may use it until its next command: control/reload.c removes the capture, sends all
 * workers CMD_NOTHING, and ends the capture after their answers. acquire: pairs with the release in control/reload.c.
 */
static inline struct capture *port_capture(const struct rnicd_port *p)
{
	return __atomic_load_n(&p->capture, __ATOMIC_ACQUIRE);
}

/* relaxed: the control thread sends a command after a change that a worker must see */
static inline enum rnicd_link port_link(const struct rnicd_port *p)
{
	return (enum rnicd_link)__atomic_load_n(&p->link, __ATOMIC_RELAXED);
}
static inline void port_set_link(struct rnicd_port *p, enum rnicd_link link)
{
	__atomic_store_n(&p->link, (uint32_t)link, __ATOMIC_RELAXED);
}

/* Whether a queue pair of the device has this UDP port. acquire: pairs with the release that shows the bits. */
static inline bool port_has_qp(const struct rnicd_port *p, uint16_t udp_port)
{
	const uint64_t *bits = __atomic_load_n(&p->qp_ports, __ATOMIC_ACQUIRE);

	return bits != NULL && (__atomic_load_n(&bits[udp_port / 64], __ATOMIC_RELAXED) >> udp_port % 64 & 1) != 0;
}

/* ---- the daemon ---- */

struct handed_taker;

struct rnicd {
	struct rnicd_cfg cfg;
	uint32_t n_ports, n_paths;
	struct rnicd_port *port[RNICD_MAX_LINES]; /* devices, then the paths of those that have several */
	uint32_t n_workers;
	int control_fd;               /* eventfd, see event_prepare_sleep */
	uint32_t qpn_first, qpn_last; /* range of the QPNs of queue pairs that this process makes */
	uint8_t process;              /* embedded: index among the processes of the user that share addresses; else 0 */
	bool own;                     /* rnicd's code runs in the process of its only client (embedded.c) */
	uint32_t designs;             /* own: a bit for each enum ipc_design that its queue pairs may have */
	uint32_t setups;              /* connections that a worker has memory to set up at once; constant after start */
	const struct handed_taker *taker;    /* handed.h; NULL: sockets cannot be taken over. Constant after start */
	uint64_t stalled[RNICD_MAX_WORKERS]; /* ns: longest recent time that the worker was not scheduled, 0: none
					      * (why.c) */
	uint64_t secret[4];                  /* random from cfg.seed: flow hash, ISN key; constant after start */
};
extern struct rnicd rnicd;

/* The number of elements of rnicd.port[]: ports and paths. */
static inline uint32_t rnicd_lines(void) { return rnicd.n_ports + rnicd.n_paths; }

/*
 * Bytes of the daemon's memory beside its fixed part and the workers' work_mb. Half of them are for the ports' buffers,
 * a quarter is for the workers' working memory.
 */
static inline uint64_t rnicd_free_memory(void)
{
	uint64_t all = rnicd.cfg.memory_mb, fixed = rn_min_u64(rnicd.cfg.fixed_mb, all / 4);

	return (all - fixed - (uint64_t)rnicd.cfg.work_mb * rnicd.cfg.n_workers) << 20;
}

/* Nanoseconds of CLOCK_MONOTONIC; the only clock of the daemon. */
uint64_t rnicd_now(void);

/*
 * Writes one line to stderr and to the list of recent events. Levels as in rnicd_cfg.log_level. Lines other than errors
 * are dropped if too many come at once.
 */
enum rnicd_log_level { RNICD_LOG_ERROR, RNICD_LOG_WARNING, RNICD_LOG_INFO, RNICD_LOG_DEBUG };
void rnicd_log(enum rnicd_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
