package lives

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
	"dappco.re/go/core/go-ratelimit/money"
)

// recorder is a store in memory that keeps what it was sent. It is for one log.
type recorder struct {
	*memlog.Store

	mu        sync.Mutex
	processes []int64 // in the order in which they came
	image     []byte  // that the log began with
	entries   map[int64]store.Entry
}

func newRecorder() *recorder {
	return &recorder{Store: memlog.New(memlog.Faults{}), entries: make(map[int64]store.Entry)}
}

// Open implements store.Store.
func (r *recorder) Open(ctx context.Context, options store.Options) (store.Log, error) {
	l, err := r.Store.Open(ctx, options)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.processes = append(r.processes, options.Process)
	return &recorded{l, r}, err
}

type recorded struct {
	store.Log
	r *recorder
}

// Begin implements store.Log.
func (l *recorded) Begin(ctx context.Context, old uint64, image store.Image) error {
	err := l.Log.Begin(ctx, old, image)
	if l.r.mu.Lock(); err == nil {
		l.r.image = image.Bytes
	}
	l.r.mu.Unlock()
	return err
}

// Append implements store.Log.
func (l *recorded) Append(ctx context.Context, after store.Position, batch []store.Entry) (store.News, error) {
	news, err := l.Log.Append(ctx, after, batch)
	l.r.keep(news)
	return news, err
}

// Read implements store.Log.
func (l *recorded) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	news, err := l.Log.Read(ctx, after, wait, gather)
	l.r.keep(news)
	return news, err
}

func (r *recorder) keep(news store.News) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range news.Entries {
		e.Command = slices.Clone(e.Command)
		r.entries[e.At.Seq] = e
	}
}

// crew are limiters of processes that share a store, and what they have open.
type crew struct {
	*world
	t      *testing.T
	random *rand.Rand
	rec    *recorder
	all    []*ratelimit.RateLimiter
	open   []*ratelimit.Reservation
	mu     sync.Mutex // of open, for those that have waited
}

// recordCrew has three processes live on a store that goes away now and then, for one of them or
// all, and returns what they sent.
func recordCrew(t *testing.T, seed uint64) (image []byte, entries []store.Entry) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 11))
		f := &crew{world: newWorld(random), t: t, random: random, rec: newRecorder()}
		f.paced = true
		f.cfg.Store, f.cfg.Classes, f.cfg.LeaseTTL = f.rec, drawClasses(random), 20*time.Minute
		if f.cfg.Pools == nil {
			f.cfg.Pools = map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: f.drawQuota(random, "pool org", 3)}}
		}
		if f.cfg.MaxModels != 0 {
			f.cfg.MaxModels = 2
		}
		time.Sleep(f.begins)
		for range 3 {
			rl, err := ratelimit.NewWithConfig(f.cfg)
			if err != nil {
				t.Fatal(err)
			}
			f.all = append(f.all, rl)
		}
		for step := range 220 {
			if step == 150 { // one dies without a word, with what it has open and its waiters
				f.wait(f.all[2], ratelimit.Request{Model: "full", PromptTokens: 100}, time.Minute)
				synctest.Wait()
				f.rec.Kill(f.rec.processes[2])
				defer f.all[2].Close() // which nobody hears
				f.all = f.all[:2]
			}
			f.step()
			time.Sleep(pick(random, 0, time.Millisecond, 300*time.Millisecond, time.Second, 7*time.Second))
		}
		time.Sleep(5 * time.Minute)
		for _, rl := range f.all {
			if err := rl.Close(); err != nil {
				t.Error(err)
			}
		}
		image = f.rec.image
		for _, seq := range slices.Sorted(maps.Keys(f.rec.entries)) {
			entries = append(entries, f.rec.entries[seq])
		}
	})
	return image, entries
}

// request draws a request.
func (f *crew) request() ratelimit.Request {
	return ratelimit.Request{
		Model: pick(f.random, f.names...), PromptTokens: f.random.IntN(60), OutputTokens: f.random.IntN(60),
		Class: pick(f.random, "", "ahead", "heavy", "light"), Flow: pick(f.random, "", "a", "b"),
	}
}

// step has one of the processes do something.
func (f *crew) step() {
	rl, model := pick(f.random, f.all...), pick(f.random, f.names...)
	switch f.random.IntN(16) {
	case 0, 1, 2, 3:
		rs, _ := rl.ReserveAll(f.request())
		f.add(rs...)
	case 4, 5:
		f.wait(rl, f.request(), pick(f.random, time.Millisecond, time.Second, time.Minute))
	case 6, 7, 8:
		f.end()
	case 9:
		rl.RecordUsage(model, f.random.IntN(50), f.random.IntN(50))
	case 10:
		rs, _ := rl.ReserveAll(f.request(), f.request())
		f.add(rs...)
	case 11:
		rl.Observe(model, ratelimit.ProviderLimits{
			RPM: ratelimit.ProviderLimit{HasRemaining: true, Remaining: f.random.IntN(6), Reset: 20 * time.Second},
		})
		rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{
			Model: model, Problem: pick(f.random, "rate_limited", "overloaded"), SentAt: time.Now(),
		})
	case 12:
		f.say(rl)
	case 13:
		rl.Cooldown(model, time.Now().Add(pick(f.random, time.Second, 10*time.Second)))
	case 14:
		if oneIn(f.random, 3) {
			f.rec.Down(pick(f.random, 2*time.Second, 20*time.Second))
		} else if oneIn(f.random, 2) {
			f.rec.Cut(pick(f.random, f.rec.processes...), pick(f.random, 2*time.Second, 20*time.Second))
		}
	case 15:
		time.Sleep(pick(f.random, time.Minute, time.Minute, time.Hour, 9*time.Hour))
	}
}

func (f *crew) add(rs ...*ratelimit.Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, rs...)
}

func (f *crew) wait(rl *ratelimit.RateLimiter, req ratelimit.Request, patience time.Duration) {
	go func() {
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		defer cancel()
		if rs, err := rl.AcquireAll(ctx, req); err == nil {
			f.add(rs...)
		}
	}()
}

// end ends a call, or says that it arrived.
func (f *crew) end() {
	f.mu.Lock()
	if len(f.open) == 0 {
		f.mu.Unlock()
		return
	}
	i := f.random.IntN(len(f.open))
	r := f.open[i]
	f.mu.Unlock()
	switch f.random.IntN(4) {
	case 0:
		r.Arrived(time.Now())
		return
	case 1:
		r.Cancel()
	case 2:
		r.Commit(f.random.IntN(80), f.random.IntN(80))
	case 3:
		r.CommitUsage(40, 20, money.Usage{Input: 40, CachedInput: 10, Output: 20})
	}
	f.mu.Lock()
	f.open = slices.DeleteFunc(f.open, func(other *ratelimit.Reservation) bool { return other == r })
	f.mu.Unlock()
}

// say changes what holds.
func (f *crew) say(rl *ratelimit.RateLimiter) {
	switch name := pick(f.random, f.own...); f.random.IntN(6) {
	case 0, 1:
		rl.SetQuota(name, f.drawQuota(f.random, name, 1))
	case 2:
		rl.SetPool("new", ratelimit.Pool{Models: []string{name, "star-1"}, Quota: f.drawQuota(f.random, "pool new", 2)})
	case 3:
		rl.RemovePool("new")
	case 4:
		rl.SetClasses(drawClasses(f.random))
	case 5:
		rl.Reset(name)
	}
}
