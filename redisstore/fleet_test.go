// How the tests with real servers make limiters as if on many machines, and check their sums.

package redisstore_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

const (
	prefix = "test"
	model  = "m"
	// slack is how long a test grants to what should take no time. It is only there lest a slow
	// machine fails it.
	slack = 2 * time.Second
	// patience is how long limiters wait for the server: longer than a slow machine makes them.
	patience = time.Second
)

// plenty is a quota that counts everything and denies nothing.
var plenty = map[string]ratelimit.ModelQuota{model: {MaxRPM: 1e9, MaxTPM: 1e9, MaxRPD: 1e9, MaxTPD: 1e9, MaxInFlight: 1e6}}

// isLong reports whether the tests run in their long forms.
func isLong() bool { return os.Getenv("RATELIMIT_LONG") != "" }

// times returns how often a test does something in its short and in its long form.
func times(short, long int) int {
	if isLong() {
		return long
	}
	return short
}

// machine is what a limiter of its own machine is made of. The zero value lacks an address.
type machine struct {
	addr    string
	client  redis.UniversalClient // nil is a plain client of addr
	store   redisstore.Options    // the zero Prefix is prefix, the zero Timeout patience
	limiter ratelimit.Config      // nil Quotas are plenty
}

// start makes the limiter, with a client of its own. Both end with the test.
func (m machine) start(t testing.TB) *ratelimit.RateLimiter {
	t.Helper()
	if m.client == nil {
		m.client = clientOf(t, m.addr)
	}
	if m.store.Prefix == "" {
		m.store.Prefix = prefix
	}
	if m.store.Timeout == 0 {
		m.store.Timeout = patience
	}
	if m.limiter.Quotas == nil {
		m.limiter.Quotas = plenty
	}
	store, err := redisstore.New(t.Context(), m.client, m.store)
	if err != nil {
		t.Fatal(err)
	}
	m.limiter.Store = store
	rl, err := ratelimit.NewWithConfig(m.limiter)
	for range 50 { // a machine with much else to do may take longer than the server is given
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		rl, err = ratelimit.NewWithConfig(m.limiter)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// clientOf returns a client as programs have one.
func clientOf(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// limiterOf returns a limiter with plenty, without any faults on its way to the server.
func limiterOf(t testing.TB, addr string) *ratelimit.RateLimiter {
	t.Helper()
	return machine{addr: addr}.start(t)
}

// sum is what was charged to a model.
type sum struct{ requests, tokens int }

// minuteOf and dayOf return what a limiter counts in the minute and in the day.
func minuteOf(s ratelimit.ModelStats) sum { return sum{s.RPM, s.TPM} }
func dayOf(s ratelimit.ModelStats) sum    { return sum{s.RPD, s.TPD} }

// admitted counts what limiters have admitted. It is safe for concurrent use.
type admitted struct {
	requests, tokens, denied atomic.Int64
	first                    atomic.Int64 // when, in UnixNano; 0 for none yet
}

// begin notes the time of the first charge.
func (a *admitted) begin() { a.first.CompareAndSwap(0, time.Now().UnixNano()) }

func (a *admitted) sum() sum { return sum{int(a.requests.Load()), int(a.tokens.Load())} }

// reserve makes a reservation and counts it if it is admitted.
func (a *admitted) reserve(rl *ratelimit.RateLimiter, tokens int) *ratelimit.Reservation {
	a.begin()
	r, d := rl.Reserve(model, tokens, 0)
	if !d.Allowed {
		a.denied.Add(1)
		return nil
	}
	a.requests.Add(1)
	a.tokens.Add(int64(tokens))
	return r
}

// work makes n calls with a limiter, by so many goroutines, of all kinds of charges.
func (a *admitted) work(rl *ratelimit.RateLimiter, goroutines, n int) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range goroutines {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				a.call(rl, int(i))
			}
		})
	}
	all.Wait()
}

// call makes one call, of the i-th kind.
func (a *admitted) call(rl *ratelimit.RateLimiter, i int) {
	const estimate, used = 7, 3
	a.begin()
	switch i % 5 {
	case 0:
		rl.RecordUsage(model, used, 0)
		a.requests.Add(1)
		a.tokens.Add(used)
	case 1:
		if r := a.reserve(rl, estimate); r != nil {
			r.Cancel()
			a.requests.Add(-1)
			a.tokens.Add(-estimate)
		}
	default:
		if r := a.reserve(rl, estimate); r != nil {
			r.Commit(used, 0)
			a.tokens.Add(used - estimate)
		}
	}
}

// check compares what was admitted with what limiters count once they can use the store: those that
// have worked, and one that reads all of it anew from a server.
func (a *admitted) check(t testing.TB, addr string, limiters ...*ratelimit.RateLimiter) {
	t.Helper()
	for _, rl := range limiters {
		awaitStore(t, rl)
	}
	for i, rl := range append(limiters, limiterOf(t, addr)) {
		stats := rl.Stats(model)
		for began := time.Now(); !a.isInMinute(stats) && time.Since(began) < slack; {
			stats = rl.Stats(model) // what only reads may be a little older
		}
		if !a.isInMinute(stats) || dayOf(stats) != a.sum() || stats.InFlight != 0 {
			t.Errorf("limiter %d of %d counts %+v in the minute and %+v in the day, %d in flight, want %+v and none",
				i+1, len(limiters)+1, minuteOf(stats), dayOf(stats), stats.InFlight, a.sum())
		}
	}
}

// isInMinute reports whether a limiter counts in the minute what was admitted. A test that takes
// longer than that is content with the day.
func (a *admitted) isInMinute(stats ratelimit.ModelStats) bool {
	first := a.first.Load()
	isLong := first != 0 && time.Since(time.Unix(0, first)) > 50*time.Second
	return minuteOf(stats) == a.sum() || isLong && dayOf(stats) == a.sum()
}

// awaitStore waits until a limiter can use the store.
func awaitStore(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	redistest.Eventually(t, "the limiter uses the store", func() bool { return rl.Persist() == nil })
}

// errorLog keeps what a limiter reports. It is safe for concurrent use.
type errorLog struct {
	mu  sync.Mutex
	all []error
}

func (l *errorLog) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, err)
}

// has reports whether an error was reported whose text contains one.
func (l *errorLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.all {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func (l *errorLog) list() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.all...)
}
