"""Notes the address of every connection that this process tries to make, whoever makes it and however."""

import sys

connects = []


def _note(event, arguments):
    if event == "socket.connect":
        connects.append(arguments[1])


sys.addaudithook(_note)
