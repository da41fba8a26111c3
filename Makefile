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
	@echo "make run      install what is missing, build, and measure this kernel on a lab, LAB=veth (as root)"
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

run: setup build
	@./first-run.sh "$(LAB)"

test: setup-test build
	@$(VENV)/pytest $(PYTEST_ARGS)

lint: setup-test
	@$(VENV)/pytest tests/test_linters.py tests/test_imports.py $(PYTEST_ARGS)

clean:
	@$(MAKE) --no-print-directory -C bpf clean
	@$(MAKE) --no-print-directory -C native clean
	@rm -rf .ansible .mypy_cache .pytest_cache .ruff_cache
