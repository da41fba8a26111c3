// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_job.h"

#include <errno.h>
#include <string.h>

#include "error.h"
#include "spec.h"
#include "spec_value.h"

#define MTU_MIN 68 /* of IPv4 */
#define MTU_MAX 9000

const char *const side_names[] = {"dut", "tester", NULL};
const char *const guest_port_names[] = {"veth",    "igb",    "virtio-net", "virtio-net-dma",
					"vmxnet3", "e1000e", NULL};

static const char *const channel_names[] = {"virtio-serial", "serial", NULL};
static const char *const job_keys[] = {"channel", "modules", "port",  "ports",  "queues", "mtu",
				       "sysctls", "count",   "probe", "trials", NULL};
static const char *const end_keys[] = {"ifname", "mac", NULL};
static const char *const trial_keys[] = {"slot", "dut", "tester", NULL};

static int read_strings(const struct section *section, const char *key, json_t **list)
{
	json_t *item;
	size_t i;

	*list = json_object_get(section->object, key);
	if (!json_is_array(*list))
		return bad_value(section, key, "a list of strings");
	json_array_foreach(*list, i, item)
		if (!json_string_length(item))
			return bad_value(section, key, "a list of strings");
	return 0;
}

static int read_texts(const struct section *section, const char *key, json_t **object)
{
	const char *name;
	json_t *value;

	*object = json_object_get(section->object, key);
	if (!json_is_object(*object))
		return bad_value(section, key, "an object of strings");
	json_object_foreach(*object, name, value)
		if (!json_is_string(value))
			return bad_value(section, key, "an object of strings");
	return 0;
}

static int read_number(const struct section *section, const char *key, int min, int max, int *value)
{
	int64_t number;
	int result = read_int(section, key, min, max, &number);

	*value = number;
	return result;
}

static int parse_end(const struct section *ports, const char *side, const char *path,
		     struct guest_end *end)
{
	struct section section;
	int result = read_section(ports, side, path, &section);

	if (!result)
		result = section_check_keys(&section, end_keys);
	if (!result)
		result = read_string(&section, "ifname", end->ifname, sizeof(end->ifname));
	if (!result)
		result = read_mac(&section, "mac", end->mac);
	return result;
}

static int parse_ports(const struct section *top, struct guest_job *job)
{
	struct section ports;
	int result = read_section(top, "ports", "ports.", &ports);

	if (!result)
		result = section_check_keys(&ports, side_names);
	if (!result)
		result = parse_end(&ports, "dut", "ports.dut.", &job->ends[SIDE_DUT]);
	if (!result)
		result = parse_end(&ports, "tester", "ports.tester.", &job->ends[SIDE_TESTER]);
	return result;
}

/* One spec is a list of one. */
static int check_testers(const struct section *trial)
{
	json_t *testers = json_object_get(trial->object, "tester");
	json_t *spec;
	size_t i;

	if (json_is_object(testers)) {
		testers = json_pack("[O]", testers);
		if (json_object_set_new(trial->object, "tester", testers))
			return fail(ENOMEM, "job", "check trials");
	}
	if (!json_array_size(testers))
		return bad_value(trial, "tester", "a spec, or a list of specs");
	json_array_foreach(testers, i, spec)
		if (!json_is_object(spec))
			return bad_value(trial, "tester", "a spec, or a list of specs");
	return 0;
}

static int check_trial(json_t *object)
{
	struct section section = {object, "job", "trials."};
	struct section spec;
	int result = section_check_keys(&section, trial_keys);
	int slot;

	if (!result)
		result = read_number(&section, "slot", 0, INT32_MAX, &slot);
	if (!result)
		result = read_section(&section, "dut", "trials.dut.", &spec);
	if (!result)
		result = check_testers(&section);
	return result;
}

static int parse_trials(const struct section *top, struct guest_job *job)
{
	json_t *trial;
	size_t i;
	int result = 0;

	job->trials = json_object_get(top->object, "trials");
	if (!json_is_array(job->trials))
		return bad_value(top, "trials", "a list of trials");
	json_array_foreach(job->trials, i, trial) {
		if (!json_is_object(trial))
			return bad_value(top, "trials", "a list of trials");
		result = check_trial(trial);
		if (result)
			break;
	}
	return result;
}

int guest_job_check(struct guest_job *job)
{
	const struct section top = {job->object, "job", ""};
	int result = section_check_keys(&top, job_keys);

	if (!result)
		result = read_choice(&top, "port", guest_port_names, &job->port);
	if (!result)
		result = parse_ports(&top, job);
	if (!result)
		result = read_number(&top, "queues", 1, MAX_QUEUES, &job->queues);
	if (!result)
		result = read_number(&top, "mtu", MTU_MIN, MTU_MAX, &job->mtu);
	if (!result)
		result = read_texts(&top, "sysctls", &job->sysctls);
	if (!result)
		result = read_bool(&top, "count", &job->count);
	if (!result)
		result = read_bool(&top, "probe", &job->probe);
	if (!result)
		result = parse_trials(&top, job);
	return result;
}

int guest_job_read(const char *path, struct guest_job *job)
{
	struct section top = {.document = "job", .path = ""};
	json_error_t error;
	int result;

	memset(job, 0, sizeof(*job));
	top.object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(top.object))
		return fail_usage("job", "parse", "%s: %s", path,
				  top.object ? "not an object" : error.text);
	job->object = top.object;
	result = read_choice(&top, "channel", channel_names, &job->channel);
	return result ? result : read_strings(&top, "modules", &job->modules);
}

struct guest_trial guest_job_trial(const struct guest_job *job, size_t i)
{
	json_t *object = json_array_get(job->trials, i);
	json_t *testers = json_object_get(object, "tester");

	return (struct guest_trial){
		.slot = json_integer_value(json_object_get(object, "slot")),
		.testers = testers,
		.specs = {json_object_get(object, "dut"), json_array_get(testers, 0)},
	};
}
