// SPDX-License-Identifier: GPL-2.0-or-later
/* Frames by BPF_PROG_RUN: the kernel makes them, a program redirects them to the port. */
#include "generator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "frame.h"
#include "live_frames.h"
#include "records.h"

/*
 * One call may send for as long as the trial lasts: taking down its page pool makes a call sleep
 * for some 20 ms, which would be a gap in the load. generator_stop() ends it with a signal.
 */
#define FRAMES_MAX INT_MAX
#define ERRORS_IN_A_ROW_MAX 100

static int run_frames(int prog_fd, void *frame, uint32_t frame_len, int repeat, uint32_t batch)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	opts.data_in = frame;
	opts.data_size_in = frame_len;
	opts.repeat = repeat;
	opts.batch_size = batch;
	opts.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
	return bpf_prog_test_run_opts(prog_fd, &opts) ? -errno : 0;
}

static const struct record *find_record(const struct generator_thread *thread)
{
	return &thread->generator->program.records[thread->cpu * RECORDS_ONE_QUEUE];
}

static void read_sent(const struct generator_thread *thread, struct sent *sent)
{
	const struct record *record = find_record(thread);

	sent->packets = records_load(&record->packets[XDP_REDIRECT]);
	sent->bytes = sent->packets * thread->generator->spec->frame.frame_len;
	sent->errors = records_load(&record->packets[XDP_ABORTED]);
	sent->errors += __atomic_load_n(&thread->sent.errors, __ATOMIC_RELAXED);
}

/* Memory can be short for a moment; anything else will not mend itself. */
static int note_error(struct generator_thread *thread, int err, int *in_a_row)
{
	if (err == EINTR)
		return 0;
	sent_add(&thread->sent.errors, 1);
	if ((err == ENOMEM || err == EAGAIN) && ++*in_a_row < ERRORS_IN_A_ROW_MAX) {
		sleep_ns(NS_PER_MS);
		return 0;
	}
	return fail(err, thread->generator->ifname, "run live frames");
}

static int send_frames(struct generator_thread *thread)
{
	const struct generator *generator = thread->generator;
	const struct generator_spec *spec = generator->spec;
	const struct record *record = find_record(thread);
	uint8_t frame[LIVE_FRAME_LEN_MAX];
	int in_a_row = 0;

	frame_fill(&spec->frame, frame);
	while (!generator_stopping(generator)) {
		uint64_t before = records_load(&record->packets[XDP_REDIRECT]);
		uint64_t left = thread->share - before;
		int err;

		if (!left)
			return 0;
		err = -run_frames(generator->program.fd, frame, spec->frame.frame_len,
				  left < FRAMES_MAX ? left : FRAMES_MAX, spec->batch);
		if (err && note_error(thread, err, &in_a_row))
			return -err;
		if (err)
			continue;
		if (records_load(&record->packets[XDP_REDIRECT]) == before)
			return fail_because(ENODEV, generator->ifname, "redirect",
					    "the port takes no frames: it is gone");
		in_a_row = 0;
	}
	return 0;
}

/* Try one frame that goes nowhere, so that an old kernel is found out before the trial starts. */
int live_frames_try(const char *ifname)
{
	uint8_t frame[FRAME_LEN_MIN] = {0};
	const struct load_options options = {0};
	struct loaded drop;
	int result = loaded_create(&drop, program_drop, &options);

	if (result)
		return result;
	result = run_frames(drop.fd, frame, sizeof(frame), 1, 1);
	loaded_destroy(&drop);
	if (!result)
		return 0;
	fail(-result, ifname, "run live frames");
	if (result == -EINVAL)
		fail_hint(result, "the kernel has no BPF_F_TEST_XDP_LIVE_FRAMES (5.18): use the "
				  "generator af-packet");
	return result;
}

static int load_paced(struct generator *generator, const struct generate_knobs *frame)
{
	struct paced_knobs knobs = {.frame = *frame, .step = generator->step};
	const struct load_options options = {.knobs = &knobs, .knobs_size = sizeof(knobs)};
	int result = loaded_create(&generator->program,
				   generator->spec->frame.restore ? program_generate_paced_restored
								  : program_generate_paced,
				   &options);
	const struct paced *paced = (const struct paced *)generator->program.records;

	for (size_t i = 0; !result && i < generator->threads_len; i++)
		generator->threads[i].paced = &paced->paces[generator->threads[i].cpu];
	return result;
}

static int load(struct generator *generator, const struct generate_knobs *knobs)
{
	const struct load_options options = {.knobs = knobs, .knobs_size = sizeof(*knobs)};

	if (generator->step)
		return load_paced(generator, knobs);
	return loaded_create(&generator->program,
			     generator->spec->frame.restore ? program_generate_live_restored
							    : program_generate_live,
			     &options);
}

static int create(struct generator *generator)
{
	const struct frame_spec *frame = &generator->spec->frame;
	struct generate_knobs knobs = {
		.flows = frame->flows,
		.first_port = FRAME_FIRST_PORT,
		.daddr = htonl(FRAME_ADDRESS_TO),
		.ip_check = frame_ip_check(frame),
		.dport = htons(FRAME_PORT),
	};
	int result = live_frames_try(generator->ifname);

	if (result)
		return result;
	memcpy(knobs.macs, frame->dst_mac, 6);
	memcpy(knobs.macs + 3, frame->src_mac, 6);
	result = load(generator, &knobs);
	if (result)
		return result;
	result = loaded_set_map(&generator->program, "ports", 0, generator->ifindex);
	if (result)
		loaded_destroy(&generator->program);
	return result;
}

static void destroy(struct generator *generator)
{
	loaded_destroy(&generator->program);
}

const struct generator_ops generator_live_ops = {create, destroy, send_frames, read_sent};
