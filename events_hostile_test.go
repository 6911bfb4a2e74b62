// Config.Events where the program, its names and its handlers are odd.

package ratelimit_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

type hostKey struct{}

// oneModel is a quota that limits nothing.
var oneModel = quotas{"m": {}}

// A cooldown until a time that is no int64 of nanoseconds is waited for like any other: if the
// timer fired at once and again, no time would pass in the bubble.
func TestEventsOfACooldownForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := openLimiter(t, ratelimit.Config{Quotas: oneModel, Events: handling(func(context.Context, *ratelimit.Event) {})})
		rl.Cooldown("m", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		time.Sleep(time.Hour)
	})
}

// Reservations that a program drops are told to expire, and their contexts are kept no longer, also
// for models without a limit of calls in flight.
func TestEventsOfDroppedReservations(t *testing.T) {
	var expired, freed atomic.Int64
	rl := openLimiter(t, ratelimit.Config{Quotas: oneModel, Events: handling(func(_ context.Context, e *ratelimit.Event) {
		if e.Kind == ratelimit.EventExpired {
			expired.Add(1)
		}
	})})
	const n = 640
	for range n {
		body := new([64 << 10]byte)
		runtime.AddCleanup(body, func(*atomic.Int64) { freed.Add(1) }, nil)
		ctx := context.WithValue(context.Background(), hostKey{}, body)
		if _, err := rl.Acquire(ctx, "m", 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	// The last ones lie beside reservations that are not handed out yet.
	for deadline := time.Now().Add(20 * time.Second); expired.Load() < n-64 || freed.Load() < n-64; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are told to expire, %d contexts are free", expired.Load(), n, freed.Load())
		}
		time.Sleep(time.Millisecond)
	}
	if open := rl.Stats("m").InFlight; open != n-int(expired.Load()) {
		t.Errorf("%d are open, and %d have expired", open, expired.Load())
	}
}

// What is asked of a model by an alias and by its own name is one estimate.
func TestEventsAddUpAliases(t *testing.T) {
	var got []string
	rl := openLimiter(t, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 20}}, Aliases: map[string]string{"a": "m"},
		Events: handling(func(_ context.Context, e *ratelimit.Event) {
			got = append(got, fmt.Sprint(e.Kind, " ", e.Model, " ", e.Estimated.PromptTokens))
		}),
	})
	rl.ReserveAll(ratelimit.Request{Model: "a", PromptTokens: 10}, ratelimit.Request{Model: "m", PromptTokens: 15})
	if want := "refused m 25"; len(got) != 1 || got[0] != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// A Close beside another waits for the last event, too.
func TestEventsOfASecondClose(t *testing.T) {
	var closed atomic.Bool
	var late atomic.Int64
	begun := make(chan struct{})
	var once sync.Once
	rl := openLimiter(t, ratelimit.Config{Quotas: oneModel, Events: handling(func(_ context.Context, e *ratelimit.Event) {
		if closed.Load() {
			late.Add(1)
		}
		if e.Kind == ratelimit.EventReleased {
			once.Do(func() { close(begun) })
			time.Sleep(50 * time.Millisecond)
		}
	})})
	for range 4 {
		rl.Reserve("m", 1, 1)
	}
	first := make(chan struct{})
	go func() { rl.Close(); close(first) }()
	<-begun
	rl.Close()
	closed.Store(true)
	<-first
	if n := late.Load(); n > 0 {
		t.Errorf("%d events after Close had returned", n)
	}
}

// Close tells of all open reservations, also if that takes longer than it waits for one.
func TestEventsOfCloseWithASlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		rl := openLimiter(t, ratelimit.Config{Quotas: oneModel, Events: handling(func(_ context.Context, e *ratelimit.Event) {
			switch e.Kind {
			case ratelimit.EventAdmitted:
				open.Add(1)
			case ratelimit.EventReleased:
				time.Sleep(2 * time.Millisecond)
				open.Add(-1)
			}
		})})
		var held []*ratelimit.Reservation // a lost one expires, and is not released by Close
		for range 1000 {
			r, _ := rl.Reserve("m", 1, 1)
			held = append(held, r)
		}
		rl.Close()
		if n := open.Load(); n != 0 {
			t.Errorf("%d reservations were admitted and never ended", n)
		}
		runtime.KeepAlive(held)
	})
}

// A cooldown whose model is counted under another name later ends once.
func TestEventsOfARenamedCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		began := time.Now()
		rl := openLimiter(t, ratelimit.Config{
			MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"other": {}},
			Events: handling(func(_ context.Context, e *ratelimit.Event) {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasPrefix(string(e.Kind), "cooldown") {
					got = append(got, fmt.Sprint(time.Since(began), " ", e.Kind, " ", e.Model))
				}
			}),
		})
		rl.CooldownFor("gpt-x-2024-08-06", 10*time.Second, "x")
		rl.SetQuota("gpt-x", ratelimit.ModelQuota{MaxRPM: 5})
		rl.CooldownFor("gpt-x", 30*time.Second, "y")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		ended := 0
		for _, line := range got {
			if strings.Contains(line, "ended") {
				ended++
			}
		}
		if ended != 1 {
			t.Errorf("the one cooldown ended %d times: %q", ended, got)
		}
	})
}

// Events and Explain name the same provider, also after AddProvider.
func TestEventsFollowTheProvider(t *testing.T) {
	var got ratelimit.Provider
	rl := openLimiter(t, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"my-deployment": {}},
		Events: handling(func(_ context.Context, e *ratelimit.Event) { got = e.Provider }),
	})
	r, _ := rl.Reserve("my-deployment", 1, 1)
	r.Commit(1, 1)
	rl.AddProvider(ratelimit.ProviderAzure)
	r, _ = rl.Reserve("my-deployment", 1, 1)
	r.Commit(1, 1)
	if want := rl.Explain("my-deployment").Provider; got != want {
		t.Errorf("the event's provider is %q, Explain's %q", got, want)
	}
}

// A handler that ends its goroutine, as t.FailNow does, takes no other event with it.
func TestEventsOfAHandlerThatEndsTheGoroutine(t *testing.T) {
	var mu sync.Mutex
	open := 0
	var once sync.Once
	rl := openLimiter(t, ratelimit.Config{Quotas: oneModel, Events: handling(func(_ context.Context, e *ratelimit.Event) {
		mu.Lock()
		switch e.Kind {
		case ratelimit.EventAdmitted:
			open++
		case ratelimit.EventReleased:
			open--
		}
		mu.Unlock()
		once.Do(runtime.Goexit)
	})})
	done := make(chan struct{})
	go func() {
		defer close(done)
		rl.ReserveAll(ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "m"})
	}()
	<-done
	began := time.Now()
	rl.Close()
	mu.Lock()
	defer mu.Unlock()
	if took := time.Since(began); open != 0 || took > 500*time.Millisecond {
		t.Errorf("%d open after Close, which took %v", open, took)
	}
}

// Nor does it keep the reservation from being watched.
func TestEventsOfAHandlerThatEndsTheGoroutineLeakNoSlot(t *testing.T) {
	var once sync.Once
	rl := openLimiter(t, ratelimit.Config{
		Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
		HoldTTL: 50 * time.Millisecond,
		Events:  handling(func(_ context.Context, e *ratelimit.Event) { once.Do(runtime.Goexit) }),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		rl.Reserve("m", 1, 1)
	}()
	<-done
	for range 10 {
		time.Sleep(50 * time.Millisecond)
		runtime.GC()
	}
	if n := rl.Stats("m").InFlight; n != 0 {
		t.Errorf("%d in flight for good", n)
	}
}

// The oldest open call of a model is known, however many older ones others have.
func TestOldestOpenBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := openLimiter(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"leaky": {}, "m": {}}, Events: handling(func(context.Context, *ratelimit.Event) {}),
		})
		for range 10_000 {
			rl.Reserve("leaky", 1, 1)
		}
		rl.Reserve("m", 1, 1)
		time.Sleep(time.Hour)
		if age := rl.Explain("m").OldestOpen; age != time.Hour {
			t.Errorf("the oldest call is %v old, want 1h", age)
		}
	})
}

// The events of WaitForCapacity say that it asks for no reservation, and those of Acquire do not.
func TestEventsOfWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(map[string]int)
		rl := openLimiter(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}},
			Events: handling(func(_ context.Context, e *ratelimit.Event) { got[string(e.Kind)+" "+e.Operation]++ }),
		})
		for range 2 {
			if r, err := rl.Acquire(t.Context(), "m", 1, 1); err == nil {
				r.Commit(1, 1)
			}
		}
		if err := rl.WaitForCapacity(t.Context(), "m", 1); err != nil {
			t.Error(err)
		}
		rl.RecordUsage("m", 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rl.WaitForCapacity(ctx, "m", 1)
		rl.Acquire(ctx, "m", 1, 1)
		want := map[string]int{
			"admitted ": 2, "settled ": 2, "queued ": 1, "queued wait": 1, "passed wait": 1, "recorded ": 1,
			"refused wait": 1, "refused ": 1,
		}
		if !maps.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
}
