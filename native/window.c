// SPDX-License-Identifier: GPL-2.0-or-later
#include "window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

#define KALLSYMS "/proc/kallsyms"
#define NAME_SIZE 512 /* KSYM_NAME_LEN */

/* The asm keeps a compiler from taking functions without a body for one, or calls for nothing. */
#define MARKER __attribute__((noinline, noclone, used))

struct window_table window_table;

MARKER void window_arm(void)
{
	__asm__ volatile("# arm" ::: "memory");
}

MARKER void window_open(uint64_t id)
{
	__asm__ volatile("# open %0" ::"r"(id) : "memory");
}

MARKER void window_close(void)
{
	__asm__ volatile("# close" ::: "memory");
}

MARKER void window_app(void)
{
	__asm__ volatile("# app" ::: "memory");
}

struct known {
	const char *name;
	enum window_mark_kind kind;
	bool prefix;
	bool range; /* a table of entry stubs, up to the next symbol */
};

/* asm_* are the entry points since Linux 5.8. */
static const struct known known[] = {
	{"process_backlog", WINDOW_POLL, false, false},
	{"veth_poll", WINDOW_POLL, false, false},
	{"igb_poll", WINDOW_POLL, false, false},
	{"virtnet_poll", WINDOW_POLL, false, false},
	{"virtnet_poll_tx", WINDOW_POLL, false, false},
	{"vmxnet3_poll", WINDOW_POLL, false, false},
	{"vmxnet3_poll_rx_only", WINDOW_POLL, false, false},
	{"e1000e_poll", WINDOW_POLL, false, false},
	{"irq_entries_start", WINDOW_INTERRUPT, false, true},
	{"spurious_entries_start", WINDOW_INTERRUPT, false, true},
	{"asm_sysvec_", WINDOW_INTERRUPT, true, false},
	{"asm_exc_", WINDOW_EXCEPTION, true, false},
	{"__switch_to", WINDOW_SWITCH, false, false},
	{"ret_from_fork", WINDOW_FORK, false, false},
	{"ret_from_fork_asm", WINDOW_FORK, false, false},
};

#define KNOWN_LEN (sizeof(known) / sizeof(known[0]))

struct symbol {
	uint64_t address;
	char type;
	char name[NAME_SIZE];
};

static size_t symbols_size;

static int grow_symbols(void)
{
	size_t size = symbols_size ? 2 * symbols_size : 1 << 18;
	uint64_t *grown = realloc((void *)window_table.symbols, size * sizeof(*grown));

	if (!grown)
		return fail(ENOMEM, KALLSYMS, "keep symbols");
	window_table.symbols = (uint64_t)grown;
	symbols_size = size;
	return 0;
}

static int add_mark(const struct symbol *symbol, const struct known *what)
{
	struct window_mark *mark = &window_table.marks[window_table.marks_len];

	if (window_table.marks_len == WINDOW_MARKS_MAX)
		return fail_because(0, KALLSYMS, "find entry points", "more than %d of them",
				    WINDOW_MARKS_MAX);
	mark->start = symbol->address;
	mark->end = what->range ? 0 : symbol->address + 1;
	mark->kind = what->kind;
	window_table.marks_len++;
	return 0;
}

/* The kernel's own symbols come sorted by address, so a range ends at the next other one. */
static void end_range(uint64_t address)
{
	struct window_mark *last = &window_table.marks[window_table.marks_len - 1];

	if (window_table.marks_len && !last->end && address > last->start)
		last->end = address;
}

static bool is_known(const char *name, const struct known *what)
{
	/* Most names differ at once, and there are 200000. */
	if (name[0] != what->name[0])
		return false;
	return what->prefix ? !strncmp(name, what->name, strlen(what->name))
			    : !strcmp(name, what->name);
}

static int add_symbol(const struct symbol *symbol)
{
	int result = 0;

	if (!strchr("tTwW", symbol->type))
		return 0;
	if (!symbol->address)
		return fail_hint(fail_because(0, KALLSYMS, "read", "the addresses are hidden"),
				 "run as root, with kernel.kptr_restrict below 2");
	if (window_table.symbols_len == symbols_size)
		result = grow_symbols();
	if (result)
		return result;
	((uint64_t *)window_table.symbols)[window_table.symbols_len++] = symbol->address;
	end_range(symbol->address);
	for (size_t i = 0; !result && i < KNOWN_LEN; i++)
		if (is_known(symbol->name, &known[i]))
			result = add_mark(symbol, &known[i]);
	return result;
}

/* Where reading stands in "ffffffff81000000 T _stext" or "... t igb_poll\t[igb]". */
enum part { PART_ADDRESS, PART_TYPE, PART_NAME, PART_MODULE };

struct reader {
	enum part part;
	size_t name_len;
	struct symbol symbol;
};

static unsigned int hex_digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static void read_char(struct reader *reader, char c)
{
	struct symbol *symbol = &reader->symbol;

	if (reader->part == PART_ADDRESS && c != ' ')
		symbol->address = symbol->address << 4 | hex_digit(c);
	else if (reader->part == PART_TYPE && c != ' ')
		symbol->type = c;
	else if (reader->part == PART_NAME && c != '\t' && reader->name_len < NAME_SIZE - 1)
		symbol->name[reader->name_len++] = c;
	else if (reader->part < PART_MODULE)
		reader->part++;
}

static int read_text(struct reader *reader, const char *text, size_t len)
{
	int result = 0;

	for (size_t i = 0; !result && i < len; i++) {
		if (text[i] != '\n') {
			read_char(reader, text[i]);
			continue;
		}
		reader->symbol.name[reader->name_len] = '\0';
		result = add_symbol(&reader->symbol);
		reader->part = PART_ADDRESS;
		reader->name_len = 0;
		reader->symbol.address = 0;
	}
	return result;
}

static int read_kallsyms(void)
{
	static char text[1 << 16];
	struct reader reader = {0};
	ssize_t len = 0;
	int result = 0;
	int fd = open(KALLSYMS, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail_hint(fail(errno, KALLSYMS, "open"), "the kernel needs CONFIG_KALLSYMS");
	while (!result && (len = read(fd, text, sizeof(text))) > 0)
		result = read_text(&reader, text, len);
	if (len < 0)
		result = fail(errno, KALLSYMS, "read");
	close(fd);
	return result;
}

static int check_kind(enum window_mark_kind kind)
{
	for (uint64_t i = 0; i < window_table.marks_len; i++)
		if (window_table.marks[i].kind == kind)
			return 0;
	for (size_t i = 0; i < KNOWN_LEN; i++)
		if (known[i].kind == kind)
			return fail_because(0, KALLSYMS, "find entry points", "no %s%s",
					    known[i].name, known[i].prefix ? "*" : "");
	return 0;
}

int window_fill(void)
{
	int result;

	window_table.magic = WINDOW_MAGIC;
	window_table.version = WINDOW_VERSION;
	window_table.symbols_len = 0;
	window_table.marks_len = 0;
	result = read_kallsyms();
	for (int kind = WINDOW_POLL; !result && kind <= WINDOW_FORK; kind++)
		result = check_kind(kind);
	return result;
}
