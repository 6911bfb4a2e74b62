// Events: many goroutines that do anything, and the counts when they are through.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// eventBooks are what a test knows of its own calls of a limiter.
type eventBooks struct {
	rl       *ratelimit.RateLimiter
	disturbs bool // resets and loads now and then
	drops    bool // leaves reservations to the garbage collector

	admitted, refused, recorded, dropped atomic.Int64

	mu   sync.Mutex
	kept []*ratelimit.Reservation // which stay open
}

// hammerModels are the models of these tests, which some calls have to wait for.
var hammerModels = map[string]ratelimit.ModelQuota{
	"slots": {MaxInFlight: 2}, "m": {MaxTPM: 1 << 30}, "free": {},
}

func hammerModel(random *rand.Rand) string { return []string{"slots", "m", "free"}[random.IntN(3)] }

// hammer does things at random from several goroutines, and returns when they are through.
func (b *eventBooks) hammer(seed uint64, goroutines, rounds int) {
	var all sync.WaitGroup
	for g := range goroutines {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		all.Go(func() {
			for i := range rounds {
				b.act(callNamed(context.Background(), fmt.Sprint(seed, g, i)), random)
			}
		})
	}
	all.Wait()
}

// act does one thing, and books what came of it.
func (b *eventBooks) act(ctx context.Context, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(20))*time.Millisecond)
	defer cancel()
	model, in, out := hammerModel(random), random.IntN(50), random.IntN(50)
	reqs := []ratelimit.Request{{Model: model, PromptTokens: in}, {Model: "m", OutputTokens: out}, {Model: model}}
	switch random.IntN(14) {
	case 0, 1, 2:
		r, _ := b.rl.Reserve(model, in, out)
		b.end(random, r)
	case 3:
		rs, d := b.rl.ReserveAll(reqs...)
		b.endAll(random, rs, d.Allowed)
	case 4:
		rs, d := b.rl.ReserveContext(ctx, reqs...)
		b.endAll(random, rs, d.Allowed)
	case 5, 6, 7:
		r, _ := b.rl.Acquire(ctx, model, in, out)
		b.end(random, r)
	case 8:
		rs, err := b.rl.AcquireAll(ctx, reqs...)
		b.endAll(random, rs, err == nil)
	case 9:
		b.do(ctx, random, ratelimit.Request{Model: model, PromptTokens: in, OutputTokens: out})
	case 10:
		if b.rl.WaitForCapacity(ctx, model, in) != nil {
			b.refused.Add(1)
		}
	case 11:
		b.rl.RecordUsage(model, in, out)
		b.recorded.Add(1)
	case 12:
		if r, _ := b.rl.Reserve("m", math.MaxInt, 0); r != nil {
			panic("more than the quota was admitted")
		}
		b.refused.Add(1)
	case 13:
		b.disturb(random, model)
	}
}

// disturb forgets usage, where the test does that.
func (b *eventBooks) disturb(random *rand.Rand, model string) {
	if !b.disturbs {
		return
	}
	switch random.IntN(5) {
	case 0:
		b.rl.Reset("")
	case 1:
		b.rl.Load()
	case 2:
		b.rl.Persist()
	default:
		b.rl.Reset(model)
	}
}

// do is Do with any outcome.
func (b *eventBooks) do(ctx context.Context, random *rand.Rand, req ratelimit.Request) {
	defer func() { recover() }()
	called := false
	err := b.rl.Do(ctx, req, func(ctx context.Context) (ratelimit.Usage, error) {
		called = true
		b.admitted.Add(1)
		switch random.IntN(6) {
		case 0:
			return ratelimit.Usage{}, fmt.Errorf("made up: %w", ratelimit.ErrNotSent)
		case 1:
			return ratelimit.Usage{PromptTokens: 7}, errors.New("made up")
		case 2:
			panic("made up")
		case 3:
			ratelimit.ReservationFrom(ctx).Cancel()
		}
		return ratelimit.Usage{PromptTokens: 3, OutputTokens: 4}, nil
	})
	if err != nil && !called {
		b.refused.Add(1)
	}
}

func (b *eventBooks) endAll(random *rand.Rand, rs ratelimit.Reservations, admitted bool) {
	if !admitted {
		b.refused.Add(1)
		return
	}
	b.admitted.Add(int64(len(rs)))
	rs[1].Commit(random.IntN(9), 1)
	if random.IntN(2) == 0 {
		rs[0].Commit(1, 1)
	}
	rs.Cancel()
}

// end settles a reservation, once or more often, or not at all.
func (b *eventBooks) end(random *rand.Rand, r *ratelimit.Reservation) {
	if r == nil {
		b.refused.Add(1)
		return
	}
	b.admitted.Add(1)
	if random.IntN(3) == 0 {
		time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
	}
	in, out := random.IntN(99), random.IntN(99)
	switch random.IntN(8) {
	case 0:
		r.Cancel()
	case 1, 2: // all at once
		var both sync.WaitGroup
		both.Go(func() { r.Commit(in, out) })
		both.Go(func() { r.Commit(out, in) })
		both.Go(r.Cancel)
		both.Wait()
	case 3:
		if r.Model() != "slots" { // of which there would soon be none
			b.mu.Lock()
			b.kept = append(b.kept, r)
			b.mu.Unlock()
			return
		}
		r.Commit(in, out)
	case 4:
		if b.drops && r.Model() == "slots" { // others are not watched
			b.dropped.Add(1)
			return
		}
		r.Commit(in, out)
	default:
		r.Commit(in, out)
	}
}

// drop leaves a reservation to the garbage collector.
func (b *eventBooks) drop() {
	if r, _ := b.rl.Reserve("slots", 1, 1); r == nil {
		b.refused.Add(1)
		return
	}
	b.admitted.Add(1)
	b.dropped.Add(1)
}

// want compares the books with what was told, when nothing goes on.
func (b *eventBooks) want(t *testing.T, w *witness) {
	t.Helper()
	for _, row := range []struct {
		what      string
		got, want int
	}{
		{"admitted", w.count(ratelimit.EventAdmitted), int(b.admitted.Load())},
		{"refused", w.count(ratelimit.EventRefused), int(b.refused.Load())},
		{"recorded", w.count(ratelimit.EventRecorded), int(b.recorded.Load())},
		{"expired", w.count(ratelimit.EventExpired), int(b.dropped.Load())},
		{"open", w.open(), len(b.kept)},
	} {
		if row.got != row.want {
			t.Errorf("%d %s were told, want %d", row.got, row.what, row.want)
		}
	}
	if t.Failed() {
		t.Logf("told %v", w.counts())
	}
}

// wantCharged compares what stays charged by the events with what the limiter counts.
func (b *eventBooks) wantCharged(t *testing.T, w *witness) {
	t.Helper()
	got := w.settledSum(ratelimit.EventSettled, ratelimit.EventExpired, ratelimit.EventRecorded)
	var want ratelimit.Usage
	inFlight := 0
	for _, s := range b.rl.Iter() {
		want.PromptTokens += s.ITPM
		want.OutputTokens += s.OTPM
		inFlight += s.InFlight
	}
	w.mu.Lock()
	for _, e := range w.all { // what is open stays charged at its estimate
		switch e.Kind {
		case ratelimit.EventAdmitted:
			got.PromptTokens += e.Estimated.PromptTokens
			got.OutputTokens += e.Estimated.OutputTokens
		case ratelimit.EventSettled, ratelimit.EventReleased, ratelimit.EventExpired:
			got.PromptTokens -= e.Estimated.PromptTokens
			got.OutputTokens -= e.Estimated.OutputTokens
		}
	}
	w.mu.Unlock()
	if got != want {
		t.Errorf("%+v are charged by the events, and %+v by Stats", got, want)
	}
	if open := w.open(); inFlight != open {
		t.Errorf("%d are open by the events, and %d in flight by Stats", open, inFlight)
	}
}

// Everything, in a bubble: the counts are exact, and what stays charged is what Stats counts.
func TestEventsAreCountedExactly(t *testing.T) {
	t.Parallel()
	for _, disturbs := range []bool{false, true} {
		t.Run(fmt.Sprintf("disturbed %t", disturbs), func(t *testing.T) {
			inBubbles(t, func(t *testing.T, p *place) {
				w := witnessOf(t)
				rl := p.open(t, ratelimit.Config{Events: w, Quotas: hammerModels})
				books := eventBooks{rl: rl, disturbs: disturbs}
				for round := range uint64(2) {
					books.hammer(round, 8, times(40, 15, 300))
					synctest.Wait()
					books.want(t, w)
					if !disturbs {
						books.wantCharged(t, w)
					}
				}
				if w.count(ratelimit.EventQueued) == 0 {
					t.Error("nobody had to wait")
				}
				w.closes(rl)
				w.wantOpen(0)
				for _, r := range books.kept {
					r.Commit(1, 1)
				}
			})
		})
	}
}

// Two limiters that share what they count, or do not, each told of its own calls alone.
func TestEventsAreTheOwn(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p *place) {
		var ws [2]*witness
		var books [2]eventBooks
		for i := range ws {
			ws[i] = newWitness(t)
			books[i].rl = p.open(t, ratelimit.Config{Events: ws[i], Quotas: hammerModels})
		}
		var both sync.WaitGroup
		for i := range books {
			both.Go(func() { books[i].hammer(uint64(i), 4, times(80, 20, 1000)) })
		}
		both.Wait()
		synctest.Wait()
		for i := range books {
			books[i].want(t, ws[i])
		}
		ws[0].closes(books[0].rl)
		ws[0].wantOpen(0)
		books[1].want(t, ws[1])
		books[1].hammer(9, 4, 20)
		for _, r := range books[0].kept {
			r.Commit(1, 1)
		}
		synctest.Wait()
		books[1].want(t, ws[1])
		ws[1].closes(books[1].rl)
		ws[1].wantOpen(0)
	})
}

// Reservations that the program drops expire when they are collected, and those that it holds for
// too long when it is time, exactly one of that and the Commit that comes then.
func TestEventsOfGarbage(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			eachKind(t, func(t *testing.T, p *place) {
				w := newWitness(t)
				rl := p.open(t, ratelimit.Config{Events: w, HoldTTL: ttl, Quotas: hammerModels})
				books := eventBooks{rl: rl, drops: true}
				for round := range uint64(2) {
					var stop atomic.Bool
					var collector sync.WaitGroup
					collector.Go(func() {
						for !stop.Load() {
							runtime.GC()
							time.Sleep(time.Millisecond)
						}
					})
					books.drop()
					books.hammer(round, 4, times(30, 20, 500))
					w.waitOpen(len(books.kept))
					stop.Store(true)
					collector.Wait()
					books.want(t, w)
				}
				w.closes(rl)
				w.wantOpen(0)
				runtime.KeepAlive(books.kept)
			})
		})
	}
}

// In a bubble, whose goroutines the collector may not wake, garbage is told of later: by Close at
// the latest.
func TestEventsOfGarbageInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := witnessOf(t)
		rl := newLimiterWith(t, ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "state"), Events: w, Quotas: hammerModels})
		(&eventBooks{rl: rl}).drop()
		for range 1000 { // the finalizer runs outside of the bubble
			if runtime.GC(); rl.Stats("slots").InFlight == 0 {
				break
			}
		}
		w.closes(rl)
		if w.count(ratelimit.EventAdmitted) != 1 || w.count(ratelimit.EventExpired) != 1 || w.count(ratelimit.EventReleased) != 0 {
			t.Errorf("told %v", w.counts())
		}
		for _, is := range w.take() {
			if is.Held > time.Second {
				t.Errorf("%s after %v", is.Kind, is.Held)
			}
		}
	})
}

// HoldTTL that ends while the program settles: exactly one end, whichever.
func TestEventsOfHoldTTLInARace(t *testing.T) {
	inBubbles(t, func(t *testing.T, p *place) {
		w := witnessOf(t)
		rl := p.open(t, ratelimit.Config{Events: w, HoldTTL: 5 * time.Millisecond, Quotas: hammerModels})
		var all sync.WaitGroup
		calls := 300 / min(racetest.Factor, 5)
		var held []*ratelimit.Reservation // what is garbage in a bubble is settled by later calls
		for i := range calls {
			r := reserve(t, rl, "m", 10, 5)
			held = append(held, r)
			all.Go(func() {
				time.Sleep(5 * time.Millisecond)
				if i%3 == 0 {
					r.Cancel()
				} else if i%3 == 1 {
					r.Commit(20, 20)
				}
			})
			if i%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantOpen(0)
		if n := w.count(ratelimit.EventAdmitted); n != calls {
			t.Errorf("%d were admitted, want %d", n, calls)
		}
		(&eventBooks{rl: rl}).wantCharged(t, w)
		runtime.KeepAlive(held)
	})
}

// An expiry that comes at once is told after the admission, on whichever goroutine.
func TestEventsOfAHoldTTLOfNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, p *place) {
		w := newWitness(t)
		rl := p.open(t, ratelimit.Config{Events: w, Quotas: hammerModels, HoldTTL: 1})
		var all sync.WaitGroup
		var mu sync.Mutex
		var held []*ratelimit.Reservation
		for g := range 4 {
			all.Go(func() {
				for i := range times(100, 30, 1000) {
					r, _ := rl.Reserve("m", 1, 1)
					mu.Lock()
					held = append(held, r)
					mu.Unlock()
					if i%2 == 0 {
						r.Commit(2, 2)
					}
					acquired, err := rl.Acquire(callNamed(t.Context(), fmt.Sprint(g, i)), "free", 1, 1)
					if err != nil {
						t.Error(err)
					}
					acquired.Cancel()
				}
			})
		}
		all.Wait()
		w.waitOpen(0)
		w.wantOpen(0)
		w.closes(rl)
	})
}

// Close while calls go on: all that is open is released, and nothing is told when it has returned.
func TestEventsOfCloseUnderTraffic(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, p *place) {
		for seed := range uint64(times(12, 4, 300)) {
			w := newWitness(t)
			one := &place{kind: p.kind, path: filepath.Join(t.TempDir(), "state")}
			rl := one.open(t, ratelimit.Config{Events: w, Quotas: hammerModels, HoldTTL: time.Hour})
			books := eventBooks{rl: rl}
			var all sync.WaitGroup
			for g := range uint64(4) {
				all.Go(func() { books.hammer(seed<<8|g, 2, 12) })
			}
			began := rand.New(rand.NewPCG(seed, 1)).IntN(60) // events, until it is closed
			for i := 0; i < 10_000 && w.count(ratelimit.EventAdmitted) < began; i++ {
				runtime.Gosched()
			}
			w.closes(rl)
			w.wantOpen(0)
			all.Wait()
			for _, r := range books.kept {
				r.Commit(1, 1)
			}
			w.wantOpen(0)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}
