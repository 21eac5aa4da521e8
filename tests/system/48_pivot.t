#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packrack pivot: the files of alerts have the packets of their connections, no more and no less, from trace files, volumes and a
# rack that captures; logs rotate; a burst is served; what is no alert gets one line.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/system/lib.sh
. tests/system/lib.sh
need_root
need_commands tcpdump tshark jq python3
need_programs packrack packrack-pivot packrack-dispatcher packrack-logger packrack-indexer packrack-merger
need_data
new_lab
PACKRACK=$BUILD/packrack
ORACLE=tests/system/pivot_oracle.py
FULL=$DATA/mix-gateway-full-a.pcap
VLAN=$DATA/a-general/vast__vlan.pcap
PIDS=()
trap 'kill "${PIDS[@]}" 2> /dev/null; end_labs' EXIT
cd "$LAB_DIR" || exit 1
ln -s "$TOP/tests" tests

# ---- without a rack ----

exact() { # STATUS FORM CAPTURE N SOURCE...
	local input=--zeek rc=0
	[ "$2" != eve ] || input=--eve
	rm -rf files
	"$ORACLE" make "$2" "$3" "$4" alerts || return 1
	"$PACKRACK" pivot "$input" alerts -w files --json "${@:5}" > lines 2> said || rc=$?
	cat said
	((rc == $1)) && "$ORACLE" check "$3" alerts lines
}
"$PACKRACK" import "$FULL" --volume full.vol --create 64M > /dev/null 2>&1
"$PACKRACK" import "$VLAN" --volume vlan.vol --create 64M > /dev/null 2>&1
run_step "Suricata's alerts, of a trace file" exact 0 eve "$FULL" 50 -r "$FULL"
run_step "tshark's filters give the same" "$ORACLE" tshark "$FULL" lines 5
run_step "of a volume (some times are outside of it)" exact 3 eve "$FULL" 100 --volume full.vol
run_step "with these times allowed" exact 0 eve "$FULL" 100 --volume full.vol --allow file,before
run_step "Zeek's conn.log" exact 0 zeek "$FULL" 50 -r "$FULL"
run_step "its notices, as JSON" exact 0 json "$FULL" 50 -r "$FULL"
run_step "a log without protocols" exact 0 http "$FULL" 50 -r "$FULL"
run_step "headers only" exact 0 eve "$DATA/mix-gateway-hdr96-a.pcap" 20 -r "$DATA/mix-gateway-hdr96-a.pcap"
run_step "behind VLAN tags" exact 0 eve "$VLAN" 30 -r "$VLAN"
run_step "also of a volume" exact 0 zeek "$VLAN" 30 --volume vlan.vol --allow file,before
all_in_one() { # SOURCE...
	"$ORACLE" make eve "$FULL" 200 alerts && "$PACKRACK" pivot --eve alerts --merge -w all.pcapng "$@" > lines &&
		(($(wc -l < lines) == 200)) && "$ORACLE" merged "$FULL" alerts all.pcapng && jq -e .completeness all.pcapng.json > report
}
run_step "one file for 200 alerts" all_in_one -r "$FULL"
run_step "of a volume" all_in_one --volume full.vol --allow file,before
packets() { # FILE
	tcpdump -r "$1" --count 2> /dev/null | awk '{ print $1 + 0 }'
}

# ---- one connection ----

one() { # FILE FILTER OPTION...: as many as tcpdump finds
	rm -f one.pcapng
	"$PACKRACK" pivot "${@:3}" -w one.pcapng -r "$1" || return 1
	(($(packets one.pcapng) > 1 && $(packets one.pcapng) == $(tcpdump -r "$1" -w - "$2" 2> /dev/null | tcpdump -r - --count 2> /dev/null | awk '{ print $1 + 0 }')))
}
SSH='tcp and host 131.159.14.23 and host 192.150.186.169 and port 22 and port 49244'
run_step "by its ends" one "$FULL" "$SSH" --tuple tcp,192.150.186.169,49244,131.159.14.23,22
run_step "ICMP by addresses" one "$FULL" "$(tcpdump -r "$FULL" -n -c 1 'icmp[icmptype] = icmp-echo' 2> /dev/null |
	awk '{ sub(":", "", $5); print "icmp and host " $3 " and host " $5 }')" --tuple "$(tcpdump -r "$FULL" -n -c 1 'icmp[icmptype] = icmp-echo' 2> /dev/null |
	awk '{ sub(":", "", $5); print "icmp," $5 "," $3 }')"
of_the_specification() { # FILE PROTOCOL: each of its Community IDs, with the seed of the baseline
	local seed=$2 name=$1 id a b ap bp n=0
	while IFS=$'\t' read -r id a ap b bp; do
		[ -n "$(tcpdump -r "$DATA/community-id/$name.pcap" -c 1 "host $a and host $b and port $ap and port $bp" 2> /dev/null)" ] || continue # of another file
		one "$DATA/community-id/$name.pcap" "host $a and host $b and port $ap and port $bp" --community-id "$id" --seed "$seed" || { echo "$id"; return 1; }
		n=$((n + 1))
	done < <(jq -r '.[] | select(.proto == '"$3"') | [.communityid, .saddr, .sport, .daddr, .dport] | @tsv' "$DATA/community-id/baseline_$4.json" | sort -u -k1,1)
	echo "$n IDs"
	((n > 0))
}
run_step "by the Community IDs of the specification" of_the_specification tcp 0 6 deflt
run_step "with another seed" of_the_specification udp 1 17 seed1
run_step "which is needed" says 2 'is the seed another' "$PACKRACK" pivot --community-id 1:qvV9XIIALe4vdFn5sDXy/gBOSNE= --seed 7 -r "$DATA/community-id/udp.pcap" -w one.pcapng
around() { # --at, --before and --after choose
	local at
	at=$(tcpdump -r "$FULL" -tt -n -c 5 "$SSH" 2> /dev/null | awk 'END { print $1 }')
	"$PACKRACK" pivot --tuple tcp,192.150.186.169,49244,131.159.14.23,22 --at "@$at" --before 0s --after 0s --skew 0s -r "$FULL" -w one.pcapng &&
		(($(packets one.pcapng) >= 1 && $(packets one.pcapng) < 5))
}
run_step "around a time" around

# ---- what is wrong is told in a line, and the rest is served ----

left_out() { # TEXT LINE [OPTION...]: LINE is left out for this reason, the alert behind it is served
	printf '%s\n' "$2" "$(head -n 1 good)" > mixed
	says 3 "$1" "$PACKRACK" pivot --eve mixed -w files -r "$FULL" "${@:3}" && grep -q '^packrack pivot: mixed:1: left out: ' err &&
		grep -q '^mixed:2: .* packets, complete$' out && (($(wc -l < err) == 2))
}
"$ORACLE" make eve "$FULL" 3 good > /dev/null
alert() { # NAME JSON: an alert of which a field is changed
	jq -c ".$1 = $2" <(head -n 1 good)
}
run_step "no JSON" left_out 'no JSON' '{"timestamp": '
run_step "no event" left_out 'no event_type' '{}'
run_step "an address of nonsense" left_out 'src_ip "1.2.3.4.5" is no address' "$(alert src_ip '"1.2.3.4.5"')"
run_step "no address" left_out 'no dest_ip' "$(alert dest_ip null)"
run_step "addresses of two kinds" left_out 'of two kinds' "$(alert src_ip '"::1"')"
run_step "a port of nonsense" left_out 'is none: 0 to 65535' "$(alert src_port '"-1"')"
run_step "a filter as an address" left_out 'is no address' "$(alert src_ip '"10.0.0.1 or tcp"')"
run_step "a time of nonsense" left_out 'is no time' "$(alert timestamp '"yesterday"')"
run_step "nested without end" left_out 'no JSON' "$(printf '[%.0s' {1..100000})"
run_step "a number that is too long" left_out 'no JSON' '{"timestamp": 1e99999999999999999999}'
run_step "a line of three megabytes" left_out 'longer than 1 MiB' "$(head -c 3000000 /dev/zero | tr '\0' x)"
run_step "a control character is not shown" left_out 'is no address' "$(alert src_ip '"1\u001b[2J"')"
refute_step "nowhere" 1 grep -q $'\033' err
not_zeek() {
	printf 'a\tb\n' > mixed && says 3 'no line #fields' "$PACKRACK" pivot --zeek mixed -w files -r "$FULL" &&
		printf '#separator ,\n' > mixed && says 3 'separator is no tab' "$PACKRACK" pivot --zeek mixed -w files -r "$FULL"
}
run_step "no log of Zeek" not_zeek
hosts() { # a notice without a connection
	printf '{"ts": %s, "note": "Scan::Port_Scan", "src": "131.159.14.23"}\n' "$(tcpdump -r "$FULL" -tt -n -c 1 "$SSH" 2> /dev/null | awk '{ print $1 }')" > mixed
	says 0 'host 131.159.14.23' "$PACKRACK" pivot --zeek mixed -w one.pcapng --merge -r "$FULL" --before 1h --after 1h &&
		(($(packets one.pcapng) == $(tcpdump -r "$FULL" -w - host 131.159.14.23 2> /dev/null | tcpdump -r - --count 2> /dev/null | awk '{ print $1 + 0 }')))
}
run_step "a notice of a host" hosts
ahead() { # of the clock
	alert timestamp "\"$(date -u -d '+5 hours' +%FT%T.000000+0000)\"" > mixed
	says 3 'ahead of this machine' "$PACKRACK" pivot --eve mixed -w files --volume full.vol
}
run_step "an alert of in five hours" ahead
long_ago() {
	alert timestamp '"2001-01-01T00:00:00.000000+0000"' | jq -c 'del(.flow)' > mixed
	says 3 '0 packets, partial: nothing is stored of 2000-12-31T23:58:59' "$PACKRACK" pivot --eve mixed -w files --volume full.vol
}
run_step "an alert of long ago" long_ago
hours_off() { # the NIDS's clock is two hours behind, and we know
	jq -c '.timestamp |= (.[0:19] + "Z" | fromdate - 7200 | todate) | del(.flow)' <(head -n 1 good) > mixed
	says 0 'complete' "$PACKRACK" pivot --eve mixed -w files -r "$FULL" --skew 3h && ! grep -q ' 0 packets' out
}
run_step "a clock of two hours ago" hours_off
another_seed() {
	alert community_id '"1:AAAAAAAAAAAAAAAAAAAAAAAAAAA="' > mixed && says 0 'if the NIDS has another seed' "$PACKRACK" pivot --eve mixed -w files -r "$FULL" &&
		grep -q ' packets, complete' out
}
run_step "Community IDs of another seed" another_seed
run_step "no volume" says 1 'failed: ' "$PACKRACK" pivot --eve good -w files --volume "$LAB_DIR/nosuch"
run_step "no file of alerts" says 2 'there is no such file' "$PACKRACK" pivot --eve nosuch -w files --volume full.vol
run_step "a pipe as a trace" says 2 'a pipe is read once' "$PACKRACK" pivot --eve good -w files -r -
run_step "--follow of a connection" says 2 'of --eve and --zeek' "$PACKRACK" pivot --tuple tcp,1.2.3.4,1,1.2.3.5,2 -f -w files --volume full.vol
run_step "no tuple" says 2 'PROTO,ADDRESS,PORT' "$PACKRACK" pivot --tuple tcp,1.2.3.4 -w files --volume full.vol
run_step "no Community ID" says 2 'version 1' "$PACKRACK" pivot --community-id 2:x -w files --volume full.vol
too_many() {
	"$ORACLE" make eve "$FULL" 700 alerts && says 1 'more than 500 connections' "$PACKRACK" pivot --eve alerts --merge -w one.pcapng --volume full.vol
}
run_step "too many for one file" too_many
anywhere() {
	: > none
	export PACKRACK
	tests/system/interrupts.py "$TOP/merger/pivot/packrack-pivot" 1 60 1 --eve none --follow -w files --volume full.vol &&
		tests/system/interrupts.py "$TOP/merger/pivot/packrack-pivot" 1 2000 50 --eve good --follow --since @0 -w files --volume full.vol
}
run_step "interrupted at any of its lines, it ends" anywhere

# ---- rules that are none ----

no_rules() { # WORDS TEXT: one line, with the file, the section and the key
	printf '%s\n' "$2" > rules
	says 2 "$1" "$PACKRACK" pivot --eve good -w files --volume full.vol --rules rules && (($(wc -l < err) == 1)) && grep -q '^packrack pivot: rules: ' err
}
run_step "rules: no section" no_rules 'there is no rule' ''
run_step "rules: a line without a section" no_rules 'no section' 'sid = 1'
run_step "rules: a section twice" no_rules 'already exists' $'[a]\n[a]'
run_step "rules: no such key" no_rules '[a] sidd = 1: there is no such key' $'[a]\nsidd = 1'
run_step "rules: no number" no_rules 'numbers and ranges' $'[a]\nsid = 1-x'
run_step "rules: no duration" no_rules 'is no duration' $'[a]\nlift = soon'
run_step "rules: where to move" no_rules 'as in: src alarms 1h' $'[a]\nmove = alarms'
run_step "rules: a name of a hold" no_rules 'up to 16 letters' $'[a]\nhold = src ../../etc'
run_step "rules: a hook that is not there" no_rules 'whole path of a program' $'[a]\nhook = nosuch'
run_step "rules: neither yes nor no" no_rules 'yes or no' $'[a]\nsave = perhaps'
run_step "rules: a limit that is none" no_rules 'a number of alerts in a minute' $'[a]\nlimit = yes'
run_step "rules: without a file" says 1 'nosuch: No such file' "$PACKRACK" pivot --eve good -w files --volume full.vol --rules nosuch
run_step "rules of one connection" says 2 'of --eve and --zeek' "$PACKRACK" pivot --tuple tcp,1.2.3.4,1,1.2.3.5,2 -w files --volume full.vol --rules rules
run_step "--state without --follow" says 2 'of --follow of a file' "$PACKRACK" pivot --eve good -w files --volume full.vol --state state
chosen() { # by all tests of a rule: others are passed over
	jq -c '.alert += {category: "Misc Attack", severity: 2}' <(head -n 2 good | tail -n 1) > mixed
	sed -n 1p good >> mixed
	printf '[misc]\nsid = 1, 2013000-2013099\ncategory = Potentially *\n\tMisc *\nseverity = 1-2\n' > rules
	says 0 '1 alert of no rule; 0 actions, 0 failed' "$PACKRACK" pivot --eve mixed -w files --volume full.vol --allow file,before --rules rules && (($(wc -l < out) == 1)) &&
		printf '[none]\nnote = *\n' > rules && says 0 '2 alerts of no rule' "$PACKRACK" pivot --eve mixed -w files --volume full.vol --rules rules && [ ! -s out ]
}
run_step "rules choose" chosen

# ---- a rack ----

up() { # and a range of some seconds is complete
	"$RACK" up -n 3 -- --class 'all; cutoff=100M' --class 'alarms; filter=host 203.0.113.1; precedence=5' && poll_until 30 "$PACKRACK" query -q --count --since "5s ago"
}
run_step "a rack of three nodes" up
# A datagram each of COUNT ports from FIRST on, or COUNT of port FIRST; prints the times (ns).
send() { # FIRST COUNT [PAUSE: of one port]
	"$RACK" exec hosta python3 -uc 'import socket, sys, time
first, count, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
for i in range(count):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0", first + i * (not pause)))
    print(first + i * (not pause), time.time_ns())
    s.sendto(b"x" * 50, ("192.0.2.2", 7777))
    s.close()
    time.sleep(pause)' "$1" "$2" "${3-0}"
}
as_alerts() { # of what send prints
	jq -R -c 'split(" ") | {timestamp: (.[1][0:10] | tonumber | todate | .[0:19]), event_type: "alert", src_ip: "192.0.2.1", src_port: (.[0] | tonumber),
		dest_ip: "192.0.2.2", dest_port: 7777, proto: "UDP", alert: {signature_id: 1}} * {n: .[1][10:16]} | .timestamp += "." + .n + "+0000" | del(.n)'
}
made() { # so many of its files
	find live -name "*.$1" | wc -l
}
lines_are() { # COUNT
	(($(grep -c ': alert 1, udp 192.0.2.1.' live.lines) == $1))
}
follow() { # OPTION...
	"$PACKRACK" pivot --eve eve.json --follow -w live "$@" > live.lines 2> live.said &
	FOLLOW=$!
	PIDS+=("$FOLLOW")
	poll_until 20 follows
}
follows() { # it has opened the log, and catches SIGTERM
	# shellcheck disable=SC2010
	ls -l "/proc/$FOLLOW/fd" | grep -q eve.json && ((0x$(sed -n 's/^SigCgt:\t//p' "/proc/$FOLLOW/status") >> 14 & 1))
}
ended_well() { # STATUS
	local rc=0
	kill "$FOLLOW"
	wait "$FOLLOW" || rc=$?
	cat live.said live.lines
	((rc == $1))
}
rotated() { # alerts in three files of one name, and in one that is emptied; each once
	send 20000 40 > sent && as_alerts < sent > all.alerts && (($(wc -l < all.alerts) == 40)) || return 1
	head -n 10 all.alerts > eve.json # from before: not taken
	follow --before 0s --after 0s
	sed -n 11,20p all.alerts >> eve.json
	mv eve.json eve.json.1
	sed -n 21,25p all.alerts >> eve.json.1 # by who still has it open
	poll_until 60 lines_are 15 || { cat live.said live.lines; return 1; }
	sed -n 26,35p all.alerts > eve.json
	poll_until 60 lines_are 25 || { cat live.said live.lines; return 1; }
	: > eve.json
	poll_until 20 grep -q 'was emptied' live.said || return 1
	sed -n 36,40p all.alerts >> eve.json
	poll_until 60 lines_are 30 && ended_well 0 && [ "$(grep -c ': 1 packet, complete$' live.lines)" = 30 ] && (($(sort -u live.lines | wc -l) == 30))
}
run_step "alerts of a log that rotates" rotated
from_before() { # --since takes what was missed
	follow --before 0s --after 0s --since "@$(($(awk 'NR == 36 { print substr($2, 1, 10) }' sent) - 3600))"
	poll_until 60 lines_are 5 && ended_well 0
}
run_step "--since takes what was there" from_before
goes_on() { # its packets are written as they come: past and future without a seam
	local file n
	: > eve.json
	rm -rf live sent
	follow --before 3s --after 4s
	send 30000 60 0.05 > sent &
	PIDS+=("$!")
	sent() { [ -e sent ] && (($(wc -l < sent) >= 20)); }
	poll_until 20 sent || return 1
	head -n 10 sent | tail -n 1 | as_alerts >> eve.json
	poll_until 20 sh -c 'ls live/*.pcapng' || { cat live.said; return 1; }
	file=$(ls live/*.pcapng)
	has() { n=$(tcpdump -r "$file" 2> /dev/null | wc -l) && ((n >= $1)); }
	poll_until 20 has 10 && lines_are 0 || return 1 # not finished
	poll_until 20 has 59 && poll_until 30 lines_are 1 && ended_well 0 && has 60 && ((n == 60)) && grep -q ': 60 packets, complete$' live.lines &&
		"$PACKRACK" query -q -w asked.pcapng udp src port 30000 && "$TOP/tests/system/compare.py" asked.pcapng "$file"
}
run_step "a connection that goes on" goes_on
burst() { # at once; over a merger that takes 12 questions of one user
	send 40000 1000 > sent && as_alerts < sent > burst.json && (($(wc -l < burst.json) == 1000)) || return 1
	"$PACKRACK" query --count -q udp src portrange 40000-40999 # all are stored
	rm -rf live
	"$PACKRACK" pivot --eve burst.json -w live --before 1s --after 0s --jobs 20 > live.lines 2> live.said || { cat live.said; tail -n 3 live.lines; return 1; }
	lines_are 1000 && [ "$(grep -c ': 1 packet, complete$' live.lines)" = 1000 ] && (($(made pcapng) == 1000 && $(made json) == 1000)) &&
		[ "$(cut -d: -f2 live.lines | sort -un | wc -l)" = 1000 ]
}
run_step "1,000 alerts in a burst" burst
before_its_time() { # no place to follow it: what there is comes at once, the whole file when its time is over
	: > eve.json
	rm -rf live
	follow --before 5s --after 3s --jobs 1
	send 50000 1 > sent && send 50001 1 >> sent && as_alerts < sent >> eve.json
	both() { for f in live/*5000[01]*.pcapng; do (($(packets "$f") == 1)) || return 1; done && (($(made pcapng) == 2)); }
	poll_until 20 both && poll_until 30 lines_are 2 && ended_well 0 && [ "$(grep -c ': 1 packet, complete$' live.lines)" = 2 ]
}
run_step "more alerts than are followed" before_its_time
without_a_merger() { # it comes back
	: > eve.json
	rm -rf live
	"$RACK" kill merger && follow --before 5s --after 0s
	send 51000 1 | as_alerts >> eve.json
	poll_until 20 sh -c 'ls live/*.json' || { cat live.said; return 1; }
	"$RACK" restart merger && poll_until 60 lines_are 1 && ended_well 0 && grep -q ': 1 packet, complete$' live.lines
}
run_step "a merger that is away for a while" without_a_merger
interrupted() { # one is followed, two were looked at
	: > eve.json
	rm -rf live
	follow --before 2s --after 1h --jobs 2
	send 52000 3 | as_alerts >> eve.json
	all() { (($(grep -l '"matched": 1' live/*.json | wc -l) == 2 && $(made pcapng) == 3)) && for f in live/*.pcapng; do (($(packets "$f") == 1)) || return 1; done; }
	poll_until 20 all && ended_well 3 && [ "$(grep -c ': 1 packet, partial: interrupted before its time was over$' live.lines)" = 3 ]
}
run_step "interrupted" interrupted
of_sid() { # N: alerts of as_alerts with this signature_id
	jq -c ".alert.signature_id = $1"
}
# shellcheck disable=SC2016,SC2015,SC2094 # of shells within; of eve.json, which grows
rules_act() { # each action once, logged with its reason; a limit holds; without a rule nothing is done
	: > eve.json
	rm -rf live
	printf '#!/bin/sh\ncat > "$1"\n' > hook && chmod 755 hook
	cat > rules <<- END
		# comments are allowed
		[worm]
		sid = 100-199
		after = 0s
		lift = 10m
		hold = src worm
		hook = $PWD/hook $PWD/hooked
		[scan]
		sid = 200
		save = no
		move = both alarms 1h
		limit = 1
	END
	follow --before 5s --rules rules
	send 53000 3 > sent && as_alerts < sent > three
	{ sed -n 1p three | of_sid 100 && sed -n 2p three | of_sid 300 && sed -n 3p three | of_sid 200; } >> eve.json
	poll_until 30 sh -c '[ "$(grep -c ": done$" live.lines)" = 5 ]' && poll_until 30 grep -q ': 1 packet, complete$' live.lines || { cat live.lines live.said; return 1; }
	{ sed -n 3p three | jq -c '.src_ip = "192.0.2.9"' | of_sid 200 && sed -n 1p three | of_sid 150; } >> eve.json # over its limit; done before
	poll_until 30 sh -c '[ "$(grep -c ": 1 packet, complete$" live.lines)" = 2 ]' && ended_well 0 || return 1
	grep -q "1 alert of no rule; 6 actions, 0 failed; 1 over a rule's limit" live.said && [ "$(grep -c 'worm: hook ' live.lines)" = 2 ] &&
		jq -e '.rule == "worm" and .sid == 150 and .ends == ["192.0.2.1", "192.0.2.2"] and .connection == "udp 192.0.2.1.53000 192.0.2.2.7777"' hooked || return 1
	"$PACKRACK" class list > list && cat list && grep -q '192.0.2.1.*53000.*worm: alert 100, eve.json:1' list && [ "$(grep -c 'scan: alert 200, eve.json:3' list)" = 2 ] &&
		poll_until 20 held && "$PACKRACK" hold release worm-192.0.2.1
}
held() { # nodes tell of it each second
	"$PACKRACK" hold list | grep '^worm-192.0.2.1 '
}
run_step "rules steer the rack" rules_act
rules_fail() { # an action that fails is told; rules are read again by SIGHUP, bad ones stay away
	: > eve.json
	printf '[a]\nmove = src nosuch 1h\nsave = no\n' > rules
	follow --rules rules
	send 54000 1 | as_alerts > one && cat one >> eve.json
	poll_until 20 grep -q 'a: move 192.0.2.1 to nosuch: failed: ' live.lines || return 1
	printf '[a]\nmove = nowhere\n' > rules
	kill -HUP "$FOLLOW" && poll_until 20 grep -q 'the rules stay as they were' live.said || return 1
	printf '[b]\nhook = /bin/true\n[c]\nsid = 7\n' > rules
	kill -HUP "$FOLLOW" && poll_until 20 grep -q 'rules: 2 rules' live.said && cat one >> eve.json && poll_until 20 grep -q 'b: hook /bin/true: done' live.lines
	ended_well 1
}
run_step "actions that fail, and other rules" rules_fail
connection_ends() { # its file is finished then, whatever --after says; what the other end sends late is there
	: > eve.json
	rm -rf live
	follow --before 20s --after 1h
	"$RACK" exec hostb python3 -c 'import socket
s = socket.create_server(("192.0.2.2", 7800))
c, _ = s.accept()
while c.recv(100):
    c.send(b"answer")
c.close()' &
	PIDS+=("$!")
	"$RACK" exec hosta python3 -uc 'import socket, sys, time
for _ in range(100):
    try:
        s = socket.create_connection(("192.0.2.2", 7800), 5)
        break
    except OSError:
        time.sleep(0.1)
s.send(b"x")
print(s.getsockname()[1], time.time_ns())
for _ in range(5):
    s.recv(100)
    time.sleep(0.05)
    s.send(b"y")
s.close()' > sent || return 1
	as_alerts < sent | jq -c '.dest_port = 7800 | .proto = "TCP"' >> eve.json
	poll_until 30 grep -q 'packets, complete$' live.lines || { cat live.said live.lines; return 1; }
	"$PACKRACK" query -q -w asked.pcapng "tcp port 7800 and port $(cut -d' ' -f1 sent)" && "$TOP/tests/system/compare.py" asked.pcapng live/*.pcapng && ended_well 0
}
run_step "a connection that ends" connection_ends
state() { # killed, and its log rotated meanwhile: each alert is served
	: > eve.json
	rm -rf live served
	send 55000 30 > sent && as_alerts < sent > all.alerts
	follow --before 0s --after 0s --state state
	poll_until 20 test -s state || return 1
	head -n 10 all.alerts >> eve.json
	poll_until 60 lines_are 10 && sleep_past_state && kill -KILL "$FOLLOW"
	wait "$FOLLOW"
	cat live.lines >> served
	sed -n 11,15p all.alerts >> eve.json
	mv eve.json eve.json.9
	sed -n 16,20p all.alerts > eve.json
	follow --before 0s --after 0s --state state
	poll_until 60 lines_are 10 || { cat live.lines live.said; return 1; }
	sed -n 21,30p all.alerts >> eve.json
	poll_until 60 lines_are 20 && ended_well 0 && cat live.lines >> served && [ "$(cut -d, -f2- served | grep -c ': 1 packet, complete$')" = 30 ] &&
		follow --state state && ended_well 0 && [ ! -s live.lines ] || return 1
	echo nonsense > state && says 2 'is not a state' "$PACKRACK" pivot --eve eve.json --follow -w live --state state
}
sleep_past_state() { # it is behind all ten
	local offset line
	written() { read -r _ offset line < state && ((line == 10 && offset == $(stat -c %s eve.json))); }
	poll_until 20 written
}
run_step "killed, it goes on where it was" state
run_step "down" "$RACK" down
done_testing
