// A remote log of which a change failed: calls wait for the first attempt to use it again, and for
// no other.

package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

const mostWait = 250 * time.Millisecond

// flaky is a store of which some requests fail after all the time that a call may wait.
type flaky struct {
	*sharedlogtest.Fake
	fails int           // so many of the next requests
	takes time.Duration // each of the others
}

func newFlaky() *flaky {
	f := &flaky{Fake: sharedlogtest.NewFake()}
	f.MostWait = mostWait
	f.Before = func(int64) error { return f.request() }
	return f
}

func (f *flaky) request() error {
	if f.fails > 0 {
		f.fails--
		time.Sleep(mostWait)
		return errors.New("no answer")
	}
	time.Sleep(f.takes)
	return nil
}

func (f *flaky) OpenLog(ctx context.Context, o sharedlog.Options) (sharedlog.Remote, error) {
	log, err := f.Fake.OpenLog(ctx, o)
	return &flakyLog{log, f}, err
}

type flakyLog struct {
	sharedlog.Remote
	f *flaky
}

func (l *flakyLog) Begin(ctx context.Context, seen int64) (sharedlog.Step, error) {
	if seen == sharedlog.Everything {
		if err := l.f.request(); err != nil {
			return nil, err
		}
	}
	return l.Remote.Begin(ctx, seen)
}

// took returns how long a call takes.
func took(call func()) time.Duration {
	began := time.Now()
	call()
	return time.Since(began)
}

func TestOneFailureIsNoOutage(t *testing.T) {
	for _, failClosed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newFlaky()
			cfg := ratelimit.Config{FailClosed: failClosed, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}}
			rl, _ := overStore(t, store, cfg), overStore(t, store, cfg)
			store.fails, store.takes = 1, 20*time.Millisecond
			if _, d := rl.Reserve("m", 1, 0); d.Allowed == failClosed {
				t.Errorf("FailClosed %v: %q for the call that failed", failClosed, d.Code)
			}
			// The next one waits for the log, and has the whole quota, not a share.
			if d := rl.Decide("m", 1); !d.Allowed || rl.Err() != nil {
				t.Errorf("FailClosed %v: Decide answers %q after one failure, Err is %v", failClosed, d.Code, rl.Err())
			}
			for range 9 {
				if _, d := rl.Reserve("m", 1, 0); !d.Allowed {
					t.Errorf("FailClosed %v: %q after one failure", failClosed, d.Code)
				}
			}
		})
	}
}

func TestOutageIsWaitedForOnce(t *testing.T) {
	for _, failClosed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newFlaky()
			cfg := ratelimit.Config{FailClosed: failClosed, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000}}}
			rl, _ := overStore(t, store, cfg), overStore(t, store, cfg)
			store.fails = 1000
			reserve := func() { rl.Reserve("m", 1, 0) }
			if w := took(reserve); w != mostWait {
				t.Errorf("FailClosed %v: the first call takes %v, want %v", failClosed, w, mostWait)
			}
			if w := took(reserve); w != mostWait*3/4 {
				t.Errorf("FailClosed %v: the second call takes %v, want %v", failClosed, w, mostWait*3/4)
			}
			for i := range 100 { // a rare call does not wait, either
				if i > 50 {
					time.Sleep(time.Minute)
				}
				if w := took(reserve) + took(func() { rl.Decide("m", 1) }); w != 0 {
					t.Errorf("FailClosed %v: call %d takes %v, want none of it", failClosed, i+3, w)
				}
			}
		})
	}
}

// What comes while the attempt is made ends with its context.
func TestHopeEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky()
		rl := overStore(t, store, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}})
		store.fails = 1000
		rl.Reserve("m", 1, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if w := took(func() { rl.Acquire(ctx, "m", 1, 0) }); w > time.Millisecond {
			t.Errorf("a call of 1 ms takes %v", w)
		}
	})
}
