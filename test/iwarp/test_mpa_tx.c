/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/ddp.h"
#include "iwarp/mpa_tx.h"
#include "ref_mpa.h"

static struct ref_stream ref;
static uint8_t memory[70000]; /* the registered memory: octets of ULPDUs as ref_octet() makes them */
static uint8_t out[80000];

/* Builds with the library the FPDU that the reference builds at stream offset pos, with the payload in n slices. */
static void same_as_reference(uint32_t pos, uint32_t ulpdu_len, uint32_t hdr_len, uint32_t slices, bool markers,
			      bool crc)
{
	struct rn_iov payload[16], iov[MPA_TX_IOV(16, MPA_TX_MARKERS)];
	uint32_t left = ulpdu_len - hdr_len, at = hdr_len;
	struct mpa_fpdu f;

	ref_init(&ref, pos, markers, crc);
	ref_fpdu(&ref, ulpdu_len, 5);
	for (uint32_t i = 0; i < slices; i++) {
		uint32_t take = i + 1 == slices ? left : left / 3 + (left > i);

		payload[i] = (struct rn_iov){ .base = memory + at, .len = take };
		at += take;
		left -= take;
	}
	memset(&f, 0xee, sizeof(f));
	memcpy(mpa_tx_begin(&f, iov, RN_ARRAY_LEN(iov)), memory, hdr_len);
	assert_int_equal(mpa_tx_frame(&f, hdr_len, payload, slices, ulpdu_len - hdr_len), MPA_TX_OK);
	assert_int_equal(f.len, mpa_fpdu_len(ulpdu_len));
	if (markers)
		assert_int_equal(mpa_tx_mark(&f, pos, ref_step), MPA_TX_OK);
	if (crc || ((ulpdu_len ^ slices ^ pos >> 2) & 1)) { /* the CRC is computed while the bytes are copied */
		memset(out, 0xee, ref.len + 1);
		mpa_tx_copy(&f, crc, out);
		assert_memory_equal(out, ref.buf, ref.len);
		assert_int_equal(out[ref.len], 0xee);
	}
	assert_int_equal(f.ulpdu_len, ulpdu_len);
	assert_int_equal(f.len, ref.len);
	uint32_t n_iov = mpa_tx_slices(&f);
	assert_int_equal(n_iov, f.n_iov);
	assert_int_equal(rn_iov_len(f.iov, f.n_iov), ref.len);
	assert_int_equal(rn_iov_gather(f.iov, f.n_iov, out, sizeof(out)), ref.len);
	assert_memory_equal(out, ref.buf, ref.len);
	memset(out, 0xee, ref.len);
	mpa_tx_copy(&f, false, out);
	assert_memory_equal(out, ref.buf, ref.len);
	if (markers)
		assert_int_equal(f.len,
				 mpa_fpdu_len(ulpdu_len) + 4 * mpa_markers_in(pos, mpa_fpdu_len(ulpdu_len), ref_step));
}

static int fill(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < sizeof(memory); i++)
		memory[i] = ref_octet(5, i);
	return 0;
}

static void unmarked_frames(void **state)
{
	(void)state;
	for (uint32_t n = 14; n < 1600; n++)
		for (uint32_t slices = 0; slices < 4; slices++)
			if (slices > 0 || n <= MPA_TX_HDR_MAX)
				same_as_reference(0, n, slices ? 14 : n, slices, false, slices & 1);
}

static void largest_frame(void **state)
{
	(void)state;
	same_as_reference(0, MPA_ULPDU_MAX, 18, 1, false, true);
	same_as_reference(0, MPA_ULPDU_MAX, 14, 16, false, true);
}

static void every_phase_of_markers(void **state)
{
	static const uint32_t sizes[] = { 14,  15,  16,   17,   18,   46,   82,   200,  494, 498, 500,
					  501, 502, 503,  504,  505,  506,  507,  508,  509, 510, 511,
					  512, 513, 1000, 1014, 1018, 1022, 1026, 1436, 8934 };

	(void)state;
	for (uint32_t phase = 0; phase < 512; phase += 4)
		for (uint32_t i = 0; i < RN_ARRAY_LEN(sizes); i++) {
			same_as_reference(phase, sizes[i], 14, sizes[i] > 14 ? 1 + i % 5 : 0, true, phase & 4);
			same_as_reference(0xfffffe00u + phase, sizes[i], 14, 1, true, true);
		}
}

static void every_phase_of_markers_that_stand_elsewhere(void **state)
{
	for (ref_step = 1024; ref_step <= MPA_MARKER_STEP_MAX; ref_step *= 2)
		every_phase_of_markers(state);
	ref_step = MPA_MARKER_STEP;
}

/* Markers fall at every place of the header, which is the inline part. */
static void markers_inside_header(void **state)
{
	(void)state;
	for (uint32_t phase = 512 - 120; phase < 512; phase += 4)
		for (uint32_t hdr = 14; hdr <= MPA_TX_HDR_MAX; hdr++) {
			same_as_reference(phase, hdr, hdr, 0, true, true);
			same_as_reference(phase, hdr + 33, hdr, 2, true, true);
		}
}

static void jumbo_with_all_its_markers(void **state)
{
	(void)state;
	for (uint32_t phase = 0; phase < 512; phase += 4)
		same_as_reference(phase, mpa_mulpdu(8960, MPA_MARKER_STEP), 18, 16, true, true);
}

static void frame_verdicts(void **state)
{
	struct rn_iov iov[4], payload[3] = { { memory, 10 }, { memory, 10 }, { memory, 10 } };
	struct mpa_fpdu f;

	(void)state;
	mpa_tx_begin(&f, iov, 4);
	assert_int_equal(mpa_tx_frame(&f, MPA_TX_HDR_MAX + 1, payload, 1, 1), MPA_TX_HDR_TOO_LONG);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 1, MPA_ULPDU_MAX - 13), MPA_TX_TOO_LONG);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 3, UINT32_MAX), MPA_TX_TOO_LONG);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 3, 30), MPA_TX_NO_IOV);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 3, 20), MPA_TX_OK);
	assert_int_equal(f.n_iov, 4);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 2, 21), MPA_TX_BAD_PAYLOAD);
	mpa_tx_begin(&f, iov, 2);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 1, 1), MPA_TX_NO_IOV);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 0, 0), MPA_TX_OK);
	mpa_tx_begin(&f, iov, 0);
	assert_int_equal(mpa_tx_frame(&f, 14, payload, 0, 0), MPA_TX_NO_IOV);
}

static void mark_verdicts(void **state)
{
	struct rn_iov iov[MPA_TX_IOV(1, MPA_TX_MARKERS)], payload = { memory, sizeof(memory) };
	struct mpa_fpdu f;

	(void)state;
	mpa_tx_begin(&f, iov, 4);
	assert_int_equal(mpa_tx_frame(&f, 14, &payload, 1, 100), MPA_TX_OK);
	assert_int_equal(mpa_tx_mark(&f, 4, MPA_MARKER_STEP), MPA_TX_OK); /* no marker falls into this FPDU */
	assert_int_equal(f.n_iov, 3);
	assert_int_equal(mpa_tx_mark(&f, 500, MPA_MARKER_STEP), MPA_TX_NO_IOV);
	mpa_tx_begin(&f, iov, RN_ARRAY_LEN(iov));
	assert_int_equal(mpa_tx_frame(&f, 14, &payload, 1, 20 * 508 - 20), MPA_TX_OK);
	assert_int_equal(mpa_tx_mark(&f, 0, MPA_MARKER_STEP), MPA_TX_OK);
	assert_int_equal(mpa_tx_frame(&f, 14, &payload, 1, 20 * 508 - 19), MPA_TX_OK);
	assert_int_equal(mpa_tx_mark(&f, 0, MPA_MARKER_STEP), MPA_TX_TOO_LONG);
}

/*
 * RFC 5044: an FPDU with a ULPDU of MULPDU octets fits the segment at every offset, and a smaller MULPDU would waste
 * room.
 */
static void mulpdu_fits(void **state)
{
	(void)state;
	for (uint32_t emss = 100; emss < 9300; emss++) {
		uint32_t plain = mpa_mulpdu(emss, 0), marked = mpa_mulpdu(emss, MPA_MARKER_STEP), worst = 0;

		assert_true(mpa_fpdu_len(plain) <= emss);
		assert_true(mpa_fpdu_len(plain + 4) > emss);
		for (uint32_t phase = 0; phase < 512; phase += 4) {
			uint32_t len = mpa_fpdu_len(marked);
			uint32_t stream = len + 4 * mpa_markers_in(phase, len, MPA_MARKER_STEP);

			assert_true(stream <= emss);
			worst = stream > worst ? stream : worst;
		}
		assert_true(worst + 8 > emss);
	}
	assert_int_equal(mpa_mulpdu(1448, 0), 1442); /* siw computes the same: 1424 + 18 */
	assert_int_equal(mpa_mulpdu(6, 0), 0);
	assert_int_equal(mpa_mulpdu(10, MPA_MARKER_STEP), 0);
	assert_int_equal(mpa_mulpdu(70000, MPA_MARKER_STEP), MPA_ULPDU_MARKED_MAX);
	for (uint32_t emss = 9000; emss < 65536; emss += 7) {
		uint32_t len = mpa_fpdu_len(mpa_tx_mulpdu(emss, MPA_MARKER_STEP));

		assert_true(mpa_tx_mulpdu(emss, 0) == mpa_mulpdu(emss, 0));
		for (uint32_t phase = 0; phase < 512; phase += 4)
			assert_true(mpa_markers_in(phase, len, MPA_MARKER_STEP) <= MPA_TX_MARKERS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unmarked_frames),
		cmocka_unit_test(largest_frame),
		cmocka_unit_test(every_phase_of_markers),
		cmocka_unit_test(every_phase_of_markers_that_stand_elsewhere),
		cmocka_unit_test(markers_inside_header),
		cmocka_unit_test(jumbo_with_all_its_markers),
		cmocka_unit_test(frame_verdicts),
		cmocka_unit_test(mark_verdicts),
		cmocka_unit_test(mulpdu_fits),
	};

	return cmocka_run_group_tests_name("mpa_tx", tests, fill, NULL);
}
