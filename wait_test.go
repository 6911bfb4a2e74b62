// WaitForCapacity: when it wakes, why it does not, and how it ends with the limiter.

package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestWaitForCapacityWakesAtTheExactInstant(t *testing.T) {
	tests := []struct {
		name  string
		quota ratelimit.ModelQuota
		use   func(rl *ratelimit.RateLimiter)
		want  time.Duration
	}{
		{"there is room", ratelimit.ModelQuota{MaxRPM: 1}, func(*ratelimit.RateLimiter) {}, 0},
		{"unknown model", ratelimit.ModelQuota{}, func(rl *ratelimit.RateLimiter) { delete(rl.Quotas, "m") }, 0},
		{"requests", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 1, 1) }, time.Minute + 1},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 10}, func(rl *ratelimit.RateLimiter) {
			rl.RecordUsage("m", 4, 0)
			time.Sleep(7 * time.Second)
			rl.RecordUsage("m", 6, 0)
		}, time.Minute + 1},
		{"the day", ratelimit.ModelQuota{MaxRPD: 1}, func(rl *ratelimit.RateLimiter) {
			rl.RecordUsage("m", 1, 1)
			time.Sleep(time.Hour)
		}, 23 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, tt.quota)
				tt.use(rl)
				started := time.Now()
				if err := rl.WaitForCapacity(t.Context(), "m", 10); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(started); waited != tt.want {
					t.Errorf("waited %v, want %v", waited, tt.want)
				}
			})
		})
	}
}

func TestWaitForCapacityRefusesAtOnce(t *testing.T) {
	invalid := ratelimit.ModelQuota{MaxRPD: -1}
	tests := []struct {
		name    string
		quota   ratelimit.ModelQuota
		tokens  int
		timeout time.Duration
		want    error
		text    string
	}{
		{"negative tokens", ratelimit.ModelQuota{MaxRPM: 1}, -3, 0, ratelimit.ErrInvalidTokens, "negative tokens"},
		{"larger than the quota", ratelimit.ModelQuota{MaxTPM: 10}, 11, 0, ratelimit.ErrNeverFits, "m"},
		{"invalid quota", invalid, 1, 0, ratelimit.ErrNeverFits, "MaxRPD"},
		{"the context comes first", ratelimit.ModelQuota{MaxRPM: 1}, -3, -1, context.DeadlineExceeded, "deadline"},
		{"deadline before the capacity", ratelimit.ModelQuota{MaxRPM: 1}, 1, time.Minute, context.DeadlineExceeded, "1m0.000000001s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{})
				rl.SetQuota("m", tt.quota)
				rl.RecordUsage("m", 1, 1)
				ctx := t.Context()
				if tt.timeout != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				started := time.Now()
				err := rl.WaitForCapacity(ctx, "m", tt.tokens)
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("error is %v, want %v with %q", err, tt.want, tt.text)
				}
				if errors.Is(err, ratelimit.ErrInvalidTokens) != (tt.want == ratelimit.ErrInvalidTokens) {
					t.Errorf("error is %v, want %v alone", err, tt.want)
				}
				if waited := time.Since(started); waited != 0 {
					t.Errorf("refused after %v", waited)
				}
				var limit *ratelimit.LimitError
				if isLimit := errors.As(err, &limit); isLimit != (tt.tokens >= 0) {
					t.Fatalf("%v is a LimitError: %v", err, isLimit)
				} else if isLimit && (limit.Model != "m" || limit.Decision.Allowed || limit.Decision.Code == "") {
					t.Errorf("limit error is %+v", limit)
				}
			})
		})
	}
}

func TestWaitForCapacityIsNotRefusedForADeadlineAtTheCapacity(t *testing.T) {
	for after, mayEnd := range map[time.Duration]bool{0: true, 1: false} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
			rl.RecordUsage("m", 1, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+1+after)
			defer cancel()
			started := time.Now()
			err := rl.WaitForCapacity(ctx, "m", 1)
			// In the same instant, context and capacity may come in either order.
			if err != nil && !(mayEnd && err == context.DeadlineExceeded) {
				t.Error(err)
			}
			if waited := time.Since(started); waited != time.Minute+1 {
				t.Errorf("waited %v", waited)
			}
		})
	}
}

func TestWaitForCapacityWakesWhenRoomIsMade(t *testing.T) {
	for name, makeRoom := range map[string]func(rl *ratelimit.RateLimiter) error{
		"Reset":       func(rl *ratelimit.RateLimiter) error { rl.Reset("m"); return nil },
		"Reset all":   func(rl *ratelimit.RateLimiter) error { rl.Reset(""); return nil },
		"SetQuota":    func(rl *ratelimit.RateLimiter) error { rl.SetQuota("m", ratelimit.ModelQuota{}); return nil },
		"AddProvider": func(rl *ratelimit.RateLimiter) error { rl.AddProvider(ratelimit.ProviderOpenAI); return nil },
		"Load":        func(rl *ratelimit.RateLimiter) error { return rl.Load() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 1})
				model := "m"
				if name == "AddProvider" {
					model = "gpt-4o"
					rl.SetQuota(model, ratelimit.ModelQuota{MaxRPD: 1})
				}
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				rl.RecordUsage(model, 1, 1)
				time.Sleep(time.Minute * 2)
				done := make(chan error, 1)
				go func() { done <- rl.WaitForCapacity(t.Context(), model, 1) }()
				time.Sleep(10 * time.Second)
				select {
				case err := <-done:
					t.Fatalf("did not wait: %v", err)
				default:
				}
				started := time.Now()
				if err := makeRoom(rl); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				if late := time.Since(started); late != 0 {
					t.Errorf("woke %v late", late)
				}
			})
		})
	}
}

func TestWaitForCapacityGoesOnWaitingWhenOthersWereFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		rl.RecordUsage("m", 1, 1)
		time.AfterFunc(30*time.Second, func() { rl.RecordUsage("m", 1, 1) })
		started := time.Now()
		if err := rl.WaitForCapacity(t.Context(), "m", 1); err != nil {
			t.Error(err)
		}
		if waited := time.Since(started); waited != 90*time.Second+1 {
			t.Errorf("waited %v", waited)
		}
	})
}

// A limiter with a YAML file goes on in memory once it is closed, but lets nobody wait.
func TestClosedLimiterGoesOnInMemory(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("m", 1, 1)
	for range 2 {
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := rl.WaitForCapacity(t.Context(), "m", 1); !errors.Is(err, ratelimit.ErrClosed) {
		t.Errorf("a wait after Close: %v", err)
	}
	rl.Reset("m")
	if err := rl.WaitForCapacity(t.Context(), "m", 1); err != nil {
		t.Errorf("decisions go on in memory: %v", err)
	}
	rl.RecordUsage("m", 1, 1)
	if rl.CanSend("m", 1) || rl.Stats("m").RPM != 1 {
		t.Error("records go on in memory")
	}
	if err := errors.Join(rl.Persist(), rl.Load()); err != nil {
		t.Errorf("with YAML files go on: %v", err)
	}
}

func TestWaitForCapacityLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("m", math.MaxInt, math.MaxInt)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- rl.WaitForCapacity(ctx, "m", 1) }()
	cancel()
	<-done
	if err := rl.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() { // its last step may be late
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// The zero RateLimiter has no constructor that would tell its parts which limiter theirs is.
func TestZeroLimiterServesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := &ratelimit.RateLimiter{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}, "*": {MaxInFlight: 1}}}
		rl.Cooldown("m", time.Now().Add(time.Second))
		start := time.Now()
		for i, want := range []time.Duration{time.Second, time.Second + time.Minute + 1} {
			r, err := rl.Acquire(t.Context(), "m", 1, 1)
			if waited := time.Since(start); err != nil || waited != want {
				t.Fatalf("call %d passes after %v: %v, want %v", i, waited, err, want)
			}
			r.Commit(1, 1)
		}
		busy := reserve(t, rl, "unlisted", 1, 1)
		time.AfterFunc(time.Second, func() { busy.Commit(1, 1) })
		if _, err := rl.Acquire(t.Context(), "unlisted", 1, 1); err != nil {
			t.Error(err)
		}
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseRefusesEverybodyWhoWaits(t *testing.T) {
	quotas := map[string]ratelimit.ModelQuota{"a": {MaxTPM: 100}, "b": {MaxTPM: 100}, "slots": {MaxInFlight: 1}}
	onKinds(t, func(t *testing.T, p *place) {
		rl := p.open(t, ratelimit.Config{Quotas: quotas})
		reserve(t, rl, "a", 60, 0)
		reserve(t, rl, "b", 60, 0)
		slot := reserve(t, rl, "slots", 1, 0)
		ctx := context.Background()
		one := func(model string, tokens int) func() error {
			return func() error {
				_, err := rl.Acquire(ctx, model, tokens, 0)
				return err
			}
		}
		waits := []struct {
			name string
			wait func() error
		}{
			{"the head of a line", one("a", 90)},
			{"a smaller one behind it", one("a", 1)},
			{"one without cost", one("a", 0)},
			{"the head of two lines", func() error {
				_, err := rl.AcquireAll(ctx, ratelimit.Request{Model: "b", PromptTokens: 90}, ratelimit.Request{Model: "a", PromptTokens: 1})
				return err
			}},
			{"behind the head of two lines", one("b", 1)},
			{"for capacity", func() error { return rl.WaitForCapacity(ctx, "b", 1) }},
			{"for a slot", one("slots", 1)},
			{"behind one for a slot", one("slots", 0)},
		}
		type result struct {
			name string
			err  error
		}
		results := make(chan result, len(waits))
		for _, w := range waits {
			go func() { results <- result{w.name, w.wait()} }()
			time.Sleep(time.Second)
		}
		if n := len(results); n > 0 {
			t.Fatalf("%d do not wait, such as %+v", n, <-results)
		}
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
		slot.Cancel()
		for range waits {
			if r := <-results; !errors.Is(r.err, ratelimit.ErrClosed) {
				t.Errorf("%s: error is %v, want ErrClosed", r.name, r.err)
			}
		}
	})
}
