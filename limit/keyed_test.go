package limit_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of keyed*.go:
//   - find that sets the Decision beside an entry: it is not read then.
//   - expireLocked of three keys instead of two, or that looks at one which has not recovered
//     at each round: more work, and no key goes before it has recovered and was idle.
//   - roomLocked with another bound of its moves: more work, or less.
//   - leave at a look of which the limiter recovers in a nanosecond.
//   - WaitN at a deadline that is the very instant of the retry: both happen.
//   - WaitN that looks at the instant of its beginning: the recovery is the same.

const keyedIdle = time.Hour

func keyed[K comparable](tb testing.TB, most int, idle time.Duration, rate limit.Rate, burst int) *limit.Keyed[K] {
	tb.Helper()
	k, err := limit.NewKeyed(most, idle, func(K) (limit.Limiter, error) { return limit.NewGCRA(rate, burst) })
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func mustTake[K comparable](tb testing.TB, k *limit.Keyed[K], key K, now time.Time, n int) limit.Decision {
	tb.Helper()
	d, err := k.TakeAt(key, now, n)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestKeyedRefuses(t *testing.T) {
	one := func(string) (limit.Limiter, error) { return limit.NewGCRA(limit.PerSecond(1), 1) }
	for name, err := range map[string]error{
		"most 0":  errorOf(limit.NewKeyed(0, time.Second, one)),
		"most -1": errorOf(limit.NewKeyed(-1, time.Second, one)),
		"idle 0":  errorOf(limit.NewKeyed(1, 0, one)),
		"idle -1": errorOf(limit.NewKeyed(1, -1, one)),
		"no make": errorOf(limit.NewKeyed[string](1, 1, nil)),
	} {
		if !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a full Keyed does, step by step. Every limiter admits 2, and one more in a second.
func TestKeyedFull(t *testing.T) {
	k := keyed[string](t, 2, keyedIdle, limit.PerSecond(1), 2)
	type d = limit.Decision
	const s, ms = time.Second, time.Millisecond
	for i, c := range []struct {
		at   time.Duration
		key  string
		n    int
		want d
		size int
	}{
		{0, "a", 0, d{OK: true, Remaining: 2}, 0}, // a peek adds no key
		{0, "a", 3, d{Remaining: 2, Never: true}, 0},
		{0, "a", -1, d{Remaining: 2, Never: true}, 0},
		{0, "a", 2, d{OK: true, ResetAfter: 2 * s}, 1},
		{0, "b", 1, d{OK: true, Remaining: 1, ResetAfter: s}, 2},
		{0, "c", 1, d{RetryAfter: s}, 2}, // b is the first to recover
		{0, "c", 0, d{OK: true}, 2},      // nothing could pass
		{0, "c", -1, d{Never: true}, 2},
		{0, "a", 1, d{RetryAfter: s, ResetAfter: 2 * s}, 2},
		{s - 1, "c", 1, d{RetryAfter: 1}, 2},
		{s, "c", 1, d{OK: true, Remaining: 1, ResetAfter: s}, 2},
		{s, "b", 1, d{RetryAfter: s}, 2}, // it was forgotten, a and c will be in a second
		{s, "a", 0, d{OK: true, Remaining: 1, ResetAfter: s}, 2},
		{s + 500*ms, "c", 1, d{OK: true, ResetAfter: s + 500*ms}, 2},
		{s + 500*ms, "b", 1, d{RetryAfter: 500 * ms}, 2},
		{2 * s, "b", 2, d{OK: true, ResetAfter: 2 * s}, 2}, // in the place of a
		{2 * s, "a", 1, d{RetryAfter: s}, 2},               // that of c
		{s, "a", 1, d{RetryAfter: 2 * s}, 2},               // seen from earlier: not before
		{3 * s, "a", 0, d{OK: true, Remaining: 2}, 1},      // there is room: c has gone
		{3 * s, "a", 1, d{OK: true, Remaining: 1, ResetAfter: s}, 2},
		// c had recovered at 3 s: for a, which took its place, 2 s counts as that.
		{2 * s, "a", 2, d{Remaining: 1, RetryAfter: 2 * s, ResetAfter: 2 * s}, 2},
		{9 * s, "x", 1, d{OK: true, Remaining: 1, ResetAfter: s}, 2},
		{9 * s, "y", 1, d{OK: true, Remaining: 1, ResetAfter: s}, 2},
		{10 * s, "z", 1, d{OK: true, Remaining: 1, ResetAfter: s}, 2},
	} {
		got := mustTake(t, k, c.key, setStart.Add(c.at), c.n)
		if got != c.want || k.Len() != c.size {
			t.Errorf("step %d, %d for %s at %v: %+v with %d keys, want %+v with %d", i, c.n, c.key, c.at, got, k.Len(), c.want, c.size)
		}
	}
}

// A key that was forgotten is not admitted anew at an instant before its recovery.
func TestKeyedBackwardTime(t *testing.T) {
	k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 2)
	at := func(s int) time.Time { return setStart.Add(time.Duration(s) * time.Second) }
	mustTake(t, k, "a", at(10), 2) // has recovered at 12
	mustTake(t, k, "b", at(20), 1) // a is forgotten; has recovered at 21
	mustTake(t, k, "a", at(30), 0) // so is b
	for i, want := range []limit.Decision{
		{OK: true, Remaining: 1, ResetAfter: 12 * time.Second}, // the first at 21
		{OK: true, Remaining: 0, ResetAfter: 13 * time.Second},
		{Remaining: 0, RetryAfter: 12 * time.Second, ResetAfter: 13 * time.Second},
	} {
		if got := mustTake(t, k, "a", at(10), 1); got != want {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
	if got := mustTake(t, k, "a", at(22).Add(-1), 1); got.OK || got.RetryAfter != 1 {
		t.Errorf("early: %+v", got)
	}
	if got := mustTake(t, k, "a", at(22), 1); !got.OK {
		t.Errorf("in time: %+v", got)
	}
	if got := mustTake(t, k, "b", at(15), 1); got.RetryAfter != 9*time.Second {
		t.Errorf("what is charged at an earlier instant recovers at %+v", got)
	}
}

// The floor is the latest recovery, not that of the limiter that was forgotten last.
func TestKeyedFloor(t *testing.T) {
	k := keyed[string](t, 2, keyedIdle, limit.PerSecond(1), 2)
	at := func(s int) time.Time { return setStart.Add(time.Duration(s) * time.Second) }
	mustTake(t, k, "a", at(10), 2) // has recovered at 12
	mustTake(t, k, "b", at(10), 1) // at 11
	mustTake(t, k, "c", at(20), 1) // in the place of a
	mustTake(t, k, "x", at(20), 0) // b has to go for room
	if d := mustTake(t, k, "a", at(10), 1); d.ResetAfter != 3*time.Second {
		t.Errorf("%+v", d)
	}
}

// Of the limiters that have recovered, the one that was used longest ago is forgotten.
func TestKeyedForgetsTheLeastRecentlyUsed(t *testing.T) {
	made := map[string]int{}
	k, err := limit.NewKeyed(2, keyedIdle, func(key string) (limit.Limiter, error) {
		made[key]++
		return limit.NewGCRA(limit.PerSecond(1), 2)
	})
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int) time.Time { return setStart.Add(time.Duration(s) * time.Second) }
	mustTake(t, k, "a", at(0), 1)
	mustTake(t, k, "b", at(0), 2)
	mustTake(t, k, "a", at(5), 0)
	mustTake(t, k, "c", at(10), 1)
	mustTake(t, k, "a", at(10), 1)
	mustTake(t, k, "b", at(20), 1)
	if made["a"] != 1 || made["b"] != 2 {
		t.Errorf("made %v", made)
	}
}

// A limiter that recovers after the last instant of a time.Time is kept until that.
func TestKeyedEndOfTime(t *testing.T) {
	k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 2)
	last := time.Unix(1<<63-62135596801, 999999999)
	mustTake(t, k, "a", last.Add(-1), 2)
	if d := mustTake(t, k, "b", last.Add(-1), 1); d.OK || d.RetryAfter != 1 {
		t.Errorf("%+v", d)
	}
}

// Idle keys are forgotten, a few at each request, but not before they have recovered.
func TestKeyedIdle(t *testing.T) {
	k := keyed[int](t, 100, 5*time.Second, limit.PerSecond(1), 20)
	at := func(s int) time.Time { return setStart.Add(time.Duration(s) * time.Second) }
	mustTake(t, k, -1, at(0), 20)
	for i := range 50 {
		mustTake(t, k, i, at(0), 1)
	}
	mustTake(t, k, 0, at(4), 0) // a peek is a use
	mustTake(t, k, 99, at(5).Add(-1), 1)
	if k.Len() != 52 {
		t.Fatalf("%d keys", k.Len())
	}
	for range 30 {
		mustTake(t, k, 99, at(5), 0)
	}
	if k.Len() != 3 {
		t.Errorf("%d keys, want those that were used, and the one that has not recovered", k.Len())
	}
	if d := mustTake(t, k, -1, at(6), 7); d.OK || d.RetryAfter != time.Second {
		t.Errorf("%+v", d)
	}
	for range 5 {
		mustTake(t, k, 99, at(30), 1)
	}
	if k.Len() != 1 {
		t.Errorf("%d keys, want the one in use", k.Len())
	}
}

// An entry remembers the latest use and the latest recovery, also behind earlier instants and
// peeks at which it has recovered.
func TestKeyedRemembersTheLatest(t *testing.T) {
	at := func(s int) time.Time { return setStart.Add(time.Duration(s) * time.Second) }
	k := keyed[string](t, 9, 5*time.Second, limit.PerSecond(1), 2)
	mustTake(t, k, "a", at(10), 1)
	mustTake(t, k, "a", at(0), 0)
	mustTake(t, k, "b", at(14), 1)
	if k.Len() != 2 {
		t.Error("a key is idle 4 seconds after its use, and a look at an earlier instant")
	}

	k = keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 2)
	mustTake(t, k, "a", at(10), 2) // has recovered at 12
	mustTake(t, k, "a", at(20), 0)
	mustTake(t, k, "b", at(20), 0) // a is forgotten
	if d := mustTake(t, k, "a", at(11), 1); d.ResetAfter != 2*time.Second {
		t.Errorf("a new key at 11 s counts as at 12 s: %+v", d)
	}

	k = keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 2)
	mustTake(t, k, "a", at(0), 2)  // has recovered at 2
	mustTake(t, k, "a", at(20), 0) // when it had for long
	if d := mustTake(t, k, "b", at(5), 1); d.ResetAfter != time.Second {
		t.Errorf("the recovery of a was at 2 s, not at the look at 20 s: %+v", d)
	}
}

// A limiter that recovers in a nanosecond keeps its place that long.
func TestKeyedRecoveryOfANanosecond(t *testing.T) {
	k := keyed[string](t, 1, keyedIdle, limit.Every(1), 1)
	mustTake(t, k, "a", setStart, 1)
	if d, want := mustTake(t, k, "b", setStart, 1), (limit.Decision{RetryAfter: 1}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}

// A key stays only if something was charged: not after a hold that is cancelled, and after a
// charge of a limiter that says nothing of resets, it does.
func TestKeyedKeepsWhatIsCharged(t *testing.T) {
	k := keyed[string](t, 3, keyedIdle, limit.PerSecond(1), 2)
	hold, d, err := k.HoldAt("a", setStart, 1)
	if err != nil || !d.OK || k.Len() != 1 {
		t.Fatalf("%+v, %v, %d keys", d, err, k.Len())
	}
	hold.Cancel()
	if k.Len() != 0 {
		t.Error("a key without a charge is kept")
	}
	if err := k.WaitN(t.Context(), "a", 3); !errors.Is(err, limit.ErrNeverFits) || k.Len() != 0 {
		t.Errorf("a key of a refused wait: %v, %d keys", err, k.Len())
	}
	var asked []int
	own, err := limit.NewKeyed(3, keyedIdle, func(string) (limit.Limiter, error) { return counter(9, &asked), nil })
	if err != nil {
		t.Fatal(err)
	}
	if !own.Allow("a") || own.Len() != 1 {
		t.Errorf("%d keys after a charge without a reset", own.Len())
	}
	if err := own.Wait(t.Context(), "b"); err != nil || own.Len() != 2 {
		t.Errorf("%v, %d keys after a wait for such a charge", err, own.Len())
	}
}

func TestKeyedMake(t *testing.T) {
	fails := errors.New("no such user")
	made := 0
	k, err := limit.NewKeyed(1, keyedIdle, func(key string) (limit.Limiter, error) {
		made++
		switch key {
		case "error":
			return nil, fails
		case "nil":
			return nil, nil
		case "panic":
			panic("make")
		}
		return limit.NewGCRA(limit.PerMinute(1), 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"error", "nil"} {
		for _, n := range []int{0, 1, -1} {
			if d, err := k.TakeAt(key, setStart, n); err == nil || d != (limit.Decision{}) || (key == "error") != errors.Is(err, fails) {
				t.Errorf("%s: %+v, %v", key, d, err)
			}
		}
		if _, d, err := k.HoldAt(key, setStart, 1); err == nil || d.OK {
			t.Errorf("%s: hold: %+v, %v", key, d, err)
		}
		if k.Allow(key) || k.Wait(t.Context(), key) == nil {
			t.Errorf("%s passes", key)
		}
	}
	func() {
		defer func() { _ = recover() }()
		k.Allow("panic")
		t.Error("no panic")
	}()
	if k.Len() != 0 || !k.Allow("fine") || k.Allow("fine") {
		t.Error("something was kept")
	}
	made = 0
	if k.Allow("error") || k.Allow("more") || made != 0 {
		t.Errorf("%d limiters were made while it was full", made)
	}
}

// A key that is not equal to itself is refused, and an unhashable one panics and leaves
// nothing locked.
func TestKeyedOddKeys(t *testing.T) {
	k := keyed[any](t, 3, keyedIdle, limit.PerMinute(1), 1)
	if d, err := k.TakeAt(math.NaN(), setStart, 1); !errors.Is(err, limit.ErrInvalid) || d.OK || k.Len() != 0 {
		t.Errorf("NaN: %+v, %v", d, err)
	}
	func() {
		defer func() { _ = recover() }()
		k.Allow([]int{1})
		t.Error("no panic")
	}()
	if !k.Allow(nil) || k.Len() != 1 {
		t.Error("nil is a key")
	}
}

// Limiters of the caller that panic, that cannot hold, and that have no ResetAfter.
func TestKeyedOwnLimiters(t *testing.T) {
	var asked []int
	k, err := limit.NewKeyed(2, keyedIdle, func(key string) (limit.Limiter, error) {
		if key == "panic" {
			return ownLimiter(func(time.Time, int) limit.Decision { panic("own") }), nil
		}
		return counter(2, &asked), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		k.Allow("panic")
		t.Error("no panic")
	}()
	if k.Len() != 0 {
		t.Error("what panicked is kept")
	}
	if _, d, err := k.HoldAt("a", setStart, 1); !errors.Is(err, limit.ErrInvalid) || d.OK || k.Len() != 0 {
		t.Errorf("hold: %+v, %v", d, err)
	}
	for i := range 3 {
		if k.Allow("a") != (i < 2) {
			t.Error("it does not admit 2")
		}
	}
}

// Concurrent requests for the same new keys get one limiter for each key.
func TestKeyedConcurrent(t *testing.T) {
	const keys, burst = 40, 25
	k := keyed[int](t, keys, keyedIdle, limit.Every(time.Hour), burst)
	var taken [keys]atomic.Int64
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(g)))
			for i := range burst * keys {
				key := random.IntN(keys)
				ok := false
				if i%5 == 0 {
					hold, d, err := k.HoldAt(key, setStart, 1)
					if ok = d.OK; err != nil {
						t.Error(err)
					}
					hold.Commit()
				} else {
					d, err := k.TakeAt(key, setStart, 1)
					if ok = d.OK; err != nil {
						t.Error(err)
					}
				}
				if ok {
					taken[key].Add(1)
				}
			}
		})
	}
	group.Wait()
	for key := range taken {
		if got := taken[key].Load(); got != burst {
			t.Errorf("key %d: %d passed, want %d", key, got, burst)
		}
	}
}

// While keys come and go concurrently, no key gets more than its limit.
func TestKeyedConcurrentChurn(t *testing.T) {
	const keys, most, burst, interval = 20, 6, 3, 50
	k := keyed[int](t, most, 100, limit.Every(interval), burst)
	var clock atomic.Int64
	var taken [keys]atomic.Int64
	var group sync.WaitGroup
	for g := range 6 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(8, uint64(g)))
			for range 5_000 {
				key := random.IntN(keys)
				now := setStart.Add(time.Duration(clock.Add(random.Int64N(12))))
				if d, err := k.TakeAt(key, now, 1); err != nil {
					t.Error(err)
				} else if d.OK {
					taken[key].Add(1)
				}
				if k.Len() > most {
					t.Error("too many keys")
				}
			}
		})
	}
	group.Wait()
	for key := range taken {
		if got, can := taken[key].Load(), burst+clock.Load()/interval; got > can {
			t.Errorf("key %d: %d passed, want at most %d", key, got, can)
		}
	}
}

func TestKeyedDoesNotAllocate(t *testing.T) {
	k := keyed[int](t, 10, keyedIdle, limit.PerSecond(1), 9)
	now := setStart
	if allocs := testing.AllocsPerRun(1000, func() {
		now = now.Add(100 * time.Millisecond)
		if _, err := k.TakeAt(now.Nanosecond()/1e8, now, 1); err != nil {
			t.Error(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations a decision", allocs)
	}
}

func BenchmarkKeyed(b *testing.B) {
	k := keyed[int](b, 1<<16, keyedIdle, limit.PerSecond(1e9), 1000)
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		now := setStart
		for i := 0; b.Loop(); i++ {
			now = now.Add(10)
			_, _ = k.TakeAt(i&1023, now, 1)
		}
	})
	b.Run("refused in a full one", func(b *testing.B) {
		k := keyed[int](b, 1<<16, keyedIdle, limit.Every(time.Hour), 1)
		for i := range 1 << 16 {
			_, _ = k.TakeAt(i, setStart, 1)
		}
		b.ReportAllocs()
		for i := 1 << 16; b.Loop(); i++ {
			_, _ = k.TakeAt(i, setStart, 1)
		}
	})
}
