package former

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// The processes that the state is made by. No process of a log has a number below zero, and both
// are no members when the log begins.
const (
	loser = -1 // has lost a log, so that all that it may have charged counts as used
	taker = -2 // speaks last, so that the state is of the present
)

// longestLease bounds the lease of a process.
const longestLease = int64(24 * time.Hour)

// takeProcesses makes members of the processes that may live: what they have open ends with their
// lease, as in any log. It says what a lost log may have charged by the share of a process that has
// not told what it charged while it was cut off.
func (t *taking) takeProcesses() {
	lost := t.Ago(t.UsedAt, 0)
	if t.UsedAt != 0 && lost <= t.Span {
		t.say(loser, 1, lost, fleet.Join{Rules: math.MaxInt32})
		t.say(loser, 2, lost, fleet.Outage{})
	}
	byAge := func(a, b int64) int {
		return cmp.Or(cmp.Compare(t.Processes[b].Silent, t.Processes[a].Silent), cmp.Compare(a, b))
	}
	for _, process := range slices.SortedFunc(maps.Keys(t.Processes), byAge) {
		is := t.Processes[process]
		t.say(process, 0, is.Silent, fleet.Join{Lease: min(max(is.Lease, 0), longestLease), Rules: math.MaxInt32})
	}
	t.say(taker, 1, 0, fleet.Join{Rules: math.MaxInt32})
	t.say(taker, 2, 0, fleet.Gone{Process: loser, N: 2})
}

// end ends what only the taking needs.
func (t *taking) end() { t.say(taker, 3, 0, fleet.Bye{}) }

// say has a process say something, some time ago but not before the last one did.
func (t *taking) say(process, n, ago int64, c fleet.Command) {
	t.ago = min(t.ago, max(ago, 0))
	ago = t.ago
	stamp := store.Stamp{Instant: t.Now.Instant - ago, Wall: t.Now.WallAt(t.Now.Instant - ago)}
	stamp.Instant = max(stamp.Instant, 1)
	e := &store.Entry{At: store.Position{Seq: n}, Stamp: stamp, Process: process, N: n, Expect: stamp.Instant}
	t.fleet.ApplyCommand(e, c)
}
