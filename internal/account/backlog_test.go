package account

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Equivalent mutants of backlog.go, which change the time or the memory and no result:
//   - Push that makes runs at every charge, not only at the last one of a run.
//   - after that goes through all charges, or begins or ends a run earlier or later: the runs
//     are the short cut that BenchmarkBacklog/set measures.
//   - Drop that moves the charges at every call, or at head == live: BenchmarkBacklog/push.
//   - In Drop, the eighth off by one, and keptCharges or the eighth met exactly.

// ledger is a backlog by definition: it keeps every charge ever made.
type ledger struct {
	empty   time.Duration // before the first charge
	charges []ledgerCharge
	final   int // so many of them were dropped
}

type ledgerCharge struct{ at, cost, depth time.Duration }

func (l *ledger) drained() time.Duration {
	x := l.empty
	for _, c := range l.charges {
		x = min(max(x, c.at)+min(max(c.cost, 0), c.depth), c.at+c.depth)
	}
	return x
}

// After any corrections, the bucket drains when it would have if only the charges that are
// left had been made.
func TestBacklogIsWhatItsChargesMakeIt(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			playBacklog(t, rand.New(rand.NewPCG(seed, 7)), 2000)
		})
	}
}

func playBacklog(t *testing.T, random *rand.Rand, steps int) {
	var b backlog
	l := ledger{empty: b.Empty()}
	now := time.Duration(random.Int64N(1 << 40))
	depth := time.Duration(1 + random.IntN(300))
	lively := 1 + random.IntN(20) // how many pushes there are for what shrinks the list
	at := func() time.Duration { return now - time.Duration(random.IntN(50)) }
	cost := func() time.Duration { return time.Duration(random.IntN(40) - 2) }
	for step := range steps {
		live := len(l.charges) - l.final
		now += time.Duration(random.IntN(20))
		what := random.IntN(8 + lively)
		switch {
		case what == 0 && live > 0:
			i := random.IntN(live)
			c := ledgerCharge{l.charges[l.final+i].at, cost(), depth}
			b.Set(i, c.at, c.cost, c.depth)
			l.charges[l.final+i] = c
		case what == 1 && live > 0:
			i := random.IntN(live)
			b.Remove(i)
			l.charges = slices.Delete(l.charges, l.final+i, l.final+i+1)
		case what == 2:
			i, c := random.IntN(live+1), ledgerCharge{at(), cost(), depth}
			b.Insert(i, c.at, c.cost, c.depth)
			l.charges = slices.Insert(l.charges, l.final+i, c)
		case what == 3 && random.IntN(4) == 0:
			n := random.IntN(live + 1)
			b.Drop(n)
			l.final += n
		case what == 4 && random.IntN(4) == 0:
			c := ledgerCharge{at(), cost(), depth}
			b.Before(c.at, c.cost, c.depth)
			l.charges = slices.Insert(l.charges, l.final, c)
			l.final++
		case what == 5 && random.IntN(100) == 0:
			b.Reset(now)
			l = ledger{empty: now}
		default:
			c := ledgerCharge{now, cost(), depth}
			b.Push(c.at, c.cost, c.depth)
			l.charges = append(l.charges, c)
		}
		if got, want := b.Empty(), l.drained(); got != want {
			t.Fatalf("step %d: empty at %d, want %d", step, got, want)
		}
		if got, want := b.Len(), len(l.charges)-l.final; got != want {
			t.Fatalf("step %d: %d charges can be changed, want %d", step, got, want)
		}
	}
}

func TestBacklogPushDoesNotAllocate(t *testing.T) {
	var b backlog
	push := func() {
		b.Push(b.Empty()+1, 1, time.Minute)
		if b.Len() > 5000 {
			b.Drop(1)
		}
	}
	pushes := func() {
		for range 20_000 {
			push()
		}
	}
	pushes()
	if n := testing.AllocsPerRun(10, pushes); n != 0 {
		t.Errorf("%v allocations in 20,000 pushes", n)
	}
}

// A cost near the largest Duration is cut to the depth before anything is summed.
func TestBacklogCutsTheCostToTheDepth(t *testing.T) {
	var b backlog
	for i := range time.Duration(100) {
		b.Push(i, math.MaxInt64, time.Minute)
		if got, want := b.Empty(), i+time.Minute; got != want {
			t.Fatalf("after charge %d: empty at %d, want %d", i, got, want)
		}
	}
	b.Set(50, 50, -1, time.Minute)
	if got, want := b.Empty(), 99+time.Minute; got != want {
		t.Errorf("after a correction: empty at %d, want %d", got, want)
	}
}

// Memory follows the live charges: dropped ones make room, what a burst took is given back,
// and a backlog that fills and drains within keptCharges allocates nothing.
func TestBacklogMemory(t *testing.T) {
	var b backlog
	room := func() int {
		n := 0
		for _, level := range b.levels {
			n += cap(level)
		}
		return n
	}
	fill := func(n int) {
		for range n {
			b.Push(b.Empty()+1, 1, time.Minute)
		}
	}

	for range 100_000 {
		fill(1)
		b.Drop(b.Len() - min(b.Len(), 100))
	}
	if got := room(); got > keptCharges {
		t.Errorf("100 charges have room for %d, want at most %d", got, keptCharges)
	}
	if got := len(b.levels); got > 3 {
		t.Errorf("100 charges have %d levels, want at most 3", got)
	}

	fill(100_000)
	for k := range b.levels[1:] {
		if got, want := len(b.levels[k+1]), len(b.levels[k])/drainFan; got != want {
			t.Errorf("level %d has %d nodes, want %d", k+1, got, want)
		}
	}
	if top := len(b.levels[len(b.levels)-1]); top == 0 || top >= drainFan {
		t.Errorf("%d nodes at the top, want 1 to %d", top, drainFan-1)
	}
	b.Drop(b.Len())
	if got := cap(b.levels[0]); got > keptCharges {
		t.Errorf("after 100,000 charges there is room for %d, want at most %d", got, keptCharges)
	}

	b.Reset(0)
	fill(keptCharges)
	b.Drop(b.Len())
	if n := testing.AllocsPerRun(100, func() { fill(100); b.Drop(100) }); n != 0 {
		t.Errorf("%v allocations of a small Backlog that fills and drains", n)
	}
}

func FuzzBacklog(f *testing.F) {
	f.Add(uint64(1), 100)
	f.Fuzz(func(t *testing.T, seed uint64, steps int) {
		playBacklog(t, rand.New(rand.NewPCG(seed, 0)), min(max(steps, 0), 400))
	})
}

func BenchmarkBacklog(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		var log backlog
		now := time.Duration(0)
		for range n {
			now += 10
			log.Push(now, 10, time.Minute)
		}
		b.Run(fmt.Sprintf("push/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				now += 10
				log.Push(now, 10, time.Minute)
				log.Drop(1)
			}
		})
		b.Run(fmt.Sprintf("set/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				log.Set(n-min(n, 50), now-500, 9, time.Minute)
			}
		})
	}
}
