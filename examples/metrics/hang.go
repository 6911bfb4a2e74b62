package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

const (
	hanging    = 6               // agents, which all call one model
	soundFor   = 2 * time.Second // until the hang begins
	soundCalls = 10
	slots      = 4
)

// hang is a way in which a service hangs.
type hang struct {
	quota  ratelimit.ModelQuota
	shared bool // the limiter uses a shared database
	refuse bool // the provider refuses all calls but the first ones, for two minutes each
	// begin makes the service hang after some time, unless the quota or the provider does. What it
	// returns is kept until the program ends.
	begin func(ctx context.Context, s *service, folder string) (kept any, err error)
}

var hangs = map[string]hang{
	"day":      {quota: ratelimit.ModelQuota{MaxRPM: 600, MaxRPD: 20}},
	"cooldown": {quota: ratelimit.ModelQuota{MaxRPM: 600, MaxRPD: 5000}, refuse: true},
	"large":    {quota: ratelimit.ModelQuota{MaxRPM: 600, MaxTPD: 40_000}, begin: askTooMuch},
	"leaks":    {quota: ratelimit.ModelQuota{MaxRPM: 600, MaxInFlight: slots}, begin: leak},
	"store":    {quota: ratelimit.ModelQuota{MaxRPM: 600}, shared: true, begin: breakStore},
}

func randomHang(seed uint64) string {
	names := slices.Sorted(maps.Keys(hangs))
	return names[rand.New(rand.NewPCG(seed, 0)).IntN(len(names))]
}

// askTooMuch asks for more than what is left of the day. It stands at the head of the line until
// tomorrow, and all calls that fit stand behind it.
func askTooMuch(ctx context.Context, s *service, _ string) (any, error) {
	go func() {
		if r, err := s.limiter.Acquire(ctx, queued, 39_900, 0); err == nil {
			r.Cancel()
		}
	}()
	return nil, nil
}

// leak takes all slots, and settles nothing.
func leak(ctx context.Context, s *service, _ string) (kept any, err error) {
	var all []*ratelimit.Reservation
	for range slots {
		r, err := s.limiter.Acquire(ctx, queued, 100, 100)
		if err != nil {
			return all, nil // the program ends
		}
		all = append(all, r)
	}
	return all, nil
}

// breakStore puts a folder in the place of the database.
func breakStore(_ context.Context, _ *service, folder string) (kept any, err error) {
	path := filepath.Join(folder, "usage.db")
	if err := os.Rename(path, path+".away"); err != nil {
		return nil, err
	}
	return nil, os.Mkdir(path, 0o700)
}

// startRefuser starts a provider that has no room any more after some calls, if refuse.
func startRefuser(path string, refuse bool) (*fakeprovider.Host, error) {
	var calls atomic.Int32
	return fakeprovider.Listen(fakeprovider.New(fakeprovider.Options{
		Headers: fakeprovider.NoHeaders,
		Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Delay = 100 * time.Millisecond
			if calls.Add(1) > soundCalls && refuse {
				a.Status = 429
				a.Header = map[string]string{"Retry-After": "120"}
			}
			return a
		},
	}, map[string]fakeprovider.Config{"": {}}), path)
}

// runHang has agents call until ctx ends, and prints nothing that tells why they hang.
func runHang(ctx context.Context, cfg config, folder string, out io.Writer) (err error) {
	h := hangs[cfg.hang]
	provider, err := startRefuser(filepath.Join(folder, "provider.jsonl"), h.refuse)
	if err != nil {
		return err
	}
	defer provider.Close()
	s, err := newService(folder, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{queued: h.quota}, Shared: h.shared, FailClosed: h.shared,
	}, 0)
	if err != nil {
		return err
	}
	defer s.close() // which fails where the store does
	url, stop, err := s.serve(cfg.address)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(out, "%d agents call %s, and soon get no answers any more. Why?\nmetrics: %s/metrics\npage:    %s/debug/ratelimit\n",
		hanging, queued, url, url)
	// Calls that know when the program ends would be refused, and not wait until then.
	ctx, cancel := withoutDeadline(ctx)
	defer cancel()
	var all sync.WaitGroup
	for range hanging {
		all.Go(func() {
			for ctx.Err() == nil {
				s.ask(ctx, provider.URL, queued)
				rest(ctx, pause)
			}
		})
	}
	rest(ctx, soundFor)
	var kept any
	if h.begin != nil && ctx.Err() == nil {
		kept, err = h.begin(ctx, s, folder)
	}
	all.Wait()
	runtime.KeepAlive(kept) // garbage would be settled
	return err
}

func withoutDeadline(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.WithoutCancel(parent))
	context.AfterFunc(parent, cancel)
	return ctx, cancel
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}
