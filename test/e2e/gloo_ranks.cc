// SPDX-License-Identifier: BSD-3-Clause
// One rank of a program over gloo's ibverbs transport: collective operations whose results each rank checks.
// Usage: gloo_ranks DEVICE RANK SIZE FOLDER. The folder is where the ranks find each other.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

using Numbers = std::vector<int64_t>;

static int64_t value(int rank, size_t i) { return (int64_t)(i * 7919 + (size_t)rank * 104729 + 1); }

static Numbers numbers(int rank, size_t n)
{
	Numbers v(n);
	for (size_t i = 0; i < n; i++)
		v[i] = value(rank, i);
	return v;
}

static void expect_sum(const Numbers &v, int size, const char *what)
{
	for (size_t i = 0; i < v.size(); i++) {
		int64_t sum = 0;
		for (int r = 0; r < size; r++)
			sum += value(r, i);
		if (v[i] != sum) {
			fprintf(stderr, "%s of %zu numbers: number %zu is %lld in place of %lld\n", what, v.size(), i,
				(long long)v[i], (long long)sum);
			exit(1);
		}
	}
}

// An algorithm's buffers may be freed once all their sends have completed, and gloo has no call that waits for this.
// Therefore algorithms live as long as the process.
static void run(gloo::Algorithm *forever) { forever->run(); }

static void work(const std::shared_ptr<gloo::rendezvous::Context> &c, int rank, int size)
{
	static const size_t lengths[] = { 1, 100, 10000, 1000000 };
	static Numbers a[4], b[4], d[4];

	for (size_t i = 0; i < 4; i++) {
		const int n = (int)lengths[i];
		a[i] = b[i] = d[i] = numbers(rank, lengths[i]);
		run(new gloo::AllreduceRingChunked<int64_t>(c, { a[i].data() }, n));
		expect_sum(a[i], size, "chunked ring");
		run(new gloo::AllreduceHalvingDoubling<int64_t>(c, { b[i].data() }, n));
		expect_sum(b[i], size, "halving and doubling");
		run(new gloo::BroadcastOneToAll<int64_t>(c, { d[i].data() }, n, size - 1));
		if (d[i] != numbers(size - 1, lengths[i])) {
			fprintf(stderr, "broadcast of %d numbers: they are wrong\n", n);
			exit(1);
		}
		run(new gloo::BarrierAllToAll(c));
	}
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "Usage: gloo_ranks DEVICE RANK SIZE FOLDER\n");
		return 2;
	}
	const int rank = atoi(argv[2]), size = atoi(argv[3]);
	try {
		auto device = gloo::transport::ibverbs::CreateDevice({ argv[1], 1, 0 });
		gloo::rendezvous::FileStore store(argv[4]);
		auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
		context->connectFullMesh(store, device);
		work(context, rank, size);
		store.set("done" + std::to_string(rank), { 'x' });
		for (int r = 0; r < size; r++)
			store.wait({ "done" + std::to_string(r) });
		printf("rank %d of %d: all results are right\n", rank, size);
		fflush(stdout);
		_exit(0); // all ranks are done, so no other rank needs this one
	} catch (const std::exception &e) {
		fprintf(stderr, "rank %d: %s\n", rank, e.what());
		return 1;
	}
}
