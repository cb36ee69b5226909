/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of every kind as the source and the target of RDMA, over a real daemon: both ends in one process.
 *
 * usage: mem_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...] | --list; see cm_rig.h
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm_rig.h"

#define MIB (1u << 20)
#define RW  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void fill(uint8_t *p, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) + salt);
}

static bool filled(const uint8_t *p, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == (uint8_t)(i * 31 + (i >> 8) + salt))
			continue;
		printf("# byte %zu is %#x\n", i, p[i]);
		return false;
	}
	return true;
}

static struct ibv_sge part_of(const struct ibv_mr *mr, void *p, size_t len)
{
	return (struct ibv_sge){ (uintptr_t)p, (uint32_t)len, mr->lkey };
}

/* Posts an RDMA operation between sge and the server's memory at `there`; waits for its completion. */
static bool rdma(struct rdma_cm_id *id, enum ibv_wr_opcode op, struct ibv_sge sge, void *there, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)there;
	wr.wr.rdma.rkey = rkey;
	CHECK(ibv_post_send(id->qp, &wr, &bad) == 0 && poll_n(&cli, &wc, 1));
	CHECK(wc.status == IBV_WC_SUCCESS);
	return true;
}

/* The peer writes all of p, the server's memory, and reads it back after the server's program has changed it. */
static bool written_and_read(struct rdma_cm_id *id, uint8_t *p, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, p, len, RW), *far;
	uint8_t *buf = malloc(len);

	CHECK(mr != NULL && buf != NULL && (far = ibv_reg_mr(cli.pd, buf, len, RW)) != NULL);
	fill(buf, len, 1);
	CHECK(rdma(id, IBV_WR_RDMA_WRITE, part_of(far, buf, len), p, mr->rkey));
	CHECK(rdma(id, IBV_WR_RDMA_READ, part_of(far, buf, 8), p + len - 8,
		   mr->rkey)); /* the response shows that the Write before has been placed */
	CHECK(filled(p, len, 1));
	fill(p, len, 2);
	CHECK(rdma(id, IBV_WR_RDMA_READ, part_of(far, buf, len), p, mr->rkey) && filled(buf, len, 2));
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dereg_mr(far) == 0);
	free(buf);
	return true;
}

static bool mapping_of(struct rdma_cm_id *id, int flags, int fd, size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	CHECK(p != MAP_FAILED);
	CHECK(written_and_read(id, p, len) && written_and_read(id, p + 4095, len / 2 + 3));
	munmap(p, len);
	return true;
}

static bool memory_that_others_share(void)
{
	int id = shmget(IPC_PRIVATE, MIB, 0600), mem = memfd_create("theirs", MFD_CLOEXEC);
	uint8_t *p = shmat(id, NULL, 0);
	char name[64];
	struct joined j;

	shmctl(id, IPC_RMID, NULL);
	snprintf(name, sizeof(name), "/rnic-mem-%d", (int)getpid());
	int named = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	shm_unlink(name);
	CHECK(p != (void *)-1 && mem >= 0 && named >= 0 && ftruncate(mem, MIB) == 0 && ftruncate(named, MIB) == 0);
	CHECK(join(&j, 8200));
	CHECK(mapping_of(j.cid, MAP_SHARED, -1, MIB) && mapping_of(j.cid, MAP_SHARED, mem, MIB));
	CHECK(mapping_of(j.cid, MAP_SHARED, named, MIB) && written_and_read(j.cid, p, MIB));
	shmdt(p);
	close(mem);
	close(named);
	return part(&j);
}

static bool hugepages(void)
{
	void *probe = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	struct joined j;

	if (probe == MAP_FAILED) {
		printf("# SKIP no hugepages are free\n");
		return true;
	}
	munmap(probe, 4 * MIB);
	CHECK(join(&j, 8201));
	CHECK(mapping_of(j.cid, MAP_SHARED | MAP_HUGETLB, -1, 4 * MIB) &&
	      mapping_of(j.cid, MAP_PRIVATE | MAP_HUGETLB, -1, 4 * MIB));
	return part(&j);
}

static const char constant[100000] = { "constants can be sent" };

static bool memory_that_may_only_be_read(void)
{
	void *p = (void *)(uintptr_t)constant;
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, p, sizeof(constant), IBV_ACCESS_REMOTE_READ);
	struct joined j;

	CHECK(mr != NULL && join(&j, 8202));
	CHECK(rdma(j.cid, IBV_WR_RDMA_READ, part_of(cli.mr, cli.buf, 50000), p, mr->rkey) &&
	      memcmp(cli.buf, constant, 50000) == 0);
	CHECK(ibv_reg_mr(srv.pd, p, 10, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EACCES);
	CHECK(ibv_dereg_mr(mr) == 0);
	return part(&j);
}

static bool a_gibibyte(void)
{
	const size_t len = 1024ul * MIB;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;
	struct joined j;

	CHECK(p != MAP_FAILED && join(&j, 8203));
	p[len / 2] = 77;
	CHECK((mr = ibv_reg_mr(srv.pd, p, len, RW)) != NULL);
	fill(cli.buf, BUF_LEN, 5);
	CHECK(rdma(j.cid, IBV_WR_RDMA_WRITE, part_of(cli.mr, cli.buf, BUF_LEN), p + len - BUF_LEN, mr->rkey));
	CHECK(rdma(j.cid, IBV_WR_RDMA_READ, part_of(cli.mr, cli.buf, 1), p + len / 2, mr->rkey) && cli.buf[0] == 77);
	CHECK(filled(p + len - BUF_LEN, BUF_LEN, 5) && p[0] == 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	munmap(p, len);
	return part(&j);
}

/* Many small regions all over the heap: the daemon must run out of neither mappings nor STags. */
static bool a_hundred_thousand_regions(void)
{
	enum { N = 100000 };
	struct ibv_mr **mr = calloc(N, sizeof(*mr));
	uint32_t **word = calloc(N, sizeof(*word));
	struct joined j;

	CHECK(mr != NULL && word != NULL && join(&j, 8204));
	for (uint32_t i = 0; i < N; i++) {
		word[i] = malloc(i % 7 == 0 ? 5000 : 40);
		CHECK(word[i] != NULL);
		*word[i] = i;
	}
	for (uint32_t k = 0; k < N; k++) {
		uint32_t i = k * 7919 % N;
		mr[i] = ibv_reg_mr(srv.pd, word[i], 4, RW);
		if (mr[i] == NULL)
			printf("# region %u: errno %d\n", k, errno);
		CHECK(mr[i] != NULL);
	}
	for (uint32_t i = 0; i < N; i++)
		CHECK(*word[i] == i);
	for (uint32_t i = 0; i < N; i += 9973) {
		CHECK(rdma(j.cid, IBV_WR_RDMA_READ, part_of(cli.mr, cli.buf, 4), word[i], mr[i]->rkey));
		CHECK(memcmp(cli.buf, &i, 4) == 0);
	}
	for (uint32_t i = 0; i < N; i++)
		CHECK(ibv_dereg_mr(mr[i]) == 0);
	for (uint32_t i = 0; i < N; i++)
		free(word[i]);
	free(word);
	free(mr);
	return part(&j);
}

static const struct rig_case cases[] = {
	CASE(memory_that_others_share),   CASE(hugepages), CASE(memory_that_may_only_be_read), CASE(a_gibibyte),
	CASE(a_hundred_thousand_regions),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
