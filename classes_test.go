package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// line is calls that wait, and the order in which they were served.
type line struct {
	*testing.T
	rl    *ratelimit.RateLimiter
	mu    sync.Mutex
	order []string
	kept  []*ratelimit.Reservation
	wg    sync.WaitGroup
}

func newLine(t *testing.T, cfg ratelimit.Config) *line {
	return &line{T: t, rl: newLimiterWith(t, cfg)}
}

// comes has a call wait, under a name.
func (l *line) comes(name string, req ratelimit.Request) {
	l.wg.Go(func() {
		rs, err := l.rl.AcquireAll(l.Context(), req)
		if err != nil {
			l.Errorf("%s: %v", name, err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.order = append(l.order, name)
		l.kept = append(l.kept, rs...)
	})
	synctest.Wait()
}

func (l *line) served() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.order, " ")
}

func (l *line) expect(want string) {
	l.Helper()
	if got := l.served(); got != want {
		l.Errorf("served %q, want %q", got, want)
	}
}

// cancel gives everything back that was served last.
func (l *line) cancelLast() {
	l.mu.Lock()
	r := l.kept[len(l.kept)-1]
	l.kept = l.kept[:len(l.kept)-1]
	l.mu.Unlock()
	r.Cancel()
}

func TestClassesShareByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
			Classes: map[string]ratelimit.Class{"heavy": {Weight: 3}, "light": {}},
		})
		first, _ := l.rl.Reserve("m", 1, 1)
		for range 6 {
			l.comes("l", ratelimit.Request{Model: "m", Class: "light"})
		}
		for range 6 {
			l.comes("h", ratelimit.Request{Model: "m", Class: "heavy"})
		}
		first.Cancel()
		for range 12 {
			synctest.Wait()
			l.cancelLast()
		}
		l.wg.Wait()
		l.expect("l h h h l h h h l l l l")
	})
}

func TestClassAheadGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
			Classes: map[string]ratelimit.Class{"person": {Ahead: true}},
		})
		first, _ := l.rl.Reserve("m", 1, 1)
		for n := range 3 {
			l.comes(fmt.Sprint("b", n), ratelimit.Request{Model: "m", Class: "unknown"})
		}
		for n := range 12 {
			l.comes(fmt.Sprint("p", n), ratelimit.Request{Model: "m", Class: "person"})
		}
		first.Cancel()
		for range 15 {
			synctest.Wait()
			l.cancelLast()
		}
		l.wg.Wait()
		l.expect("p0 p1 p2 p3 p4 p5 p6 p7 p8 b0 p9 p10 p11 b1 b2")
	})
}

func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}})
		first, _ := l.rl.Reserve("m", 1, 1)
		for n := range 4 {
			l.comes(fmt.Sprint("x", n), ratelimit.Request{Model: "m", Flow: "x"})
		}
		l.comes("y0", ratelimit.Request{Model: "m", Flow: "y"})
		l.comes("z0", ratelimit.Request{Model: "m", Flow: "z"})
		first.Cancel()
		for range 6 {
			synctest.Wait()
			l.cancelLast()
		}
		l.wg.Wait()
		l.expect("x0 y0 z0 x1 x2 x3")
	})
}

// The class of the context counts where the request names none.
func TestClassOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
			Classes: map[string]ratelimit.Class{"one": {MaxQueue: 1}, "two": {MaxQueue: 2}},
		})
		first, _ := rl.Reserve("m", 1, 1)
		defer first.Cancel()
		ctx, cancel := context.WithCancel(ratelimit.WithFlow(ratelimit.WithClass(t.Context(), "one"), "f"))
		defer cancel()
		go rl.Acquire(ctx, "m", 1, 1)
		synctest.Wait()
		for _, wait := range []func() error{
			func() error { _, err := rl.Acquire(ctx, "m", 1, 1); return err },
			func() error { _, err := rl.AcquireAll(ctx, ratelimit.Request{Model: "m"}); return err },
			func() error {
				_, err := rl.AcquireAll(t.Context(), ratelimit.Request{Model: "m", Class: "one"})
				return err
			},
			func() error { return rl.WaitForCapacity(ctx, "m", 1) },
		} {
			if err := wait(); !errors.Is(err, ratelimit.ErrQueueFull) {
				t.Errorf("%v, want a full queue", err)
			}
		}
		two, end := context.WithTimeout(ctx, time.Second)
		defer end()
		if _, err := rl.AcquireAll(two, ratelimit.Request{Model: "m", Class: "two"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a wait: it is of another class", err)
		}
		cancel()
		synctest.Wait()
	})
}

// What the class "" says holds for names of no class, too.
func TestMaxQueueOfNamesOfNoClass(t *testing.T) {
	aloneAndTogether(t, ratelimit.Config{
		Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
		Classes: map[string]ratelimit.Class{"": {MaxQueue: 2}, "other": {}},
	}, func(t *testing.T, rl, _ *ratelimit.RateLimiter, late time.Duration) {
		first, _ := rl.Reserve("m", 1, 1)
		defer first.Cancel()
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		for _, class := range []string{"", "unknown"} {
			go rl.Acquire(ratelimit.WithClass(ctx, class), "m", 1, 1)
		}
		synctest.Wait()
		for _, class := range []string{"", "unknown", "another"} {
			if _, err := rl.Acquire(ratelimit.WithClass(ctx, class), "m", 1, 1); !errors.Is(err, ratelimit.ErrQueueFull) {
				t.Errorf("class %q: %v, want a full queue", class, err)
			}
		}
	})
}

func TestClassesOutOfRange(t *testing.T) {
	for want, classes := range map[string]map[string]ratelimit.Class{
		`class "a": field Weight is -1, want 0 to 1000000`:      {"a": {Weight: -1}},
		`class "a": field ReservePercent is 101, want 0 to 100`: {"a": {ReservePercent: 101}},
		`class "b": field MaxQueue is -5, want 0 or more`:       {"a": {}, "b": {MaxQueue: -5}},
		`fields ReservePercent add up to 110`:                   {"a": {ReservePercent: 60}, "b": {ReservePercent: 50}},
		`class "": field ReservePercent is 5`:                   {"": {ReservePercent: 5}},
		`class "\xff" has a name that is not UTF-8`:             {"\xff": {Weight: 1}},
		`class "a": field Weight is 2000000, want 0 to 1000000`: {"a": {Weight: 2_000_000}},
	} {
		if _, err := ratelimit.NewWithConfig(ratelimit.Config{Classes: classes}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
