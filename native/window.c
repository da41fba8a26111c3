// SPDX-License-Identifier: GPL-2.0-or-later
#include "window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

#define KALLSYMS "kallsyms" /* in failures */

#define ADDRESS_DIGITS 16
#define TYPE_OFFSET (ADDRESS_DIGITS + 1)
#define NAME_OFFSET (TYPE_OFFSET + 2)

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
	const char *name;
	size_t name_len;
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

int window_add(uint64_t address)
{
	int result = window_table.symbols_len == symbols_size ? grow_symbols() : 0;

	if (!result)
		((uint64_t *)window_table.symbols)[window_table.symbols_len++] = address;
	return result;
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

static bool is_known(const struct symbol *symbol, const struct known *what)
{
	size_t len;

	/* Most names differ at once, and there are 200000. */
	if (symbol->name[0] != what->name[0])
		return false;
	len = strlen(what->name);
	if (symbol->name_len < len)
		return false;
	return (what->prefix || symbol->name_len == len) && !memcmp(symbol->name, what->name, len);
}

static int add_symbol(const struct symbol *symbol)
{
	int result = 0;

	if (!symbol->address)
		return fail_hint(fail_because(0, KALLSYMS, "read", "the addresses are hidden"),
				 "run as root, with kernel.kptr_restrict below 2");
	result = window_add(symbol->address);
	end_range(symbol->address);
	for (size_t i = 0; !result && i < KNOWN_LEN; i++)
		if (is_known(symbol, &known[i]))
			result = add_mark(symbol, &known[i]);
	return result;
}

static unsigned int hex_digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* "ffffffff81000000 T _stext" or "ffffffffc0000000 t igb_poll\t[igb]". */
static int read_line(const char *line, const char *end)
{
	struct symbol symbol = {0};
	const char *module;

	if (end - line <= NAME_OFFSET || !strchr("tTwW", line[TYPE_OFFSET]))
		return 0;
	for (int i = 0; i < ADDRESS_DIGITS; i++)
		symbol.address = symbol.address << 4 | hex_digit(line[i]);
	symbol.name = line + NAME_OFFSET;
	module = memchr(symbol.name, '\t', end - symbol.name);
	symbol.name_len = (module ? module : end) - symbol.name;
	return add_symbol(&symbol);
}

/* Read all whole lines, and move the part of one that follows to the front. */
static int read_lines(char *text, size_t *len)
{
	char *line = text, *end;
	int result = 0;

	while (!result && (end = memchr(line, '\n', text + *len - line))) {
		result = read_line(line, end);
		line = end + 1;
	}
	*len -= line - text;
	memmove(text, line, *len);
	return result;
}

static int read_kallsyms(const char *path)
{
	static char text[1 << 16];
	ssize_t more = 0;
	size_t len = 0;
	int result = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail_hint(fail(errno, path, "open"), "the kernel needs CONFIG_KALLSYMS");
	while (!result && (more = read(fd, text + len, sizeof(text) - len)) > 0) {
		len += more;
		result = read_lines(text, &len);
	}
	if (more < 0)
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

int window_fill(const char *kallsyms)
{
	int result;

	window_table.magic = WINDOW_MAGIC;
	window_table.version = WINDOW_VERSION;
	window_table.symbols_len = 0;
	window_table.marks_len = 0;
	result = read_kallsyms(kallsyms);
	for (int kind = WINDOW_POLL; !result && kind <= WINDOW_FORK; kind++)
		result = check_kind(kind);
	return result;
}
