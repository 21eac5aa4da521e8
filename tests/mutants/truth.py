#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Does the model of truth see what it is there to see? As streamfs.py, for what makes answers complete: dispatcher,
logger, indexer and merger.

  make mutants [TRUTH_MUTANTS="name ..."] [CASES=3000]
"""
import streamfs as mutants

mutants.SOURCES = "."
mutants.TEST = "test_truth_model"
mutants.PREFIX = "TRUTH"
mutants.CASES = 3000

# name, file, text, what it becomes, what is wrong then
mutants.MUTANTS = [
    ("said-is-now", "dispatcher/sender.c",
     "live ? atomic_load(&links[i].captured_until) : pr_now_real()",
     "pr_now_real()",
     "the ledger confirms time whose packets still lie in the kernel"),
    ("mark-before-logs", "dispatcher/rack_control.c",
     "\tprd_logs_flush(&s->logs, node, INT64_MAX, s->now);\n",
     "",
     "a MARK declares packets whose timestamp logs are not sent yet"),
    ("mark-not-waiting", "logger/node.c",
     "\t\t\t    n->s.match, info->link, info->waiting.link.last_log))\n\t\t\treturn;",
     "\t\t\t    n->s.match, info->link, info->waiting.link.last_log))\n\t\t\t(void)0;",
     "a node's ledger declares packets that it has not settled"),
    ("generation-ignored", "logger/node.c",
     "if (f->header.flags == info->observation.generation)",
     "if (true)",
     "a MARK is taken without the unobserved times that belong to it"),
    ("again-forgets", "proto/wire/frame.c",
     "last->until = until > last->since ? until : last->since;",
     "last->until = last->since;",
     "a time without carrier is forgotten when the carrier is back"),
    ("no-seal-before-mark", "logger/volume_writer.c",
     "\t\t\tprl_writer_seal(a, a->outs[i]);\n\t}\n\tprl_writer_tell",
     "\t\t\t(void)0;\n\t}\n\tprl_writer_tell",
     "the ledger declares packets that readers do not find yet"),
    ("pending-complete", "merger/completeness.c",
     "!r->pending_packets",
     "true",
     "an answer without packets that are on their way is complete"),
    ("missing-complete", "merger/completeness.c",
     "!r->missing_packets",
     "true",
     "an answer that lacks packets is complete"),
    ("evicted-complete", "merger/completeness.c",
     "\tr->complete &= !r->n_evicted;",
     "\tr->complete &= true;",
     "an answer without what was overwritten is complete"),
    ("unobserved-complete", "merger/completeness.c",
     "!r->n_unobserved",
     "true",
     "an answer over time that nobody observed is complete"),
    ("loss-margin", "indexer/query/answer.c",
     "#define LOSS_MARGIN (2 * PR_NS_PER_S)",
     "#define LOSS_MARGIN 0",
     "a loss at the end of the range does not explain its hole"),
    ("losses-not-sent", "indexer/query/answer.c",
     "\t\t\tif (l->first_seq == 0 ||",
     "\t\t\tif (true ||",
     "a node does not say what it has lost"),
    ("log-gone-guess", "logger/timestamp_match.c",
     "\tif (!next || next->first_seq <= link->last_seq + 1)\n\t\treturn;",
     "\tif (!next || next->first_seq <= link->last_seq + 1) {\n\t\tloss->first_seq = loss->last_seq = link->last_seq + 1;\n\t\treturn;\n\t}",
     "a log that is gone is taken for the next seq"),
    ("stop-never-ends", "dispatcher/inputs.c",
     "} else if (!running && r->last_time > r->stopped) {",
     "} else if (false) {",
     "the capture of a busy link goes on after a stop"),
    ("loss-untold", "logger/node.c",
     "\tprl_writer_tell(n->c.append, &e);\n}\n\nstatic void\non_packet",
     "\t(void)n; (void)e;\n}\n\nstatic void\non_packet",
     "a node does not note what it has lost"),
]

if __name__ == "__main__":
    mutants.main()
