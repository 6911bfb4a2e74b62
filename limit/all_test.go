package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of joint.go:
//   - A comparison for sorting that does not tell a Limiter after a Holder from an equal one:
//     a stable sort by less needs the other direction only.
//   - takeAt that holds the last member, too, and that gathers n = 0; takeAt and holdAt that
//     go on after gatherLocked refused: nothing is held, and the verdict is the same.
//   - Ended holds that are kept or ended again: the second end does nothing, and notifies
//     waiters that look and wait on.
//   - holdAt that gathers after a refusal of the peek: a member refuses again. (What others
//     can see of that between the two needs a third goroutine.)

// ownLimiter is a Limiter of the caller: no Holder, and not comparable.
type ownLimiter func(now time.Time, n int) limit.Decision

func (o ownLimiter) TakeAt(now time.Time, n int) limit.Decision { return o(now, n) }

// ownHolder is one that passes on to a limiter of the package.
type ownHolder struct{ of limit.Holder }

func (o ownHolder) TakeAt(now time.Time, n int) limit.Decision { return o.of.TakeAt(now, n) }
func (o ownHolder) HoldAt(now time.Time, n int) (limit.Hold, limit.Decision) {
	return o.of.HoldAt(now, n)
}

// counter is a limiter of the user's that admits so many, and says what it was asked.
func counter(left int, asked *[]int) limit.Limiter {
	return ownLimiter(func(_ time.Time, n int) limit.Decision {
		*asked = append(*asked, n)
		if n > left {
			return limit.Decision{Remaining: left, RetryAfter: time.Hour}
		}
		left -= n
		return limit.Decision{OK: true, Remaining: left}
	})
}

func groupGCRA(tb testing.TB, rate limit.Rate, burst int) *limit.GCRA {
	tb.Helper()
	g, err := limit.NewGCRA(rate, burst)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

var setStart = time.Unix(1_800_000_000, 0)

func TestSetDecision(t *testing.T) {
	type d = limit.Decision
	const s = time.Second
	for _, c := range []struct {
		name      string
		has       [2]int // bursts, of one in 1 s and of one in 10 s
		had, held [2]int
		n         int
		want      d
	}{
		{"all admit: the fewest remain, the longest reset", [2]int{5, 3}, [2]int{}, [2]int{}, 1, d{OK: true, Remaining: 2, ResetAfter: 10 * s}},
		{"the first is the last to reset", [2]int{40, 3}, [2]int{39, 0}, [2]int{}, 1, d{OK: true, Remaining: 0, ResetAfter: 40 * s}},
		{"a peek", [2]int{5, 3}, [2]int{1, 1}, [2]int{}, 0, d{OK: true, Remaining: 2, ResetAfter: 10 * s}},
		{"the first refuses", [2]int{2, 3}, [2]int{2, 0}, [2]int{}, 1, d{Remaining: 0, RetryAfter: s, ResetAfter: 2 * s}},
		{"the last refuses", [2]int{5, 3}, [2]int{0, 3}, [2]int{}, 2, d{Remaining: 0, RetryAfter: 20 * s, ResetAfter: 30 * s}},
		{"both refuse: the longer wait", [2]int{2, 3}, [2]int{2, 3}, [2]int{}, 1, d{Remaining: 0, RetryAfter: 10 * s, ResetAfter: 30 * s}},
		{"one never admits it", [2]int{2, 9}, [2]int{0, 9}, [2]int{}, 3, d{Remaining: 0, ResetAfter: 90 * s, Never: true}},
		{"one waits for a hold", [2]int{2, 3}, [2]int{0, 3}, [2]int{2, 0}, 1, d{Remaining: 0, ResetAfter: 30 * s}},
		{"never is more than a hold", [2]int{2, 1}, [2]int{}, [2]int{2, 0}, 2, d{Remaining: 0, Never: true}},
		{"a negative number", [2]int{2, 3}, [2]int{}, [2]int{}, -1, d{Remaining: 2, Never: true}},
	} {
		members := []limit.Limiter{groupGCRA(t, limit.PerSecond(1), c.has[0]), groupGCRA(t, limit.Every(10*s), c.has[1])}
		for i, m := range members {
			if !m.TakeAt(setStart, c.had[i]).OK {
				t.Fatal("take")
			}
			if _, d := m.(limit.Holder).HoldAt(setStart, c.held[i]); !d.OK {
				t.Fatal("hold")
			}
		}
		before := [2]d{members[0].TakeAt(setStart, 0), members[1].TakeAt(setStart, 0)}
		if got := limit.All(members...).TakeAt(setStart, c.n); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		for i, m := range members {
			charged := before[i].Remaining - m.TakeAt(setStart, 0).Remaining
			if want := c.n; c.want.OK && charged != want || !c.want.OK && charged != 0 {
				t.Errorf("%s: member %d was charged %d", c.name, i, charged)
			}
		}
	}
}

func TestSetMembers(t *testing.T) {
	g, h := groupGCRA(t, limit.PerSecond(1), 10), groupGCRA(t, limit.PerSecond(1), 20)
	var asked []int
	mine := counter(5, &asked)
	if d := limit.All().TakeAt(setStart, 1<<30); d != (limit.Decision{OK: true, Remaining: math.MaxInt}) {
		t.Errorf("none: %+v", d)
	}
	if d := limit.All(nil).TakeAt(setStart, -1); d.OK || !d.Never {
		t.Errorf("none, -1: %+v", d)
	}
	if h, d := limit.All().HoldAt(setStart, 3); !d.OK || h != (limit.Hold{}) {
		t.Errorf("none, hold: %+v", d)
	}
	if d := limit.All(mine).TakeAt(setStart, -1); d.OK || !d.Never || slices.Max(asked) != 0 || slices.Min(asked) != 0 {
		t.Errorf("a negative number is asked of one's own: %+v, %v", d, asked)
	}
	root, err := limit.NewTree("root", h)
	if err != nil {
		t.Fatal(err)
	}
	set := limit.All(mine, g, nil, g, limit.All(h, g), root, ownHolder{h}, ownHolder{h})
	if d := set.TakeAt(setStart, 2); !d.OK {
		t.Fatalf("%+v", d)
	}
	if got := g.TakeAt(setStart, 0).Remaining; got != 8 {
		t.Errorf("there twice: %d remain, want 8", got)
	}
	if got := h.TakeAt(setStart, 0).Remaining; got != 16 { // itself, and inside another
		t.Errorf("in a set, a tree and another limiter: %d remain, want 16", got)
	}
}

// One limiter that is not a Holder is charged only if all others admit; of two, the
// first stays charged when the second refuses.
func TestSetOfOwnLimiters(t *testing.T) {
	g := groupGCRA(t, limit.PerSecond(1), 2)
	var first, second []int
	a, b := counter(5, &first), counter(1, &second)
	set := limit.All(a, g)
	for i, want := range []bool{true, true, false} {
		if d := set.TakeAt(setStart, 1); d.OK != want {
			t.Errorf("%d: %+v", i, d)
		}
	}
	if got := a.TakeAt(setStart, 0).Remaining; got != 3 {
		t.Errorf("%d remain, want 3: a refusal charged it", got)
	}
	wide := groupGCRA(t, limit.PerSecond(1), 9)
	set = limit.All(a, b, wide)
	if d := set.TakeAt(setStart, 2); d.OK || d.RetryAfter != time.Hour {
		t.Errorf("%+v", d)
	}
	if got := wide.TakeAt(setStart, 0); got.Remaining != 9 || got.ResetAfter != 0 {
		t.Errorf("a Holder was charged by a refusal: %+v", got)
	}
	if got := a.TakeAt(setStart, 0).Remaining; got != 1 {
		t.Errorf("the first of two has %d, want 1", got)
	}
	// What was on hold for a refusal is not missing in its Decision.
	refuses := ownLimiter(func(_ time.Time, n int) limit.Decision { return limit.Decision{Remaining: 99} })
	if d := limit.All(wide, wide, groupGCRA(t, limit.PerSecond(1), 20), refuses).TakeAt(setStart, 2); d != (limit.Decision{Remaining: 9}) {
		t.Errorf("%+v", d)
	}
	// A peek that a Limiter of the caller refuses, against the contract, refuses nothing.
	strict := ownLimiter(func(_ time.Time, n int) limit.Decision { return limit.Decision{OK: n > 0, Remaining: 99} })
	if d := limit.All(strict).TakeAt(setStart, 2); !d.OK {
		t.Errorf("%+v", d)
	}
	hold, d := limit.All(a, wide).HoldAt(setStart, 1)
	if !d.OK {
		t.Fatalf("%+v", d)
	}
	hold.Cancel()
	if wide.TakeAt(setStart, 0).Remaining != 9 || a.TakeAt(setStart, 0).Remaining != 0 {
		t.Error("a cancel gives back all but what cannot be held")
	}
}

// Members of nested Sets and Trees are members, and holds of a Set that hold nothing are none.
func TestSetOfSetsAndTrees(t *testing.T) {
	g, h := groupGCRA(t, limit.PerSecond(1), 10), groupGCRA(t, limit.PerSecond(1), 20)
	set := limit.All(limit.All(g), must(limit.NewTree("root", h)))
	if d := set.TakeAt(setStart, 2); !d.OK || d.Remaining != 8 {
		t.Errorf("%+v", d)
	}
	if g, h := g.TakeAt(setStart, 0).Remaining, h.TakeAt(setStart, 0).Remaining; g != 8 || h != 18 {
		t.Errorf("%d and %d remain, want 8 and 18", g, h)
	}
	if hold, d := set.HoldAt(setStart, 0); !d.OK || hold != (limit.Hold{}) {
		t.Errorf("a hold of nothing: %+v, %+v", hold, d)
	}
}

// A limiter that can only be asked with a charge comes after those that can hold, in their
// order, and after a refusal no more is asked.
func TestSetAsksOwnLimitersLast(t *testing.T) {
	var first, second []int
	g := groupGCRA(t, limit.PerSecond(1), 1)
	g.TakeAt(setStart, 1)
	h := groupGCRA(t, limit.PerSecond(1), 1)
	set := limit.All(counter(9, &first), h, ownHolder{g}, counter(9, &second))
	if d := set.TakeAt(setStart, 1); d.OK || d.RetryAfter != time.Second {
		t.Errorf("%+v", d)
	}
	if slices.Contains(first, 1) || slices.Contains(second, 1) {
		t.Errorf("asked for %v and %v, want looks only", first, second)
	}
	set = limit.All(counter(0, &first), counter(9, &second))
	if d := set.TakeAt(setStart, 1); d.OK || d.RetryAfter != time.Hour {
		t.Errorf("%+v", d)
	}
	if !slices.Contains(first, 1) || slices.Contains(second, 1) {
		t.Errorf("asked for %v and %v, want 1 of the first only", first, second)
	}
}

// A Set of one limiter decides and waits as that one does, whatever it is: it peeks at it,
// and learns of the end of its holds.
func TestSetOfOneIsThatOne(t *testing.T) {
	onConforming(t, func(t *testing.T, kind conforming, _ *rand.Rand) {
		if kind.name == "Keyed" || kind.byChance {
			t.Skip("is no Limiter, or goes by chance")
		}
		synctest.Test(t, func(t *testing.T) {
			l := kind.make(eights)
			set := limit.All(l)
			now := time.Now()
			for range atOnce {
				l.TakeAt(now, 1)
			}
			if got, want := set.TakeAt(now, 1), l.TakeAt(now, 1); got != want || got.OK {
				t.Errorf("%+v, want %+v", got, want)
			}
			time.Sleep(time.Hour)
			hold, d := l.HoldAt(time.Now(), atOnce)
			if !d.OK {
				t.Fatalf("%+v", d)
			}
			if kind.queues { // its slots on hold pass: below
				return
			}
			begin := time.Now()
			time.AfterFunc(time.Millisecond, hold.Cancel)
			if err := set.Wait(t.Context()); err != nil || time.Since(begin) != time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		})
	})
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 2))
		hold, _ := q.HoldAt(time.Now(), 2)
		begin := time.Now()
		time.AfterFunc(time.Millisecond, hold.Cancel)
		if err := limit.All(q).WaitN(t.Context(), 2); err != nil || time.Since(begin) != time.Millisecond {
			t.Errorf("a Queue: %v after %v", err, time.Since(begin))
		}
	})
}

// A limiter that panics leaves nothing on hold and nothing locked.
func TestSetPanic(t *testing.T) {
	g, h := groupGCRA(t, limit.PerSecond(1), 3), groupGCRA(t, limit.PerSecond(1), 3)
	fails := true
	set := limit.All(g, h, ownLimiter(func(_ time.Time, n int) limit.Decision {
		if fails && n > 0 {
			panic("own")
		}
		return limit.Decision{OK: true, Remaining: 9}
	}))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		set.TakeAt(setStart, 2)
	}()
	fails = false
	if d := set.TakeAt(setStart, 3); !d.OK {
		t.Errorf("%+v", d)
	}
}

// drainModel is a bucket as one would draw it: what is in it, in nanoseconds of draining.
type drainModel struct{ interval, burst, level, last int64 }

func (b *drainModel) flow(at int64) {
	b.level = max(0, b.level-(at-b.last))
	b.last = at
}
func (b *drainModel) wait(n int) int64 { return max(0, b.level+(int64(n)-b.burst)*b.interval) }

// manyDecisions is how many random decisions are compared with a model.
func manyDecisions() int {
	if testing.Short() || racetest.Factor > 1 {
		return 50_000
	}
	return 1_000_000
}

// Sets that share members, and the members themselves, are charged at random.
func TestSetOracle(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 1))
	var members []limit.Limiter
	var model []*drainModel
	for _, m := range []drainModel{{interval: 7, burst: 5}, {interval: 11, burst: 3}, {interval: 2, burst: 20}} {
		members = append(members, groupGCRA(t, limit.Every(time.Duration(m.interval)), int(m.burst)))
		model = append(model, &m)
	}
	var sets []*limit.Set
	for mask := range 8 {
		var some []limit.Limiter
		for i, m := range members {
			if mask>>i&1 == 1 {
				some = append(some, m)
			}
		}
		random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		sets = append(sets, limit.All(some...))
	}
	at := int64(0)
	for i := range manyDecisions() / 2 {
		at += random.Int64N(12)
		mask, n := 1+random.IntN(7), random.IntN(5)
		want := limit.Decision{OK: true, Remaining: math.MaxInt}
		for b, m := range model {
			m.flow(at)
			if mask>>b&1 == 0 {
				continue
			}
			want.Never = want.Never || int64(n) > m.burst
			want.RetryAfter = max(want.RetryAfter, time.Duration(m.wait(n)))
		}
		want.OK = !want.Never && want.RetryAfter == 0
		if want.Never {
			want.RetryAfter = 0
		}
		for b, m := range model {
			if mask>>b&1 == 0 {
				continue
			}
			if want.OK {
				m.level += int64(n) * m.interval
			}
			want.Remaining = min(want.Remaining, int((m.burst*m.interval-m.level)/m.interval))
			want.ResetAfter = max(want.ResetAfter, time.Duration(m.level))
		}
		var got limit.Decision
		now := setStart.Add(time.Duration(at))
		if random.IntN(4) > 0 || !want.OK {
			got = sets[mask].TakeAt(now, n)
		} else {
			var hold limit.Hold
			hold, got = sets[mask].HoldAt(now, n)
			if got.OK != want.OK || got.Remaining != want.Remaining {
				t.Fatalf("decision %d, hold: %+v, want %+v", i, got, want)
			}
			hold.Commit()
			got = sets[mask].TakeAt(now, 0)
		}
		if got != want {
			t.Fatalf("decision %d, %d of set %b: %+v, want %+v", i, n, mask, got, want)
		}
	}
}

// Holds of a Set end in any order, as those of its members do.
func TestSetHoldsEndInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 2))
	for range 2_000 {
		var held, plain []limit.Limiter
		for _, burst := range []int{12, 15} {
			held = append(held, groupGCRA(t, limit.PerSecond(1), burst))
			plain = append(plain, groupGCRA(t, limit.PerSecond(1), burst))
		}
		set := limit.All(held...)
		var holds []limit.Hold
		var commits []bool
		for second := range 4 {
			now := setStart.Add(time.Duration(second) * time.Second)
			n, commit := 1+random.IntN(3), random.IntN(2) == 0
			hold, d := set.HoldAt(now, n)
			if !d.OK {
				t.Fatalf("%+v", d)
			}
			holds, commits = append(holds, hold), append(commits, commit)
			if commit {
				for _, p := range plain {
					p.TakeAt(now, n)
				}
			}
		}
		for _, i := range random.Perm(len(holds)) {
			if commits[i] {
				holds[i].Commit()
			} else {
				holds[i].Cancel()
			}
			holds[i].Commit()
			holds[i].Cancel()
		}
		for i := range held {
			now := setStart.Add(4 * time.Second)
			if a, b := held[i].TakeAt(now, 0), plain[i].TakeAt(now, 0); a != b {
				t.Fatalf("%v: %+v, want %+v", commits, a, b)
			}
		}
	}
}

// Requests through one Set never refuse each other: all that there is is taken. Through
// several Sets, never more than there is is taken, and nothing is lost.
func TestSetConcurrent(t *testing.T) {
	const burst, goroutines = 1000, 8
	a, b, c := groupGCRA(t, limit.PerMinute(1), burst), groupGCRA(t, limit.PerMinute(1), burst+7), groupGCRA(t, limit.PerMinute(1), burst)
	var taken atomic.Int64
	run := func(sets ...limit.Holder) {
		taken.Store(0)
		var group sync.WaitGroup
		for i := range goroutines {
			group.Go(func() {
				set := sets[i%len(sets)]
				for range 3 * burst / goroutines {
					if i%3 == 0 {
						if hold, d := set.HoldAt(setStart, 1); d.OK {
							hold.Commit()
							taken.Add(1)
						}
					} else if set.TakeAt(setStart, 1).OK {
						taken.Add(1)
					}
				}
			})
		}
		group.Wait()
	}
	run(limit.All(a, b))
	if taken.Load() != burst {
		t.Errorf("one set took %d, want %d", taken.Load(), burst)
	}
	d, e := groupGCRA(t, limit.PerMinute(1), burst), groupGCRA(t, limit.PerMinute(1), burst)
	run(limit.All(d, c), limit.All(c, e), limit.All(e, c, d))
	if taken.Load() > burst {
		t.Errorf("three sets took %d, want at most %d", taken.Load(), burst)
	}
	if left := c.TakeAt(setStart, 0).Remaining; int64(left) != burst-taken.Load() {
		t.Errorf("%d were taken and %d are left of %d", taken.Load(), left, burst)
	}
}

func TestSetWait(t *testing.T) {
	t.Run("for the end of a hold that somebody else has", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, h := groupGCRA(t, limit.PerSecond(1), 2), groupGCRA(t, limit.PerSecond(1), 2)
			root, err := limit.NewTree("root", g)
			if err != nil {
				t.Fatal(err)
			}
			hold, _ := g.HoldAt(time.Now(), 2)
			waited := make(chan time.Duration, 2)
			start := time.Now()
			for _, l := range []interface{ Wait(context.Context) error }{limit.All(h, g), root} {
				go func() {
					if err := l.Wait(t.Context()); err != nil {
						t.Error(err)
					}
					waited <- time.Since(start)
				}()
			}
			time.Sleep(3*time.Second + time.Nanosecond)
			hold.Cancel()
			for range 2 {
				if got := <-waited; got != 3*time.Second+time.Nanosecond {
					t.Errorf("waited %v", got)
				}
			}
		})
	})
	t.Run("for its own hold", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// With a limiter of the user's, a Set still learns of its own holds.
			set := limit.All(groupGCRA(t, limit.PerSecond(1), 1), ownLimiter(func(time.Time, int) limit.Decision { return limit.Decision{OK: true} }))
			hold, _ := set.HoldAt(time.Now(), 1)
			start := time.Now()
			time.AfterFunc(30*time.Millisecond, hold.Cancel)
			if err := set.Wait(t.Context()); err != nil || time.Since(start) != 30*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	})
	t.Run("for a limiter of one's own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var open atomic.Bool
			asked := 0
			set := limit.All(groupGCRA(t, limit.PerSecond(1), 9), ownLimiter(func(_ time.Time, n int) limit.Decision {
				asked++
				return limit.Decision{OK: n == 0 || open.Load()}
			}))
			start := time.Now()
			time.AfterFunc(time.Second+time.Millisecond, func() { open.Store(true) })
			if err := set.Wait(t.Context()); err != nil || time.Since(start) != 1100*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			if asked > 40 {
				t.Errorf("asked %d times in a second", asked)
			}
		})
	})
	t.Run("to the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := groupGCRA(t, limit.PerSecond(1), 1)
			set := limit.All(g, groupGCRA(t, limit.PerSecond(1), 5))
			g.Take(1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
			defer cancel()
			if err := set.Wait(ctx); !errors.Is(err, limit.ErrDeadline) {
				t.Error(err)
			}
			if err := set.WaitN(t.Context(), 2); !errors.Is(err, limit.ErrNeverFits) {
				t.Error(err)
			}
			start := time.Now()
			if err := set.Wait(t.Context()); err != nil || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	})
}

func BenchmarkSet(b *testing.B) {
	set := limit.All(groupGCRA(b, limit.PerSecond(1e9), 1000), groupGCRA(b, limit.PerSecond(1e9), 1000))
	now := setStart
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(10)
		set.TakeAt(now, 1)
	}
}
