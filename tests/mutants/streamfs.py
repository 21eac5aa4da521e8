#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Does the model test see what it is there to see? Each mutant is StreamFS with one fault: a copy of one
source with one piece of text replaced, compiled and linked to the model test instead of the sound one. The
test must fail within so many seeds. A text that is no longer found, or is found twice, fails as well: then
the mutant is to be brought up to date with the source.

  make mutants [MUTANTS="name ..."] [CASES=10000]
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import time

# tests/mutants/truth.py has others
SOURCES = "logger/streamfs"
TEST = "test_streamfs_model"
PREFIX = "SFS"  # of the test's environment variables
CASES = 10000

# name, file, text, what it becomes, what is wrong then; perhaps the unit test that finds it, or the seed to begin with
MUTANTS = [
    ("no-sync", "append.c",
     "\t\tsubmit_syncs(sfs, SFS_SYNCING);", "\t\tw->state = SFS_SYNCING;",
     "records are called durable that were written and not synced"),
    ("no-root-sync", "append.c",
     "\t\tsubmit_syncs(sfs, SFS_ROOT_SYNCING);", "\t\tw->state = SFS_ROOT_SYNCING;",
     "blocks are written over before the root that gives them up is durable"),
    ("no-first-sync", "writer.c",
     "if (mend_maps(sfs, err) < 0 || sfs_sync_disks(sfs, err) < 0)", "if (mend_maps(sfs, err) < 0)",
     "what recovery found in the cache of a killed program's disk is called durable"),
    ("no-store-sync", "root.c",
     "\tif (sfs_sync_disks(sfs, err) < 0)\n\t\treturn -1;\n\tsfs_root_done(sfs);", "\tsfs_root_done(sfs);",
     "a root stored outside a flush counts at once"),
    ("one-disk-synced", "append.c",
     "\tsfs->w->state = state;\n\tfor (uint16_t i = 0; i < sfs->disks; i++)",
     "\tsfs->w->state = state;\n\tfor (uint16_t i = 0; i < 1; i++)",
     "only the first of several disks is synced"),
    ("sync-overtakes", "append.c",
     "\t\tif (w->in_flight[w->flush_parity ^ 1] > 0)\n\t\t\treturn false;\n", "",
     "the sync does not wait for the writes that it is to make durable"),
    ("durable-too-far", "append.c",
     "\t\ts->durable_sequence = sfs->w->tail[i].target;", "\t\ts->durable_sequence = s->last_sequence;",
     "records appended while a flush was under way are called durable with it"),
    ("root-before-data", "append.c",
     "\t\tsubmit_syncs(sfs, SFS_SYNCING);\n\t\tbreak;",
     "\t\tif (w->checkpoint) {\n\t\t\twrite_roots(sfs);\n\t\t\tbreak;\n\t\t}\n\t\tsubmit_syncs(sfs, SFS_SYNCING);\n\t\tbreak;",
     "the root says that blocks are written which are not on the device"),
    ("evicted-early", "append.c",
     "\tw->root_pending = w->frontier.pending;",
     "\tsfs_frontier_release_pending(&w->frontier, w->frontier.pending);\n\tw->root_pending = w->frontier.pending;",
     "evicted blocks are written over before the root that gives them up"),
    ("one-root-copy", "root.c",
     "return sfs->root_copy[disk] ? 0 : SFS_ROOT_BYTES;", "return 0 * disk * sfs->disks;",
     "the root is written over the only good one"),
    ("root-by-parity", "root.c",
     "return sfs->root_copy[disk] ? 0 : SFS_ROOT_BYTES;",
     "return (sfs->root.generation + 1) & 1 && disk < sfs->disks ? SFS_ROOT_BYTES : 0;",
     "a disk that a crash left behind loses its only good root"),
    ("limit-forgotten", "table.c",
     "return f->next_generation - 1 + f->ready + f->pending;", "return f->next_generation - 1;",
     "generations are used again after a crash"),
    ("window-forgotten", "table.c",
     "\tf->window = (f->clear + t->blocks - position) % t->blocks;", "\tf->window = 0;",
     "recovery does not look for blocks written since the root"),
    ("header-again", "append.c",
     "uint32_t from = tail->submitted, full", "uint32_t from = 0, full",
     "each flush of a block writes its header and durable records again"),
    ("shared-sector", "append.c",
     "\ttail->submitted = end;", "\ttail->submitted = end - SFS_SECTOR;",
     "the next flush writes the sector again in which the last one ended"),
    ("scan-any-generation", "record.c",
     "\tpr_put_le64(p + 8, place->generation);", "\tpr_put_le64(p + 8, 0);",
     "a record of the block's former life counts"),
    ("scan-any-sequence", "reader.c",
     "\tif (state != SFS_RECORD_NONE && out->sequence != scan->sequence)\n\t\treturn SFS_RECORD_NONE;\n", "",
     "a block goes on behind a record that the crash has taken"),
    ("handle-any-generation", "reader.c",
     [("if (sfs_view_entry(sfs, h->block, e) && e->generation == h->generation &&\n\t\te->stream == h->stream &&",
       "if (sfs_view_entry(sfs, h->block, e) &&"),
      ("if (!sfs_view_entry(sfs, block, &e) || e.generation != generation)",
       "if (!sfs_view_entry(sfs, block, &e))")], None,
     "a handle to a recycled block finds damage instead of nothing"),
    ("no-proof", "reader.c",
     "record) == SFS_RECORD_GOOD &&\n\t       is_that", "record) != SFS_RECORD_NONE &&\n\t       is_that",
     "records are given whose bytes do not fit their hash"),
    ("hash-without-times", "record.c",
     [("size_t fields = header_size(record) - FIELDS_AT, end", "size_t fields = 4, end"),
      ("size_t len = header_size(record) - 4;", "size_t len = 16;")], None,
     "neither hash nor check covers a record's times"),
    ("durable-in-part", "append.c",
     "\ttail->target = good ? last - tail->waiting : 0;", "\ttail->target = good ? last : 0;",
     "records are called durable of which the last sector was not written"),
    ("rest-forgotten", "append.c",
     "\ttail->waiting = tail->partial;", "\ttail->waiting = 0;",
     "what does not fill a sector is taken for written"),
    ("map-in-window", "recover.c",
     "\t\tif (in_window(sfs, root, b) ||\n\t\t\tsfs_order_ahead(order, b, root->frontier) > ahead)",
     "\t\tif (sfs_order_ahead(order, b, root->frontier) > ahead)",
     "a block map is believed about blocks that were written since the root"),
    ("late-any-generation", "recover.c",
     "if (e->state == SFS_SEALED && e->generation == m->generation &&", "if (e->state == SFS_SEALED &&",
     "a map's late entry is taken for the block's next life"),
    ("map-never-open", "writer.c",
     "sfs_map_entry_make(e, block, e->state == SFS_OPEN ? SFS_MAP_OPEN : 0)", "sfs_map_entry_make(e, block, 0)",
     "a map tells for good how a block ended that was still being filled"),
    ("map-over-headers", "recover.c",
     "map), headers = !known;", "map), headers = false;",
     "the map of the last lap is believed about blocks that were written since"),
    ("maps-not-mended", "writer.c",
     "\t\tif (!sfs_table_is_map(&sfs->table, block)) {\n\t\t\tuint64_t generation",
     "\t\tif (pos < r->blocks) {\n\t\t\tuint64_t generation",
     "maps that a crash has taken are not written again"),
    ("replaced-blocks-stay", "recover.c",
     " ||\n\t\t\te->first_sequence >= limit) {", ") {\n\t\t\t(void)limit;",
     "blocks come back that a crash had taken and others replaced"),
    ("gaps-pass", "recover.c",
     "\t\tif (!going) {", "\t\tif (false) {",
     "what lies behind a gap in a stream is kept"),
    ("evict-one", "table.c",
     "\tuint32_t gone = s->oldest,", "\tuint32_t gone = block,",
     "recycling a block leaves older ones of its stream"),
    ("no-guarantee", "table.c",
     "after <= need || !outlived(t, e, after)", "after == 0",
     "blocks are recycled that a guarantee covers"),
    ("evicted-come-back", "table.c",
     "\ts->oldest_generation = e->generation + 1;", "\ts->oldest_generation = 0;",
     "evicted blocks that were not written over come back after a crash"),
    ("reset-not-stored", "streams.c",
     "\treturn sfs_root_store(sfs, 0, err);\n", "\treturn SFS_OK;\n",
     "what was reset comes back"),
    ("trim-not-stored", "delete.c",
     "\treturn store_and_wipe(sfs, err) < 0 ? SFS_ERROR : SFS_OK;",
     "\treturn sfs_wipe(sfs, err) < 0 ? SFS_ERROR : SFS_OK;",
     "what was deleted is wiped before the root that gives it up is durable"),
    ("trim-too-far", "delete.c",
     "if (e->max_time > what->until ||", "if (e->min_time > what->until ||",
     "a block goes that has records behind the time"),
    ("wipe-not-finished", "writer.c",
     "\tif (sfs_wipe(sfs, err) < 0)\n\t\treturn -1;\n", "",
     "a crash amid a deletion leaves on the device what was deleted"),
    ("wipe-not-noted", "root.c",
     "\tif (r->flags & SFS_REPAIR_WIPE)\n\t\treturn true;", "\tif (r->flags & SFS_REPAIR_WIPE)\n\t\treturn false;",
     "the root does not say what is to be wiped"),
    ("hole-not-stored", "delete.c",
     "\tif (store_and_wipe(sfs, err) < 0 || (!out->more", "\tif (sfs_wipe(sfs, err) < 0 || (!out->more",
     "what was deleted from the midst is written over before a root that says so is durable"),
    ("hole-not-persisted", "root.c",
     "\troot->repair_count = kept + sfs->holes;", "\troot->repair_count = kept;",
     "the root does not say what was deleted from the midst"),
    ("hole-not-synced", "delete.c",
     "\tif (rc == 0)\n\t\trc = sfs_sync_disks(sfs, err);\n\tif (rc == 0) {", "\tif (rc == 0) {",
     "what was deleted from the midst comes back from under zeros that were not synced"),
    ("hole-not-pending", "holes.c",
     "\t\tsfs->erasing += (h.flags & SFS_REPAIR_WIPE) != 0;\n\t}\n}\n", "\t}\n}\n",
     "a crash amid a deletion from the midst leaves on the device what was deleted"),
    ("no-redo", "delete.c",
     "\t\tmemset(bytes + from, 0, end - from);\n\t\tput_redo(sfs, block, head, bytes);",
     "\t\tmemset(bytes + from, 0, end - from);",
     "a sector that has kept bytes, too, is not written over as a whole"),
    ("redo-not-read", "reader.c",
     "\tsfs_redo_over(sfs, block, from, to, buf);\n", "",
     "a torn write over a sector takes what was kept in it"),
    ("hole-too-wide", "delete.c",
     "return min_time >= d->what.since && max_time <= d->what.until;", "return max_time >= d->what.since && max_time <= d->what.until;",
     "a record goes that reaches beyond the time"),
    ("hole-swallows-next", "recover.c",
     "\t\t\tscan.sequence = hole.first_sequence + hole.records;\n\t\t\te->end = scan.end;", "\t\t\tscan.sequence = hole.first_sequence;",
     "recovery does not know how far deleted records went"),
    ("erase-next", "delete.c",
     "\t\t*to = h.offset;", "\t\t*to = h.offset + 8;",
     "zeros are written over the record behind a deleted one"),
    ("never-unclean", "root.c",
     "\troot.flags = flags;", "\troot.flags = flags | SFS_ROOT_CLEAN;",
     "recovery takes each root for a clean end"),
    ("table-from-cache", "recover.c",
     "\t\tif (!good && !sfs_scan_resync(&scan, run->durable + 1, &h))\n\t\t\tbreak;",
     "\t\tif (!good && (h.length == 0 || !run))\n\t\t\tbreak;\n\t\tif (!good)\n\t\t\tscan.sequence++, scan.pos += h.size + 8;\n\t\tif (scan.pos + 200 > scan.end)\n\t\t\tbreak;",
     "recovery counts records that it has not proved"),
    ("grow-old-maps", "create.c",
     "turn_frontier(sfs, p, err) < 0 || write_maps(sfs, err) < 0 ||", "turn_frontier(sfs, p, err) < 0 || (false && write_maps(sfs, err)) ||",
     "a volume that has grown believes the maps of its old order"),
    ("grow-root-first", "create.c",
     "\treturn sfs_sync_disks(sfs, err);\n}\n\nint\nsfs_grow_open", "\treturn 0;\n}\n\nint\nsfs_grow_open",
     "the root that speaks of a new device does not wait for that device's"),
    ("grow-same-generations", "create.c",
     "uint64_t generation = f->next_generation + f->ready + f->pending;", "uint64_t generation = f->next_generation - 1;",
     "a volume that has grown gives generations again"),
    ("write-under-way", "writer.c",
     "\tif (s->in_flight > 0)\n\t\treturn false;\n", "",
     "a buffer is used again while it is being written"),
]


def mutate(source, old, new):
    with open(os.path.join(SOURCES, source), encoding="utf-8") as f:
        text = f.read()
    for piece, other in old if isinstance(old, list) else [(old, new)]:
        if text.count(piece) != 1:
            raise RuntimeError(
                f"its text is {text.count(piece)} times in {SOURCES}/{source}: bring it up to date")
        text = text.replace(piece, other)
    return text


def command(variable, default=""):
    return os.environ.get(variable, default).split()


def build(test, name, source, old, new, folder):
    copy, program = os.path.join(folder, name + ".c"), os.path.join(folder, name)
    with open(copy, "w", encoding="utf-8") as f:
        f.write(mutate(source, old, new))
    # what a mutant leaves unused is no fault of it
    done = subprocess.run(command("COMPILE", "gcc -O2 -D_GNU_SOURCE -std=c11 -I.") + ["-w", "-o", program, copy,
        os.path.join(os.environ.get("PACKRACK_BUILD", "build"), "tests/unit/%s.o" % test)]
        + (command("WRAP") if test == TEST else []) + command("LIBRARIES"), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError("does not compile:\n" + done.stderr)
    return program


def try_mutant(mutant, cases, folder):
    """The first seed, or the unit test, that fails and what it said; None when the mutant lives."""
    name, source, old, new, _, where = (*mutant, 1)[:6]
    unit = where if isinstance(where, str) else None
    program = build(unit or TEST, name, source, old, new, folder)
    env = dict(os.environ, **{PREFIX + "_SEED": str(where), PREFIX + "_CASES": str(cases), PREFIX + "_JOBS": "1"})
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=False)
    os.unlink(program)
    if done.returncode == 0:
        return None
    found = re.search(PREFIX + r"_SEED=(\d+)\b:?(.*)", done.stderr)
    if unit:
        found = re.search(r"tests/unit/(\S+:\d+):[EF]:[^:]*:(.*)", done.stdout)
        if not found:
            raise RuntimeError("its test does not end:\n" + done.stdout[-200:] + done.stderr[-200:])
    return (found.group(1), found.group(2)) if found else ("?", done.stderr[-200:])


def run(mutant, cases, folder):
    start = time.monotonic()
    try:
        found = try_mutant(mutant, cases, folder)
    except RuntimeError as e:
        return False, f"not ok {mutant[0]}: {e}"
    seconds = time.monotonic() - start
    if not found:
        return False, f"not ok {mutant[0]}: lives for {cases} cases ({mutant[4]})"
    where = found[0] if ":" in found[0] else f"seed {found[0]}"
    return True, f"ok {mutant[0]}: {where}, {seconds:.1f} s: {found[1][:100]}"


def main():
    wanted = sys.argv[1:]
    unknown = set(wanted) - {m[0] for m in MUTANTS}
    if unknown:
        sys.exit("no mutant " + " ".join(sorted(unknown)))
    cases = int(os.environ.get("CASES") or CASES)
    folder = os.path.join(os.environ.get("PACKRACK_BUILD", "build"), "mutants")
    os.makedirs(folder, exist_ok=True)
    chosen = [m for m in MUTANTS if not wanted or m[0] in wanted]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for good, line in pool.map(lambda m: run(m, cases, folder), chosen):
            failed += not good
            print(line, flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} mutants found")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
