// AcquireAny and ReserveAny: the first with room, patience, what cannot pass, and who opens first.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func candidates(names ...string) (reqs []ratelimit.Request) {
	for _, name := range names {
		reqs = append(reqs, ratelimit.Request{Model: name, PromptTokens: 1})
	}
	return reqs
}

func oneSlotEach(names ...string) ratelimit.Config {
	cfg := ratelimit.Config{Quotas: make(map[string]ratelimit.ModelQuota)}
	for _, name := range names {
		cfg.Quotas[name] = ratelimit.ModelQuota{MaxInFlight: 1, MaxTPM: 100}
	}
	return cfg
}

// anyOf calls AcquireAny in the background.
func anyOf(t *testing.T, rl *ratelimit.RateLimiter, patience time.Duration, reqs ...ratelimit.Request) <-chan *ratelimit.Reservation {
	got := make(chan *ratelimit.Reservation, 1)
	go func() {
		r, err := rl.AcquireAny(t.Context(), ratelimit.AnyOptions{Patience: patience}, reqs...)
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	synctest.Wait()
	return got
}

func expectModel(t *testing.T, got <-chan *ratelimit.Reservation, want string) *ratelimit.Reservation {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-got:
		if r.Model() != want {
			t.Errorf("got %q, want %q", r.Model(), want)
		}
		return r
	default:
		if want != "" {
			t.Errorf("waits, want %q", want)
		}
		return nil
	}
}

func expectWaiting(t *testing.T, rl *ratelimit.RateLimiter, want map[string]int) {
	t.Helper()
	for model, n := range want {
		if got := rl.Stats(model).Waiting; got != n {
			t.Errorf("%d wait for %s, want %d", got, model, n)
		}
	}
}

func TestAcquireAnyTakesTheFirstWithRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, oneSlotEach("a", "b", "c"))
		first := expectModel(t, anyOf(t, rl, 0, candidates("a", "b", "c")...), "a")
		second := expectModel(t, anyOf(t, rl, 0, candidates("a", "b", "c")...), "b")
		third := expectModel(t, anyOf(t, rl, time.Hour, candidates("c", "a")...), "c")
		waits := anyOf(t, rl, 0, candidates("a", "b", "c")...)
		behind, alone := anyOf(t, rl, 0, candidates("a", "b")...), anyOf(t, rl, 0, candidates("c")...)
		expectWaiting(t, rl, map[string]int{"a": 2, "b": 2, "c": 2})
		second.Cancel()
		got := expectModel(t, waits, "b")
		expectModel(t, behind, "")
		expectWaiting(t, rl, map[string]int{"a": 1, "b": 1, "c": 1})
		third.Cancel() // the one behind is served: the first is in its way no more
		last := expectModel(t, alone, "c")
		first.Cancel()
		end := expectModel(t, behind, "a")
		expectWaiting(t, rl, map[string]int{"a": 0, "b": 0, "c": 0})
		for _, r := range []*ratelimit.Reservation{got, last, end} {
			r.Commit(1, 1)
		}
	})
}

func TestAcquireAnyIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, oneSlotEach("a", "b", "c"))
		a, _ := rl.Reserve("a", 1, 1)
		got := anyOf(t, rl, 5*time.Second, candidates("a", "b")...)
		expectWaiting(t, rl, map[string]int{"a": 1, "b": 0})
		time.Sleep(5*time.Second - 1)
		expectModel(t, got, "")
		time.Sleep(time.Nanosecond)
		b := expectModel(t, got, "b")
		got = anyOf(t, rl, 5*time.Second, candidates("a", "b", "c")...)
		time.Sleep(time.Second)
		a.Cancel()
		a = expectModel(t, got, "a")
		time.Sleep(time.Minute)
		expectWaiting(t, rl, map[string]int{"a": 0, "b": 0, "c": 0})
		a.Cancel()
		b.Cancel()
	})
}

func TestAcquireAnyThatCannotPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, oneSlotEach("a", "b", "c"))
		try := func(ctx context.Context, reqs ...ratelimit.Request) error {
			_, err := rl.AcquireAny(ctx, ratelimit.AnyOptions{}, reqs...)
			return err
		}
		large := func(name string) ratelimit.Request { return ratelimit.Request{Model: name, PromptTokens: 101} }
		if err := try(t.Context(), large("a"), large("b")); !errors.Is(err, ratelimit.ErrNeverFits) {
			t.Errorf("%v, want never", err)
		}
		if err := try(t.Context(), large("a"), ratelimit.Request{Model: "b", PromptTokens: -1}); !errors.Is(err, ratelimit.ErrInvalidTokens) {
			t.Errorf("%v, want invalid tokens", err)
		}
		if err := try(t.Context()); err != nil {
			t.Errorf("%v without candidates", err)
		}
		rl.RecordUsage("b", 100, 0)
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var limited *ratelimit.LimitError
		if err := try(soon, large("a"), candidates("b")[0]); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &limited) || limited.Model != "b" {
			t.Errorf("%v, want a deadline that is too early for b", err)
		}
		// One that never fits keeps the call from nothing, and patience ends with it.
		got := anyOf(t, rl, time.Hour, large("a"), candidates("c")[0])
		expectModel(t, got, "c").Cancel()
		c, _ := rl.Reserve("c", 1, 1)
		got = anyOf(t, rl, time.Hour, candidates("c", "b")...)
		rl.SetQuota("c", ratelimit.ModelQuota{MaxTPM: -1})
		time.Sleep(time.Minute + 1)
		expectModel(t, got, "b").Cancel()
		c.Cancel()
	})
}

// The error is that of the candidate that opens first.
func TestAcquireAnyNamesTheCandidateThatOpensFirst(t *testing.T) {
	onPairs(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 1}, "b": {MaxRPM: 1}, "c": {MaxRPM: 1}}},
		func(t *testing.T, rl, _ *ratelimit.RateLimiter, late time.Duration) {
			rl.RecordUsage("a", 1, 1)
			rl.CooldownFor("b", 2*time.Second, ratelimit.CauseRateLimited)
			rl.CooldownFor("c", 3*time.Second, ratelimit.CauseRateLimited)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := rl.AcquireAny(ctx, ratelimit.AnyOptions{}, ratelimit.Request{Model: "a"}, ratelimit.Request{Model: "b"}, ratelimit.Request{Model: "c"})
			var limited *ratelimit.LimitError
			if !errors.As(err, &limited) || limited.Model != "b" || limited.Decision.RetryAfter != 2*time.Second {
				t.Errorf("%v: %+v", err, limited)
			}
		})
}

func TestAcquireAnyEndsWithItsContextAndTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, oneSlotEach("a", "b"))
		a, _ := rl.Reserve("a", 1, 1)
		b, _ := rl.Reserve("b", 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 2)
		wait := func(ctx context.Context, patience time.Duration) {
			_, err := rl.AcquireAny(ctx, ratelimit.AnyOptions{Patience: patience}, candidates("a", "b")...)
			failed <- err
		}
		go wait(ctx, 0)
		synctest.Wait()
		behind := anyOf(t, rl, 0, candidates("b")...)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		expectWaiting(t, rl, map[string]int{"a": 0, "b": 1})
		b.Cancel()
		b = expectModel(t, behind, "b")
		go wait(t.Context(), 0)
		go wait(t.Context(), time.Hour)
		synctest.Wait()
		rl.Close()
		for range 2 {
			if err := <-failed; !errors.Is(err, ratelimit.ErrClosed) {
				t.Error(err)
			}
		}
		a.Cancel()
		b.Cancel()
	})
}

func TestReserveAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 1}, "b": {MaxRPM: 1}, "slot": {MaxInFlight: 1}}})
		if r, d := rl.ReserveAny(); r != nil || !d.Allowed {
			t.Errorf("%v, %+v without candidates", r, d)
		}
		for _, want := range []string{"slot", "a", "b"} {
			r, d := rl.ReserveAny(candidates("slot", "a", "b")...)
			if r.Model() != want || !d.Allowed || d.Model != want {
				t.Errorf("got %q, %+v, want %q", r.Model(), d, want)
			}
			defer r.Cancel()
			time.Sleep(time.Second)
		}
		r, d := rl.ReserveAny(candidates("slot", "b", "a")...)
		if r != nil || d.Model != "a" || d.RetryAfter != 58*time.Second+1 {
			t.Errorf("%v, %+v, want the wait for a", r, d)
		}
	})
}

// In the line of a pool, a candidate does not hold up the others of its call.
func TestAcquireAnyOfOnePoolTakesTheFirstWithRoom(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		patiences := []time.Duration{20 * time.Second, 0, 55 * time.Second}
		if p.kind == inFile {
			patiences = patiences[:times(3, 1, 3)] // three processes look at a file for minutes
		}
		anyOfOnePool(t, p.three(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"a": {}, "b": {}},
			Pools:  map[string]ratelimit.Pool{"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPM: 100}}},
		})[1], p.late, patiences...)
	})
}

func anyOfOnePool(t *testing.T, rl *ratelimit.RateLimiter, most time.Duration, patiences ...time.Duration) {
	for _, patience := range patiences {
		for _, large := range []int{0, 1} { // which candidate asks for more than becomes free first
			reqs := []ratelimit.Request{{Model: "a", PromptTokens: 16}, {Model: "b", PromptTokens: 16}}
			reqs[large].PromptTokens = 88
			want, wait := reqs[1-large].Model, 50*time.Second+1
			if large == 0 {
				wait = max(wait, patience)
			}
			rl.RecordUsage("b", 60, 0)
			time.Sleep(10 * time.Second)
			rl.RecordUsage("b", 40, 0)
			begin := time.Now()
			r, err := rl.AcquireAny(t.Context(), ratelimit.AnyOptions{Patience: patience}, reqs...)
			if err != nil {
				t.Fatal(err)
			}
			if late := time.Since(begin) - wait; late < 0 || late > most || r.Model() != want {
				t.Errorf("patience %v, %v: %s after %v, want %s after %v", patience, reqs, r.Model(), wait+late, want, wait)
			}
			r.Cancel()
			time.Sleep(2 * time.Minute)
		}
	}
}

// anyRoom is a limiter of which model m has no room, and n has some.
type anyRoom struct {
	name string
	cfg  ratelimit.Config
	fill func(rl *ratelimit.RateLimiter) // uses up what m has
}

func anyRooms() []anyRoom {
	full := func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 1, 0) }
	one := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}, "n": {MaxRPM: 10}}
	return []anyRoom{
		{"room in the second", ratelimit.Config{Quotas: one}, full},
		{"a quota of the day", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPD: 1}, "n": {MaxRPM: 10}}}, full},
		{"a cooldown", ratelimit.Config{Quotas: one}, func(rl *ratelimit.RateLimiter) { rl.Cooldown("m", time.Now().Add(time.Hour)) }},
		{"it never fits the first", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1}, "n": {MaxRPM: 10}}}, func(*ratelimit.RateLimiter) {}},
		{"classes", ratelimit.Config{Quotas: one, Classes: map[string]ratelimit.Class{"c": {Ahead: true}, "d": {ReservePercent: 10}}}, full},
		{"a pool of both", ratelimit.Config{Quotas: one, Pools: map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 20}}}}, full},
		{"a pool of the first is full", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"n": {MaxRPM: 10}},
			Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}}},
		}, full},
		{"many for the first", ratelimit.Config{MaxQueue: 1, Quotas: one}, full},
	}
}

func TestAcquireAnyWithRoomIsNotQueued(t *testing.T) {
	type variant struct {
		name  string
		queue int // calls that wait for m alone
		reqs  []ratelimit.Request
	}
	m, n := ratelimit.Request{Model: "m", PromptTokens: 2}, ratelimit.Request{Model: "n", PromptTokens: 2}
	flowing := func(req ratelimit.Request) ratelimit.Request {
		req.Class, req.Flow = "d", "f"
		return req
	}
	variants := []variant{
		{"alone", 0, []ratelimit.Request{m, n}},
		{"of a class and a flow", 0, []ratelimit.Request{flowing(m), flowing(n)}},
		{"behind another", 1, []ratelimit.Request{m, n}},
		{"the third", 1, []ratelimit.Request{m, m, n}},
	}
	for _, room := range anyRooms() {
		for _, v := range variants {
			for _, call := range []string{"AcquireAny", "ReserveAny"} {
				t.Run(fmt.Sprintf("%s, %s, %s", call, room.name, v.name), func(t *testing.T) {
					onKinds(t, func(t *testing.T, p *place) {
						w := witnessOf(t)
						cfg := room.cfg
						cfg.Events = w
						rl := p.open(t, cfg)
						room.fill(rl)
						queue := v.queue
						if room.name == "it never fits the first" {
							queue = 0
						}
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						for range queue {
							go rl.Acquire(ctx, "m", 1, 0)
							synctest.Wait()
						}
						notRefused(t, rl, w, call, v.reqs)
					})
				})
			}
		}
	}
}

// notRefused calls for one of several models, of which the last has room, and expects nothing to be
// told but its admission.
func notRefused(t *testing.T, rl *ratelimit.RateLimiter, w *witness, call string, reqs []ratelimit.Request) {
	t.Helper()
	synctest.Wait()
	w.lines()
	var r *ratelimit.Reservation
	var err error
	if call == "ReserveAny" {
		r, _ = rl.ReserveAny(reqs...)
	} else {
		r, err = rl.AcquireAny(t.Context(), ratelimit.AnyOptions{}, reqs...)
	}
	if err != nil || r.Model() != "n" {
		t.Fatalf("got %q, %v", r.Model(), err)
	}
	w.want("#1 admitted n 2+0")
	for _, model := range []string{"m", "n"} {
		if last := rl.Explain(model).LastRefusal; last != nil {
			t.Errorf("%s has refused a call: %+v", model, last)
		}
	}
	r.Cancel()
}

// Where nothing has room until the patience is over, the call is told as queued once.
func TestAcquireAnyAfterItsPatienceIsQueuedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := witnessOf(t)
		rl := newLimiterWith(t, ratelimit.Config{Events: w, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}, "n": {MaxRPM: 10}}})
		rl.RecordUsage("m", 1, 0)
		w.lines()
		r, err := rl.AcquireAny(t.Context(), ratelimit.AnyOptions{Patience: 5 * time.Second}, candidates("m", "n")...)
		if err != nil || r.Model() != "n" {
			t.Fatalf("got %q, %v", r.Model(), err)
		}
		w.want("#1 queued m 1+0 [rpm_exceeded]", "#1 admitted n 1+0 after 5s [rpm_exceeded]")
	})
}

// A candidate whose line is full is nothing to be patient for.
func TestAcquireAnyIsNotPatientWithAFullLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := witnessOf(t)
		rl := newLimiterWith(t, ratelimit.Config{Events: w, MaxQueue: 1, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}, "n": {MaxRPM: 10}}})
		rl.RecordUsage("m", 1, 0)
		go rl.Acquire(t.Context(), "m", 1, 0)
		synctest.Wait()
		w.lines()
		r, err := rl.AcquireAny(t.Context(), ratelimit.AnyOptions{Patience: time.Hour}, candidates("m", "n")...)
		if err != nil || r.Model() != "n" {
			t.Fatalf("got %q, %v", r.Model(), err)
		}
		w.want("#1 admitted n 1+0")
	})
}
