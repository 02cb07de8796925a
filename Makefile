# What `make` does: a virtual environment in .venv, and the Debian packages that the tests need, where it may install
# them. `make help` lists the targets. Needed beforehand: Python 3.11 or newer.
#
#   RUNWATCH_NO_APT=1   install no Debian package, only say which are missing
#   PYTHON=/path        the interpreter that .venv is made with
#   TESTS=, ARGS=       what pytest runs, and more arguments for it: make test TESTS=tests/unit ARGS='-k gap'
#   AUDIT=              more arguments for scripts/audit.py, such as --no-answer-is-no-failure

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := setup

VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
TESTS ?= tests
ARGS ?=

# Programs that tests and demo run, each with the Debian package that brings it (program:package). On a machine with
# systemd Debian's `prometheus` also starts a server of its own on port 9090: harmless, and ours uses other ports.
# To be rid of it: systemctl disable --now prometheus
PROGRAMS := prometheus:prometheus promtool:prometheus amtool:prometheus-alertmanager openssl:openssl \
  squeue:slurm-wlm slurmctld:slurm-wlm slurmd:slurm-wlm slurmdbd:slurmdbd munged:munge \
  mariadbd:mariadb-server mariadb-install-db:mariadb-server docker-compose:docker-compose

# Daemons are in sbin, which is not on every user's path.
export PATH := $(PATH):/usr/sbin:/sbin

# Found by running it: a name on the PATH may be a shim of another version, or an older one.
define FIND_PYTHON
find_python() {
  local candidate
  for candidate in $(if $(PYTHON),'$(PYTHON)',python3.13 python3.12 python3.11 python3); do
    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$$candidate"
      return 0
    fi
  done
  echo "runwatch needs Python 3.11 or newer, found: $$(python3 --version 2>/dev/null || echo none)." \
    "Install it (Debian 12: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3.11" >&2
  return 1
}
endef

# Installs packages where it may, else says what to install. Never fails: who needs a missing program says so.
define INSTALL_PACKAGES
install_packages() {
  local as_root=()
  if [ "$${RUNWATCH_NO_APT:-}" = 1 ] || ! command -v apt-get >/dev/null; then
    echo "missing: $$*. Install with: apt-get install $$*" >&2
    return 0
  fi
  if [ "$$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
      echo "missing: $$*. Install with: sudo apt-get install $$*" >&2
      return 0
    fi
    as_root=(sudo -n)
  fi
  echo "installing Debian packages: $$*"
  local wait_for_lock='DPkg::Lock::Timeout=300'
  if ! { "$${as_root[@]}" apt-get -qq -o "$$wait_for_lock" update &&
    "$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o "$$wait_for_lock" \
      --no-install-recommends install "$$@" >/dev/null </dev/null; }; then
    echo "apt-get could not install: $$*" >&2
  fi
}
endef

.PHONY: setup help demo test lint bench docs audit image-lock quiet-week survivors pictures clean programs peers moved

setup: $(STAMP) programs ## make the virtual environment and install what is missing
	@echo "ready: $(VENV)/bin/runwatch --help (make help lists the other targets)"

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.* ## (.*)$$/\1\t\2/p' Makefile | expand -t 14

demo: $(STAMP) programs ## the exporter on recorded jobs, in the foreground; Ctrl-C ends it
	@exec $(VENV)/bin/runwatch demo

test: $(STAMP) programs peers ## all tests but the benchmarks
	@$(RUN) -m pytest -n 3 --dist loadfile $(TESTS) --ignore=tests/benchmarks $(ARGS)

bench: $(STAMP) programs ## the benchmarks, one at a time, with their figures
	@$(RUN) -m pytest tests/benchmarks -s -p no:xdist -o python_files='bench_*.py' -o timeout=600 $(ARGS)

quiet-week: $(STAMP) programs ## a week of healthy jobs: nothing may fire but what is listed (takes long)
	@$(RUN) -m tests.scenarios.quiet --days 7 --step 5

survivors: $(STAMP) programs ## run every mutant of the rules, and note those that no scenario kills (some minutes)
	@page=$$(mktemp)
	trap 'rm -f "$$page"' EXIT
	$(RUN) -m tests.scenarios.mutation >"$$page"
	cat "$$page" >tests/scenarios/mutation/survivors.txt

pictures: $(STAMP) programs ## draw the dashboards with Grafana's own code into build/pictures (needs chromium)
	@$(RUN) -m tests.grafana.pictures build/pictures

lint: $(STAMP) ## ruff and mypy
	@$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

audit: $(STAMP) ## look up known faults of what the image installs, and list it in build/sbom.json
	@$(RUN) scripts/audit.py $(AUDIT)

image-lock: $(STAMP) ## lock what the image installs, with hashes
	@lock=($(VENV)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
	  --quiet --upgrade --default-index https://pypi.org/simple)
	"$${lock[@]}" pyproject.toml --output-file deploy/image/requirements.txt
	"$${lock[@]}" deploy/image/build.in --output-file deploy/image/build.txt

docs: $(STAMP) ## write all generated files anew: pages of docs/, rules, dashboards, the chart's README
	@page=$$(mktemp)
	trap 'rm -f "$$page"' EXIT
	$(RUN) -m runwatch.reference >"$$page"
	cat "$$page" >docs/metrics.md
	$(RUN) -m runwatch.config.reference >"$$page"
	cat "$$page" >docs/config.md
	$(RUN) -m runwatch.states_reference >"$$page"
	cat "$$page" >docs/states.md
	$(RUN) -m runwatch.alerting alerts
	$(RUN) -m tests.scenarios.delays >"$$page"
	cat "$$page" >docs/alert-delays.md
	PYTHONPATH=grafana/src $(RUN) -m runwatch_dashboards grafana/dashboards
	$(RUN) scripts/chart_readme.py

clean: ## remove everything that make made
	@rm -rf $(VENV) .venv-iris .venv-harbor .venv-audit .venv-grafana build dist exporter/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find exporter grafana scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

programs:
	@$(INSTALL_PACKAGES)
	missing=()
	for pair in $(PROGRAMS); do
	  if ! command -v "$${pair%%:*}" >/dev/null && [[ " $${missing[*]} " != *" $${pair#*:} "* ]]; then
	    missing+=("$${pair#*:}")
	  fi
	done
	if [ "$${#missing[@]}" -gt 0 ]; then install_packages "$${missing[@]}"; fi

# Programs that the tests run in environments of their own, for they need Python 3.12: an Iris controller and Harbor.
# Where one cannot be made, its tests say so.
peers: $(STAMP)
	@for peer in iris harbor; do
	  $(RUN) scripts/$${peer}_environment.py || echo "no environment for $$peer: its tests are left out" >&2
	done

# The scripts in .venv hold its absolute path, so a checkout that was moved or copied makes it anew.
ifneq ($(file <$(STAMP)),$(CURDIR))
$(STAMP): moved
endif

$(STAMP): pyproject.toml
	@$(FIND_PYTHON)
	$(INSTALL_PACKAGES)
	if [ "$$(cat $(STAMP) 2>/dev/null)" != '$(CURDIR)' ] || ! $(RUN) -m pip --version >/dev/null 2>&1; then
	  python=$$(find_python)
	  # Debian keeps the part of the standard library that puts pip into an environment in a package of its own.
	  if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then
	    install_packages "$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
	  fi
	  # uv, which pip installs, finds versions that go together in seconds where pip takes a minute.
	  echo "making $(VENV) with $$python"
	  rm -rf $(VENV)
	  "$$python" -m venv $(VENV)
	fi
	echo "installing runwatch and what it needs into $(VENV) (some minutes the first time)"
	$(RUN) -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/bin/uv pip install --quiet --python $(RUN) -e '.[dev]'
	printf '%s' '$(CURDIR)' >$(STAMP)
