# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user can fix, with the exit status that tells scripts which kind it was."""

FAILED = 1  # the work failed
USAGE = 2  # bad input: command line, suite, inventory, parameter
REGRESSED = 3  # compare --gate: a case got slower
UNDECIDED = 4  # compare --gate: undecided or not comparable
UNAVAILABLE = 69  # this machine or port cannot do what was asked (EX_UNAVAILABLE of sysexits.h)
STORAGE = 74  # the archive cannot be written or is damaged (EX_IOERR)
BUSY = 75  # someone else uses the lab now; the same command may work later (EX_TEMPFAIL)
PRIVILEGE = 77  # a missing privilege (EX_NOPERM)
INTERRUPTED = 130  # Ctrl-C


class XdpreproError(Exception):
    """A fact with its values and no full stop; `hint` is the one command or setting that mends it."""

    def __init__(self, message: str, *, hint: str = "", status: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status
