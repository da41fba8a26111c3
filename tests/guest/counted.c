// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The init of a guest whose windows hold code of known length. What it is called is in
 * test_plugin.py; the loops are assembler, so that no compiler changes their number of
 * instructions.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "window.h"

#define KALLSYMS "/proc/kallsyms"
#define PAGE 4096
#define PAGES 100
#define HPET_COUNTER 0xf0
#define BYTES 77
#define PACKETS 50

enum window {
	SHORT_LOOP = 1,
	LONG_LOOP,
	LONGEST_LOOP,
	FAULTS,
	REPETITION,
	DEVICE,
	TASKS,
	LOOPBACK,
	MEMORY,
	NEVER_CLOSED,
};

/* rdi: how often; the label is the loop's first instruction, the second is the jump. */
void spin(unsigned long times);
__asm__(".globl spin, spin_loop\n"
	"spin:\n"
	"spin_loop: dec %rdi\n"
	"jnz spin_loop\n"
	"ret\n");

/* rdi: pages that are not there yet, rsi: how many. */
void fault(char *pages, unsigned long len);
__asm__(".globl fault, fault_before, fault_store, fault_after\n"
	"fault:\n"
	"fault_before: nop\n"
	"fault_store: movb $1, (%rdi)\n"
	"fault_after: add $4096, %rdi\n"
	"dec %rsi\n"
	"jnz fault\n"
	"ret\n");

/* rdi: a register of a device, rsi: how often. */
void read_device(const volatile char *at, unsigned long times);
__asm__(".globl read_device, device_before, device_load, device_after\n"
	"read_device:\n"
	"device_before: nop\n"
	"device_load: mov (%rdi), %eax\n"
	"device_after: dec %rsi\n"
	"jnz read_device\n"
	"ret\n");

/* rdi: where, rcx: how many bytes, as the fourth argument. */
void repeat(char *bytes, int unused, int unused_too, unsigned long len);
__asm__(".globl repeat, repeat_store\n"
	"repeat:\n"
	"repeat_store: rep stosb\n"
	"ret\n");

/* Three loads and two stores on three lines, one store across two of them, and the stack of ret. */
void touch(char *lines);
__asm__(".globl touch, touch_end\n"
	"touch:\n"
	"mov (%rdi), %rax\n"
	"mov 8(%rdi), %rax\n"
	"mov 64(%rdi), %rax\n"
	"mov %rax, 60(%rdi)\n"
	"mov %rax, 128(%rdi)\n"
	"ret\n"
	"touch_end:\n"
	"ret\n");
extern char touch_end[];

/* Stands for the program under test: a packet begins here. */
__attribute__((noinline)) static void begin_packet(void)
{
	__asm__ volatile("nop");
}

static void check(int failed, const char *step)
{
	if (!failed)
		return;
	perror(step);
	if (failure.reason[0])
		fprintf(stderr, "%s: %s: %s\n", failure.object, failure.step, failure.reason);
	reboot(RB_POWER_OFF);
}

static void spin_in_window(enum window id, unsigned long times)
{
	window_open(id);
	spin(times);
	window_close();
}

static void fault_in_window(void)
{
	char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	check(pages == MAP_FAILED, "mmap");
	madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE);
	window_open(FAULTS);
	fault(pages, PAGES);
	window_close();
}

static void repeat_in_window(void)
{
	static char bytes[BYTES];

	memset(bytes, 2, sizeof(bytes)); /* so that no fault repeats one more */
	window_open(REPETITION);
	repeat(bytes, 0, 0, sizeof(bytes));
	window_close();
}

/* QEMU leaves a block at a device's register and executes that instruction again, by itself. */
static void read_device_in_window(void)
{
	int fd = open("/dev/hpet", O_RDONLY);
	char *hpet = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

	check(fd < 0 || hpet == MAP_FAILED, "map the HPET");
	read_device(hpet + HPET_COUNTER, 1);
	window_open(DEVICE);
	read_device(hpet + HPET_COUNTER, PAGES);
	window_close();
}

static void spin_elsewhere(bool is_app, unsigned long times)
{
	if (fork()) {
		wait(NULL);
		return;
	}
	if (is_app)
		window_app();
	spin(times);
	_exit(0);
}

static void spin_in_tasks(void)
{
	window_open(TASKS);
	spin(1000);
	spin_elsewhere(true, 5000);
	spin_elsewhere(false, 7000);
	window_close();
}

static void send_in_window(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	check(ioctl(fd, SIOCSIFFLAGS, &up), "up");
	check(bind(fd, (struct sockaddr *)&to, sizeof(to)), "bind");
	window_open(LOOPBACK);
	for (int i = 0; i < PACKETS; i++)
		check(sendto(fd, &i, sizeof(i), 0, (struct sockaddr *)&to, sizeof(to)) < 0, "send");
	window_close();
}

static void touch_in_window(void)
{
	static char lines[3 * 64] __attribute__((aligned(64)));

	window_open(MEMORY);
	for (int i = 0; i < PACKETS; i++) {
		begin_packet();
		touch(lines);
		touch(lines);
	}
	window_close();
}

static void run_windows(void)
{
	spin_in_window(SHORT_LOOP, 1000);
	spin_in_window(LONG_LOOP, 3000);
	spin_in_window(LONGEST_LOOP, 30000000);
	fault_in_window();
	repeat_in_window();
	read_device_in_window();
	spin_in_tasks();
	send_in_window();
	touch_in_window();
	window_close();
	window_open(NEVER_CLOSED);
	spin(1000);
}

/* For the test, which looks up what ran where. */
static void print_symbols(FILE *to)
{
	static const char *const wanted[] = {"process_backlog", "net_rx_action", "ip_rcv",
					     "update_process_times", "asm_exc_page_fault"};
	FILE *from = fopen(KALLSYMS, "re");
	char address[32], name[512];

	check(!from, KALLSYMS);
	while (fscanf(from, "%31s %*c %511[^\n]", address, name) == 2)
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
			if (!strcmp(name, wanted[i]))
				fprintf(to, "%s %s\n", name, address);
	fclose(from);
}

int main(void)
{
	FILE *results;

	mkdir("/proc", 0755);
	mkdir("/dev", 0755);
	check(mount("proc", "/proc", "proc", 0, NULL), "mount proc");
	check(mount("dev", "/dev", "devtmpfs", 0, NULL), "mount dev");
	results = fopen("/dev/ttyS1", "we");
	check(!results, "open results");
	print_symbols(results);
	check(fclose(results), "write results");
	window_open(SHORT_LOOP);
	check(window_fill(KALLSYMS), "fill");
	check(window_add((uint64_t)touch) || window_add((uint64_t)touch_end), "add");
	window_table.program = (uint64_t)begin_packet;
	window_arm();
	/* A process of its own, as what armed is not the generator. */
	if (!fork()) {
		run_windows();
		_exit(0);
	}
	wait(NULL);
	reboot(RB_POWER_OFF);
}
