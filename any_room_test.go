// AcquireAny and ReserveAny with room: a call that a candidate serves at once has not waited.

package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

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
					synctest.Test(t, func(t *testing.T) {
						w := witnessOf(t)
						cfg := room.cfg
						cfg.Events = w
						rl := newLimiterWith(t, cfg)
						room.fill(rl)
						if room.name == "it never fits the first" {
							v.queue = 0
						}
						for range v.queue {
							go rl.Acquire(t.Context(), "m", 1, 0)
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
	w.wantLines(w.lines(), []string{"#1 admitted n 2+0"})
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

func TestSharedAcquireAnyWithRoomIsNotQueued(t *testing.T) {
	overFakes(t, len(anyRooms()), func(t *testing.T, i int, fake *fakestore.Fake) {
		room := anyRooms()[i]
		for _, call := range []string{"AcquireAny", "ReserveAny"} {
			w := witnessOf(t)
			cfg := room.cfg
			cfg.Events = w
			rl, _, err := ratelimit.NewOverFake(fake, cfg)
			if err != nil {
				t.Fatal(err)
			}
			room.fill(rl)
			notRefused(t, rl, w, call, []ratelimit.Request{{Model: "m", PromptTokens: 2}, {Model: "n", PromptTokens: 2}})
			rl.Close()
		}
	})
}
