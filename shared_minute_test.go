//go:build !nosqlite

// Shared: no minute of all processes exceeds the quota.

package ratelimit_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sharedChildIsMetered makes calls until its input ends, or would have to wait for long,
// and says when each was admitted, and what it took. The estimate is twice that.
func sharedChildIsMetered(rl *ratelimit.RateLimiter, plan *sharedPlan, in *bufio.Scanner) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	in.Scan() // go
	if plan.Calls == 0 {
		// A request that could not pass within that time, not even alone, is refused at once.
		ctx, cancel = context.WithTimeout(ctx, 40*time.Second)
		defer cancel()
	}
	go func() {
		in.Scan()
		cancel()
	}()
	errs := make([]error, plan.Goroutines)
	var all sync.WaitGroup
	for g := range plan.Goroutines {
		all.Go(func() {
			for {
				takes := 1 + rand.IntN(10)
				r, _ := rl.Reserve(plan.Model, takes, takes)
				if r == nil {
					var err error
					if r, err = rl.Acquire(ctx, plan.Model, takes, takes); err != nil {
						if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
							errs[g] = err
						}
						return
					}
				}
				fmt.Println(r.ReservedAt().UnixNano(), takes)
				time.Sleep(plan.Calls)
				r.Commit(takes, 0)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// sharedMeter is the oracle: it knows nothing of the library but the instants at which
// calls were admitted, and what they took.
type sharedMeter struct {
	mu    sync.Mutex
	calls []sharedCall
}

type sharedCall struct {
	at     int64
	tokens int
}

// read takes down what a process says, until it ends.
func (m *sharedMeter) read(c *sharedChild) error {
	for line, ok := c.line(); ok; line, ok = c.line() {
		var call sharedCall
		if n, _ := fmt.Sscan(line, &call.at, &call.tokens); n != 2 {
			return fmt.Errorf("a process said %q", line)
		}
		m.mu.Lock()
		m.calls = append(m.calls, call)
		m.mu.Unlock()
	}
	return c.out.Err()
}

// most returns the most requests and tokens of any minute. An entry counts up to and
// including the age of one minute.
func (m *sharedMeter) most() (requests, tokens int) {
	slices.SortFunc(m.calls, func(a, b sharedCall) int { return cmp.Compare(a.at, b.at) })
	first, sum := 0, 0
	for i, c := range m.calls {
		sum += c.tokens
		for c.at-m.calls[first].at > int64(time.Minute) {
			sum -= m.calls[first].tokens
			first++
		}
		requests, tokens = max(requests, i-first+1), max(tokens, sum)
	}
	return requests, tokens
}

// The short form of the oracle does not take a minute: most of that is in the file
// already. What it finds there leaves the window within the next seconds, and the
// processes take its place, each entry at the earliest a minute after another one.
func TestSharedProcessesKeepEveryMinuteWithinTheQuota(t *testing.T) {
	t.Parallel()
	const requests = 60
	for _, test := range []struct {
		limits   string
		quota    ratelimit.ModelQuota
		tokensOf func(i int) int
	}{
		{"requests", ratelimit.ModelQuota{MaxRPM: requests}, func(int) int { return 1 }},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 900}, func(i int) int { return 15 }},
		{"both", ratelimit.ModelQuota{MaxRPM: requests, MaxTPM: 600}, func(i int) int { return 1 + i%19 }},
	} {
		t.Run(test.limits, func(t *testing.T) {
			t.Parallel()
			var meter sharedMeter
			var state bytes.Buffer
			fmt.Fprint(&state, "state:\n  m:\n    requests:\n")
			const oldest = 57 * time.Second
			start := time.Now().Add(-oldest)
			for i := range requests {
				// Some in the same instant, as they are in a burst.
				at := start.Add(time.Duration(i/2) * 50 * time.Millisecond)
				meter.calls = append(meter.calls, sharedCall{at.UnixNano(), test.tokensOf(i)})
				fmt.Fprintf(&state, "      - %s\n", at.UTC().Format(time.RFC3339Nano))
			}
			fmt.Fprint(&state, "    tokens:\n")
			for _, c := range meter.calls {
				fmt.Fprintf(&state, "      - time: %s\n        count: %d\n", time.Unix(0, c.at).UTC().Format(time.RFC3339Nano), c.tokens)
			}
			path := sqlitePath(t)
			if err := ratelimit.MigrateYAMLToSQLite(yamlWrite(t, state.String()), path); err != nil {
				t.Fatal(err)
			}
			plan := sharedPlan{Path: path, Quotas: map[string]ratelimit.ModelQuota{"m": test.quota}, Model: "m"}
			processes, goroutines := sharedSize()
			plan.Goroutines = goroutines
			children := sharedStarted(t, processes, "meter", plan)
			for _, c := range children {
				c.tell("go")
			}
			var all sync.WaitGroup
			for _, c := range children {
				all.Go(func() {
					if err := meter.read(c); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			wantWithin(t, &meter, test.quota)
			if n := len(meter.calls); test.quota.MaxTPM == 0 && n < 2*requests {
				t.Errorf("%d were admitted after the %d of the file, want %[2]d at least", n-requests, requests)
			}
		})
	}
}

func wantWithin(t *testing.T, meter *sharedMeter, quota ratelimit.ModelQuota) {
	t.Helper()
	requests, tokens := meter.most()
	t.Logf("%d calls, at most %d requests and %d tokens in a minute, of %d and %d",
		len(meter.calls), requests, tokens, quota.MaxRPM, quota.MaxTPM)
	if quota.MaxRPM > 0 && requests > quota.MaxRPM {
		t.Errorf("%d requests in a minute, want at most %d", requests, quota.MaxRPM)
	}
	if quota.MaxTPM > 0 && tokens > quota.MaxTPM {
		t.Errorf("%d tokens in a minute, want at most %d", tokens, quota.MaxTPM)
	}
}

// The long form: real minutes, in which processes are killed and replaced, and others
// stopped for a while.
func TestSharedProcessesKeepEveryMinuteWithinTheQuotaWhileTheyDie(t *testing.T) {
	if !longRun() {
		t.Skip("takes minutes: set RATELIMIT_LONG")
	}
	t.Parallel()
	const lasts = 130 * time.Second
	quota := ratelimit.ModelQuota{MaxRPM: 600, MaxTPM: 9000, MaxInFlight: 16}
	plan := sharedPlan{
		Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": quota},
		Goroutines: 8, Model: "m", Calls: time.Second, // so that most are killed in the middle of calls
	}
	var meter sharedMeter
	var readers sync.WaitGroup
	start := func() *sharedChild {
		c := sharedStarted(t, 1, "meter", plan)[0]
		c.tell("go")
		readers.Go(func() {
			if err := meter.read(c); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	children := make([]*sharedChild, 8)
	for i := range children {
		children[i] = start()
	}
	kills, stops := 0, 0
	ticks := time.NewTicker(2 * time.Second)
	defer ticks.Stop()
	for began := time.Now(); time.Since(began) < lasts; kills++ {
		<-ticks.C
		order := rand.Perm(len(children))
		if err := sharedStop(children[order[1]].cmd.Process); err == nil {
			stopped := children[order[1]].cmd.Process
			time.AfterFunc(time.Duration(rand.Int64N(int64(time.Second))), func() { sharedContinue(stopped) })
			stops++
		}
		victim := children[order[0]]
		victim.cmd.Process.Kill()
		children[order[0]] = start()
	}
	for _, c := range children {
		c.in.Close()
	}
	readers.Wait()
	wantWithin(t, &meter, quota)
	span := time.Duration(meter.calls[len(meter.calls)-1].at - meter.calls[0].at)
	full := (int(span/time.Minute) + 1) * quota.MaxRPM
	t.Logf("%d kills, %d stops in %v; %.1f %% of the %d that %d minutes admit", kills, stops, span, 100*float64(len(meter.calls))/float64(full), full, int(span/time.Minute)+1)
	if late := sharedLimiter(t, plan); late.Stats("m").InFlight != 0 {
		t.Errorf("%d are in flight, and nobody lives", late.Stats("m").InFlight)
	}
	sqliteWantSound(t, plan.Path)
}
