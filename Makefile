# SPDX-License-Identifier: GPL-2.0-or-later
# Relative paths only, so that a checkout's path may hold spaces.

SHELL := /bin/bash
VENV := .venv/bin
LAB ?= veth
PYTEST_ARGS ?=

# Ansible refuses to run in another encoding, and a cron job or a CI runner may have none.
export LC_ALL := C.UTF-8
export ANSIBLE_CONFIG := ansible.cfg

.NOTPARALLEL:
.PHONY: help setup setup-test build run test lint clean

help:
	@echo "make run      install what is missing, build, and measure this kernel on a veth pair (needs root); LAB=name picks another lab"
	@echo "make test     install what is missing, build, and run all tests; PYTEST_ARGS='-k name' picks some"
	@echo "make lint     run the linters alone"
	@echo "make setup    install the distribution's packages and make the Python environment (.venv)"
	@echo "make build    build the agent and the BPF programs"
	@echo "make clean    remove what was built; the environment and the archive stay"

setup: LOCK := requirements.lock
setup-test: LOCK := requirements-test.lock
setup setup-test:
	@./bootstrap.sh $(LOCK)
	@ANSIBLE_DISPLAY_OK_HOSTS=false $(VENV)/ansible-playbook playbooks/setup.yml

build:
	@$(MAKE) --no-print-directory -C bpf
	@$(MAKE) --no-print-directory -C native

# The first job, from a bare machine to a compared result. The lab goes away whatever happens, and a trial that failed is
# no reason to hide the others: what can be shown is shown, and the first failure is the exit status.
run: setup build
	@status=0; \
	xdprepro() { echo; echo "$$ xdprepro $$*"; $(VENV)/xdprepro "$$@" || { set -- $$?; [ $$status != 0 ] || status=$$1; }; }; \
	trap 'exit 130' INT TERM; \
	trap 'trap - EXIT; xdprepro down veth; exit $$status' EXIT; \
	xdprepro up veth; [ $$status = 0 ] || exit; \
	xdprepro run smoke --lab veth --runs 2; [ $$status -le 1 ] || exit; \
	xdprepro archive verify latest latest~1; \
	xdprepro archive show latest; \
	xdprepro compare latest~1 latest; \
	xdprepro down veth; \
	trap - EXIT; \
	echo; \
	echo "The sealed runs are in $${XDPREPRO_ARCHIVE:-archive/runs}. Next: '$(VENV)/xdprepro archive ls' lists them;"; \
	echo "boot another kernel, type 'make run' again, and compare: '$(VENV)/xdprepro compare latest~2 latest'."; \
	exit $$status

test: setup-test build
	@$(VENV)/pytest $(PYTEST_ARGS)

lint: setup-test
	@$(VENV)/pytest tests/test_linters.py tests/test_imports.py $(PYTEST_ARGS)

clean:
	@$(MAKE) --no-print-directory -C bpf clean
	@$(MAKE) --no-print-directory -C native clean
	@rm -rf .ansible .mypy_cache .pytest_cache .ruff_cache
