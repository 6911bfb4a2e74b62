package accountlimits_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/accountlimits"
)

// holder notes what it gets, as a limiter and as OnError.
type holder struct {
	mu   sync.Mutex
	got  []quotas
	errs []error
}

func (h *holder) SetAccountQuotas(q map[string]ratelimit.ModelQuota) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, q)
}

func (h *holder) onError(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

// last returns the limits that the holder has, and how often it got some.
func (h *holder) last() (quotas, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.got) == 0 {
		return nil, 0
	}
	return h.got[len(h.got)-1], len(h.got)
}

func (h *holder) told() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.errs)
}

// wantLimits checks what the holder has, and how often it got some.
func (h *holder) wantLimits(t *testing.T, when string, want quotas, times int) {
	t.Helper()
	if got, n := h.last(); !maps.Equal(got, want) || n != times {
		t.Errorf("%s: got %v, the last of %d, want %v, the last of %d", when, got, n, want, times)
	}
}

// script is a Source that returns what the test sets, and notes the times of its reads.
type script struct {
	mu     sync.Mutex
	limits quotas
	err    error
	start  time.Time
	at     []time.Duration
}

func (s *script) Limits(context.Context) (quotas, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start.IsZero() {
		s.start = time.Now()
	}
	s.at = append(s.at, time.Since(s.start))
	return s.limits, s.err
}

func (s *script) set(limits quotas, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits, s.err = limits, err
}

// reads returns the times of the reads since the first one.
func (s *script) reads() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

// sourceFunc is a Source made of a function.
type sourceFunc func(context.Context) (quotas, error)

func (f sourceFunc) Limits(ctx context.Context) (quotas, error) { return f(ctx) }

// started runs a Syncer in the bubble of a test, and returns what ends it.
func started(t *testing.T, h *holder, s accountlimits.Syncer) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.RunFor(ctx, h.SetAccountQuotas, h.onError) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestSyncKeepsTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h holder
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "state.yaml"), Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
			OnError: h.onError,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer rl.Close()
		want := func(when string, rpm int, told bool) {
			t.Helper()
			if got := rl.Stats("m").MaxRPM; got != rpm || (len(h.told()) > 0) != told {
				t.Errorf("%s: %d requests a minute, want %d; OnError got %v", when, got, rpm, h.told())
			}
		}
		source := &script{limits: quotas{"m": {MaxRPM: 100}}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- accountlimits.Sync(ctx, rl, time.Hour, source) }()
		synctest.Wait()
		want("at once", 100, false)
		source.set(quotas{"m": {MaxRPM: 200}}, nil)
		time.Sleep(54*time.Minute - 1)
		synctest.Wait()
		if n := len(source.reads()); n != 1 {
			t.Errorf("%d reads within 54 minutes, want 1", n)
		}
		time.Sleep(6*time.Minute + 1)
		synctest.Wait()
		want("after an hour", 200, false)
		source.set(nil, errors.New("down"))
		time.Sleep(time.Hour)
		synctest.Wait()
		want("after a failure", 200, true)
		source.set(quotas{}, nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want("without the model", 0, true)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || err.Error() != "sync account limits: context canceled" {
			t.Errorf("Sync returned %v", err)
		}
		reads := len(source.reads())
		time.Sleep(10 * time.Hour)
		if n := len(source.reads()); n != reads {
			t.Errorf("%d reads, %d of them after the end", n, n-reads)
		}
	})
}

// A failure, also the first, leaves what is known, is told, and is tried again with growing pauses.
func TestSyncFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h holder
		down := errors.New("down")
		source := &script{limits: quotas{"m": {MaxRPM: 1}}, err: down}
		stop := started(t, &h, accountlimits.Syncer{
			Every:   time.Hour,
			Sources: []accountlimits.Source{source},
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		h.wantLimits(t, "after failures only", nil, 0)
		at, told := source.reads(), h.told()
		if len(told) != len(at) || !errors.Is(told[0], down) ||
			told[0].Error() != "sync account limits: source 0 (*accountlimits_test.script): down" {
			t.Errorf("told %d of %d failures: %v", len(told), len(at), told)
		}
		for i := 1; i < len(at); i++ {
			most := min(time.Second<<min(i-1, 20), 5*time.Minute)
			if pause := at[i] - at[i-1]; pause > most || pause < most*9/10 {
				t.Errorf("pause %d is %v, want %v or up to a tenth less", i, pause, most)
			}
		}

		source.set(quotas{"m": {MaxRPM: 2}}, nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		h.wantLimits(t, "after the failures", quotas{"m": {MaxRPM: 2}}, 1)
		source.set(quotas{"m": {MaxRPM: 3}}, down)
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		h.wantLimits(t, "after further failures", quotas{"m": {MaxRPM: 2}}, 1)
		if reads, failures := len(source.reads()), len(h.told()); failures != reads-1 || failures == len(told) {
			t.Errorf("told %d failures of %d reads, one of which succeeded", failures, reads)
		}
		if err := stop(); !errors.Is(err, context.Canceled) || !errors.Is(err, down) {
			t.Errorf("Run returned %v, want the last failure beside context.Canceled", err)
		}
	})
}

// A failure of one source holds up no other one.
func TestSyncSourcesAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h holder
		reads := 0
		stop := started(t, &h, accountlimits.Syncer{Every: time.Minute, Sources: []accountlimits.Source{
			sourceFunc(func(ctx context.Context) (quotas, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			sourceFunc(func(context.Context) (quotas, error) { return nil, errors.New("down") }),
			sourceFunc(func(context.Context) (quotas, error) {
				return quotas{
					"a": {MaxRPM: 5, MaxTPM: 10, Burst: time.Second, AdaptiveFloorRPM: 7, AdaptiveCeilingRPM: 9, AdaptiveCeilingInFlight: 3},
					"b": {MaxRPD: 2},
				}, nil
			}),
			sourceFunc(func(context.Context) (quotas, error) {
				reads++
				return quotas{"a": {MaxRPM: 7, MaxTPM: 9, MaxITPM: reads, DayZone: "UTC", AdaptiveCeilingRPM: 6, AdaptiveFloorInFlight: 2}}, nil
			}),
		}})
		time.Sleep(time.Minute)
		synctest.Wait()
		want := quotas{"b": {MaxRPD: 2}, "a": {
			MaxRPM: 5, MaxTPM: 9, MaxITPM: 2, DayZone: "UTC", Burst: time.Second,
			AdaptiveFloorRPM: 6, AdaptiveCeilingRPM: 6, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 3,
		}}
		if got, _ := h.last(); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		stop()
	})
}

func TestSyncPauses(t *testing.T) {
	for _, c := range []struct {
		name        string
		every       time.Duration
		status      int
		header      string // Retry-After
		least, most time.Duration
	}{
		{name: "the default", every: 0, least: 54 * time.Minute, most: time.Hour},
		{name: "below zero", every: -5, least: 54 * time.Minute, most: time.Hour},
		{name: "at least a second", every: 1, least: time.Second, most: time.Second},
		{name: "a failure", every: time.Hour, status: 500, least: 900 * time.Millisecond, most: time.Second},
		{name: "no longer than between successes", every: 1, status: 500, least: 900 * time.Millisecond, most: time.Second},
		{name: "seconds", every: time.Hour, status: 429, header: "100", least: 100 * time.Second, most: 110 * time.Second},
		{name: "longer than between successes", every: time.Minute, status: 429, header: "100", least: 100 * time.Second, most: 110 * time.Second},
		{name: "at most a day", every: time.Hour, status: 503, header: "1e9", least: 24 * time.Hour, most: 27 * time.Hour},
		{name: "a date", every: time.Hour, status: 503, header: "Sat, 01 Jan 2000 00:03:00 GMT", least: 3 * time.Minute, most: 200 * time.Second},
		{name: "shorter than the pause", every: time.Hour, status: 503, header: "0", least: 900 * time.Millisecond, most: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) { // begins at 2000-01-01 00:00:00 UTC
			var h holder
			var at []time.Duration
			start := time.Now()
			stop := started(t, &h, accountlimits.Syncer{Every: c.every, Sources: []accountlimits.Source{
				accountlimits.OpenAI{Project: "p", Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					at = append(at, time.Since(start))
					reply := response(r, max(c.status, 200), `{"data":[]}`)
					if c.header != "" {
						reply.Header.Set("Retry-After", c.header)
					}
					return reply, nil
				})}},
			}})
			time.Sleep(c.most)
			synctest.Wait()
			if len(at) < 2 || at[1] < c.least {
				t.Errorf("%s: read at %v, want the second from %v to %v", c.name, at, c.least, c.most)
			}
			err := stop()
			if want := fmt.Sprint("status ", c.status); c.status != 0 && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: Run returned %v, want %s in it", c.name, err, want)
			}
		})
	}
}

// A read that does not end is ended after two minutes, and told.
func TestSyncReadTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h holder
		stop := started(t, &h, accountlimits.Syncer{
			Sources: []accountlimits.Source{sourceFunc(func(ctx context.Context) (quotas, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})},
		})
		time.Sleep(2*time.Minute - 1)
		synctest.Wait()
		if told := h.told(); told != nil {
			t.Errorf("told too early: %v", told)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if told := h.told(); len(told) != 1 || !errors.Is(told[0], context.DeadlineExceeded) {
			t.Errorf("told %v, want context.DeadlineExceeded", told)
		}
		time.Sleep(time.Minute) // into the second read, which ends with Run
		if err := stop(); len(h.told()) != 1 || !errors.Is(err, context.Canceled) {
			t.Errorf("told %v with the end, Run returned %v", h.told(), err)
		}
	})
}

// What a source does with its map later does not matter, nor what the limiter does.
func TestSyncCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h holder
		own := &script{limits: quotas{"m": {MaxRPM: 1}}}
		other := sourceFunc(func(context.Context) (quotas, error) { return nil, nil })
		stop := started(t, &h, accountlimits.Syncer{Every: time.Hour, Sources: []accountlimits.Source{own, other}})
		own.mu.Lock()
		own.limits["m"] = ratelimit.ModelQuota{MaxRPM: 2}
		own.err = errors.New("down") // so that only the other one is read with success
		own.mu.Unlock()
		got, _ := h.last()
		got["m"] = ratelimit.ModelQuota{MaxRPM: 3}
		time.Sleep(time.Hour)
		synctest.Wait()
		h.wantLimits(t, "an hour later", quotas{"m": {MaxRPM: 1}}, 3)
		stop()
	})
}

func TestSyncRefuses(t *testing.T) {
	rl := new(ratelimit.RateLimiter)
	source := sourceFunc(func(context.Context) (quotas, error) { return nil, errors.New("read") })
	for want, s := range map[string]accountlimits.Syncer{
		"sync account limits: the field Limiter is nil": {Sources: []accountlimits.Source{source}},
		"sync account limits: there are no sources":     {Limiter: rl},
		"sync account limits: source 1 is nil":          {Limiter: rl, Sources: []accountlimits.Source{source, nil}},
	} {
		if err := s.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := accountlimits.Sync(ctx, rl, 0, source); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// What an earlier run has read of a source stays until that was read, whatever the others say.
func TestSyncKeepsTheLimitsOfTheLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := new(ratelimit.RateLimiter)
		rl.SetAccountQuotas(quotas{"a": {MaxRPM: 1}, "b": {MaxRPM: 2}, "gone": {MaxRPM: 3}})
		var mended atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- accountlimits.Sync(ctx, rl, time.Hour,
				keptSource(func() (quotas, error) { return quotas{"a": {MaxRPM: 10}}, nil }),
				keptSource(func() (quotas, error) {
					if !mended.Load() {
						return nil, errors.New("down")
					}
					return quotas{"b": {MaxRPM: 20}}, nil
				}))
		}()
		for _, want := range []quotas{
			{"a": {MaxRPM: 10}, "b": {MaxRPM: 2}, "gone": {MaxRPM: 3}},
			{"a": {MaxRPM: 10}, "b": {MaxRPM: 20}},
		} {
			synctest.Wait()
			if got := rl.AccountQuotas(); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			mended.Store(true)
			time.Sleep(time.Minute)
		}
		cancel()
		<-done
	})
}

type keptSource func() (quotas, error)

func (s keptSource) Limits(context.Context) (quotas, error) { return s() }
