"""Collects mutations: edits that make a module wrong, and the words by which the
verifier must refuse each.

SPDX-License-Identifier: Apache-2.0
"""

from collections import namedtuple

HALF, BRAIN = "16-mixed", "bf16-mixed"
BOTH = (HALF, BRAIN)

# `network` is a key of NETWORKS in test_mutations.py; `message` is a regular
# expression; `edit` changes a Module.
Mutation = namedtuple("Mutation", "name network mode message edit")
MUTATIONS = []


def mutation(networks, message, modes=BOTH):
    """Adds the decorated edit for every network, in every mode. Networks take
    turns if `networks` has a | : the first in the first mode, and so on."""

    def add(edit):
        groups = networks.split("|")
        for index, mode in enumerate([modes] if isinstance(modes, str) else modes):
            for network in groups[index % len(groups)].split():
                MUTATIONS.append(
                    Mutation(edit.__name__, network, mode, message, edit)
                )
        return edit

    return add
