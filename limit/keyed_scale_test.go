package limit_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Every key of many is found again, and when all are idle, later requests forget all.
func TestKeyedGrowsAndShrinks(t *testing.T) {
	const keys = 20_000 / racetest.Factor
	made := 0
	k := must(limit.NewKeyed(keys, time.Hour, func(int) (limit.Limiter, error) {
		made++
		return limit.NewGCRA(limit.PerMinute(1), 2)
	}))
	for round := range 3 {
		now := setStart.Add(time.Duration(round) * 10 * time.Hour)
		made = 0
		for i := range 2 * keys {
			if d := mustTake(t, k, i%keys, now, 1); !d.OK || d.Remaining != 1-i/keys {
				t.Fatalf("round %d, request %d: %+v", round, i, d)
			}
		}
		if made != keys-min(round, 1) || k.Len() != keys { // one has stayed
			t.Fatalf("round %d: %d limiters were made, %d are kept, want %d", round, made, k.Len(), keys)
		}
		if d := mustTake(t, k, -1, now, 1); d.OK || d.RetryAfter != 2*time.Minute {
			t.Fatalf("a new key in a full one: %+v", d)
		}
		for range keys/2 + 1 {
			mustTake(t, k, 0, now.Add(2*time.Hour), 0)
		}
		if k.Len() != 1 {
			t.Fatalf("round %d: %d keys are left, want the one in use", round, k.Len())
		}
	}
}

// A full Keyed forgets a key that was not used for long rather than one in use, without
// being told of the uses.
func TestKeyedKeepsWhatIsInUse(t *testing.T) {
	const keys, inUse = 200, 20
	made := [2 * keys]int{}
	k := must(limit.NewKeyed(keys, keyedIdle, func(key int) (limit.Limiter, error) {
		made[key]++
		return limit.NewGCRA(limit.PerSecond(1), 1)
	}))
	now := setStart
	for i := range keys {
		mustTake(t, k, i, now, 1)
	}
	for i := keys; i < 2*keys-inUse; i++ {
		now = now.Add(2 * time.Second)
		for j := range inUse {
			mustTake(t, k, j, now, 0)
		}
		mustTake(t, k, i, now, 1)
	}
	for key, n := range made[:2*keys-inUse] {
		if n != 1 {
			t.Errorf("the limiter of %d was made %d times", key, n)
		}
	}
}

// The refusal of a full Keyed is exact though all limiters were charged since they got their
// places among those that recover.
func TestKeyedFullOfCharged(t *testing.T) {
	const keys = 3000
	k := keyed[int](t, keys, keyedIdle, limit.PerSecond(1), 10)
	for n := range 9 {
		for i := range keys {
			mustTake(t, k, i, setStart, 1)
		}
		want := limit.Decision{RetryAfter: time.Duration(n+1) * time.Second}
		if d := mustTake(t, k, keys, setStart, 1); d != want {
			t.Fatalf("after %d charges: %+v, want %+v", n+1, d, want)
		}
	}
	mustTake(t, k, 0, setStart, 1)
	if d := mustTake(t, k, keys, setStart.Add(9*time.Second), 1); !d.OK || k.Len() != keys {
		t.Errorf("%+v with %d keys", d, k.Len())
	}
	if d := mustTake(t, k, 0, setStart.Add(9*time.Second), 10); d.RetryAfter != time.Second {
		t.Errorf("the key that had not recovered: %+v", d)
	}
}

// Instants that lie further apart than a Duration can say neither free a limiter that has
// not recovered nor keep one for ever.
func TestKeyedFarInstants(t *testing.T) {
	for _, first := range []time.Time{{}, setStart, setStart.AddDate(5000, 0, 0)} {
		k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 2)
		mustTake(t, k, "first", first, 1)
		latest := first
		for i, years := range []int{1000, 1000, 3000} {
			latest = latest.AddDate(years, 0, 0)
			key := string(rune('a' + i))
			if d := mustTake(t, k, key, latest, 2); !d.OK {
				t.Fatalf("%s: all others have recovered: %+v", key, d)
			}
			if d, want := mustTake(t, k, "other", latest, 1), (limit.Decision{RetryAfter: 2 * time.Second}); d != want {
				t.Fatalf("it has not recovered: %+v, want %+v", d, want)
			}
			if d := mustTake(t, k, key, latest.Add(time.Second), 2); d.RetryAfter != time.Second {
				t.Fatalf("%s: %+v", key, d)
			}
		}
	}
}

// Allow and Take decide like TakeAt at time.Now, for each limiter of the package, at keys that
// come and go.
func TestKeyedAllowIsTake(t *testing.T) {
	for _, kind := range conformingKinds {
		if kind.byChance || kind.name == "Keyed" {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			var by [3]*limit.Keyed[int]
			for i := range by {
				by[i] = must(limit.NewKeyed(3, 2*time.Second, func(int) (limit.Limiter, error) {
					return kind.make(limit.PerSecond(3)), nil
				}))
			}
			random := rand.New(rand.NewPCG(3, 4))
			for i := range 2000 {
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond * time.Duration(random.IntN(2)))
				if random.IntN(200) == 0 {
					time.Sleep(5 * time.Second)
				}
				key := random.IntN(5)
				want := must(by[0].TakeAt(key, time.Now(), 1))
				if got := must(by[1].Take(key, 1)); got != want {
					t.Fatalf("%s, step %d: Take %+v, want %+v", kind.name, i, got, want)
				}
				if got := by[2].Allow(key); got != want.OK {
					t.Fatalf("%s, step %d: Allow %v, want %+v", kind.name, i, got, want)
				}
				if a, b, c := by[0].Len(), by[1].Len(), by[2].Len(); a != b || a != c {
					t.Fatalf("%s, step %d: %d, %d, %d keys", kind.name, i, a, b, c)
				}
			}
		})
	}
}

// The clock is read right also if it is too far from the first instant for a Duration.
func TestKeyedAllowFarFromTheFirstInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 2)
		mustTake(t, k, "a", time.Time{}, 1)
		for second := range 3 {
			for i := range 3 {
				if got, want := k.Allow("a"), i == 0 || second == 0 && i == 1; got != want {
					t.Errorf("second %d, call %d: %v", second, i, got)
				}
			}
			time.Sleep(time.Second)
		}
		if d := must(k.Take("a", 2)); d.RetryAfter != time.Second {
			t.Errorf("%+v", d)
		}
	})
}

// A key that takes the place of one of a later time begins at that one's recovery, also
// where Allow reads the clock.
func TestKeyedAllowBelowTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 2)
		later := time.Now().Add(time.Hour)
		mustTake(t, k, "a", later, 2)
		mustTake(t, k, "b", later.Add(time.Minute), 0) // a is forgotten
		for i := range 4 {
			if k.Allow("b") != (i < 2) {
				t.Errorf("call %d of 2 that count as an hour later", i+1)
			}
		}
		if d := must(k.Take("b", 1)); d.RetryAfter != time.Hour+3*time.Second {
			t.Errorf("%+v", d)
		}
	})
}

// While the table grows and shrinks under requests for known keys, each key has exactly its
// limit, whether its limiter is called under the lock of its key or outside of any.
func TestKeyedExactWhileItGrows(t *testing.T) {
	const keys, burst, goroutines = 300, 20, 4
	k := must(limit.NewKeyed(100_000, time.Second, func(key int) (limit.Limiter, error) {
		g, err := limit.NewGCRA(limit.Every(time.Hour), burst)
		if key%2 == 1 {
			return takeOnly{g}, err
		}
		return g, err
	}))
	var taken [keys]atomic.Int64
	var at atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			random := rand.New(rand.NewPCG(5, uint64(g)))
			for i := range 4 * keys * burst / goroutines {
				key := random.IntN(keys)
				now := setStart.Add(time.Duration(at.Add(1)) * time.Millisecond)
				if d, err := k.TakeAt(key, now, 1); err != nil {
					t.Error(err)
				} else if d.OK {
					taken[key].Add(1)
				}
				// These recover after a unit is cancelled, and come and go.
				if hold, _, err := k.HoldAt(keys+random.IntN(5000), now, 1); err == nil && i%8 > 0 {
					hold.Cancel()
				} else {
					hold.Commit()
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

// When most keys were idle and have gone, so has the memory of their table and of their order.
func TestKeyedGivesMemoryBack(t *testing.T) {
	const keys = 50_000
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	one := must(limit.NewGCRA(limit.PerSecond(1), 1))
	k := must(limit.NewKeyed(keys, 100*time.Hour, func(int) (limit.Limiter, error) { return one, nil }))
	before := inUse()
	for i := range keys {
		now := setStart.Add(time.Duration(i) * time.Second) // one limiter for all of them
		if d := mustTake(t, k, i, now, 1); !d.OK {
			t.Fatalf("%+v", d)
		}
	}
	full := inUse() - before
	for range keys {
		mustTake(t, k, 0, setStart.Add(1000*time.Hour), 0)
	}
	if left := inUse() - before; k.Len() != 1 || left > full/40 {
		t.Errorf("%d keys took %d bytes, %d keys take %d", keys, full, k.Len(), left)
	}
	runtime.KeepAlive(k)
}
