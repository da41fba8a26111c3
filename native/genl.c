// SPDX-License-Identifier: GPL-2.0-or-later
#include "genl.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/genetlink.h>

#define ANSWER_LEN 32768

struct request {
	struct nlmsghdr header;
	struct genlmsghdr generic;
	char attributes[128];
};

static void start_request(struct request *request, uint16_t type, uint16_t flags, uint8_t command)
{
	memset(request, 0, sizeof(*request));
	request->header.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	request->header.nlmsg_type = type;
	request->header.nlmsg_flags = NLM_F_REQUEST | flags;
	request->generic.cmd = command;
	request->generic.version = 1;
}

static void add_attribute(struct request *request, uint16_t type, const void *data, size_t len)
{
	struct nlattr *attribute =
		(struct nlattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	attribute->nla_type = type;
	attribute->nla_len = NLA_HDRLEN + len;
	memcpy((char *)attribute + NLA_HDRLEN, data, len);
	request->header.nlmsg_len =
		NLMSG_ALIGN(request->header.nlmsg_len) + NLA_ALIGN(attribute->nla_len);
}

static int send_request(int fd, const struct request *request)
{
	return send(fd, request, request->header.nlmsg_len, 0) < 0 ? -errno : 0;
}

static void parse_attributes(const char *at, size_t left, struct genl_answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	while (left >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const struct nlattr *)at;
		size_t len = NLA_ALIGN(attribute->nla_len);

		if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > left)
			return;
		if ((attribute->nla_type & NLA_TYPE_MASK) < GENL_ATTRIBUTES)
			answer->attributes[attribute->nla_type & NLA_TYPE_MASK] = attribute;
		at += len;
		left -= len < left ? len : left;
	}
}

/* The error of the last message of a dump, or of one that the kernel refuses. */
static int parse_error(const struct nlmsghdr *header)
{
	return header->nlmsg_len < NLMSG_LENGTH(sizeof(int)) ? 0 : *(const int *)NLMSG_DATA(header);
}

/* Until the end of a dump, or the one answer of another request. */
static int receive(int fd, int (*keep)(const struct genl_answer *answer, void *context),
		   void *context)
{
	char buffer[ANSWER_LEN] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct genl_answer answer;
	int err;

	for (;;) {
		ssize_t len = recv(fd, buffer, sizeof(buffer), 0);
		struct nlmsghdr *header = (struct nlmsghdr *)buffer;

		if (len < 0)
			return -errno;
		if (!NLMSG_OK(header, len))
			return -EBADMSG;
		for (; NLMSG_OK(header, len); header = NLMSG_NEXT(header, len)) {
			if (header->nlmsg_type == NLMSG_ERROR || header->nlmsg_type == NLMSG_DONE)
				return parse_error(header);
			parse_attributes((const char *)NLMSG_DATA(header) + GENL_HDRLEN,
					 header->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN), &answer);
			err = keep(&answer, context);
			if (err || !(header->nlmsg_flags & NLM_F_MULTI))
				return err;
		}
	}
}

static int keep_family(const struct genl_answer *answer, void *id)
{
	const struct nlattr *attribute = answer->attributes[CTRL_ATTR_FAMILY_ID];

	if (!attribute)
		return -EBADMSG;
	memcpy(id, (const char *)attribute + NLA_HDRLEN, sizeof(uint16_t));
	return 0;
}

static int find_family(int fd, const char *name, uint16_t *id)
{
	struct request request;
	int err;

	start_request(&request, GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY);
	add_attribute(&request, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	err = send_request(fd, &request);
	return err ? err : receive(fd, keep_family, id);
}

static int dump(int fd, const struct genl_question *question,
		int (*keep)(const struct genl_answer *answer, void *context), void *context)
{
	struct request request;
	uint16_t family;
	int err = find_family(fd, question->family, &family);

	if (err)
		return err;
	start_request(&request, family, NLM_F_DUMP, question->command);
	for (int i = 0; i < 2 && question->attribute[i]; i++)
		add_attribute(&request, question->attribute[i], &question->value[i],
			      sizeof(question->value[i]));
	err = send_request(fd, &request);
	return err ? err : receive(fd, keep, context);
}

int genl_dump(const struct genl_question *question,
	      int (*keep)(const struct genl_answer *answer, void *context), void *context)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	int err;

	if (fd < 0)
		return -errno;
	err = dump(fd, question, keep, context);
	close(fd);
	return err;
}

bool genl_number(const struct genl_answer *answer, int attribute, uint64_t *number)
{
	const struct nlattr *found = answer->attributes[attribute];
	const char *data = (const char *)found + NLA_HDRLEN;
	uint32_t number_32;

	if (!found || (found->nla_len != NLA_HDRLEN + 4 && found->nla_len != NLA_HDRLEN + 8))
		return false;
	if (found->nla_len == NLA_HDRLEN + 8) {
		memcpy(number, data, sizeof(*number));
		return true;
	}
	memcpy(&number_32, data, sizeof(number_32));
	*number = number_32;
	return true;
}

bool genl_nested(const struct genl_answer *answer, int attribute, struct genl_answer *inner)
{
	const struct nlattr *found = answer->attributes[attribute];

	if (found)
		parse_attributes((const char *)found + NLA_HDRLEN, found->nla_len - NLA_HDRLEN,
				 inner);
	return found;
}
