package limit_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of sharded.go and shard.go:
//   - Allow with named at the origin, or equal to now: the longer way. The same holds for a near
//     that never gets a shard back, and for other counts of next (BenchmarkSharded).
//   - raise and raiseLocked at an equal instant; raiseLocked at an earlier one, which only
//     comes while Allow decides for others: it is within one call.
//   - allowNow that raises seen when refused: no instant named later finds more, since holds
//     are named before.
//   - tryAt at equal RetryAfter; another capacity of a slice that grows.
//   - end that notifies waiters of a hold that had ended before: they look and wait on.
//
// A lost CompareAndSwap in raise that is taken for a won one needs two goroutines between two
// instructions.

func sharded(tb testing.TB, rate limit.Rate, burst, shards int) *limit.Sharded {
	tb.Helper()
	s, err := limit.NewSharded(rate, burst, shards)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// The limit is split exactly: the parts of the burst are the burst.
func TestShardedBurst(t *testing.T) {
	for _, c := range []struct{ burst, shards, largest int }{
		{10, 3, 4}, {10, 10, 1}, {100, 16, 7}, {16, 16, 1}, {7, 1, 7}, {1, 1, 1},
	} {
		s := sharded(t, limit.PerMinute(1), c.burst, c.shards)
		if d := s.TakeAt(setStart, 0); !d.OK || d.Remaining != c.burst || d.ResetAfter != 0 {
			t.Errorf("%+v: new: %+v", c, d)
		}
		if d := s.TakeAt(setStart, c.largest+1); d.OK || !d.Never || d.Remaining != c.burst {
			t.Errorf("%+v: more than the largest part: %+v", c, d)
		}
		for i := range c.burst {
			if d := s.TakeAt(setStart, 1); !d.OK || d.Remaining != c.burst-1-i {
				t.Fatalf("%+v: unit %d: %+v", c, i+1, d)
			}
		}
		// Each shard gets one unit in as many minutes as there are shards.
		retry := time.Duration(c.shards) * time.Minute
		want := limit.Decision{RetryAfter: retry, ResetAfter: time.Duration(c.largest) * retry}
		if d := s.TakeAt(setStart, 1); d != want {
			t.Errorf("%+v: %+v, want %+v", c, d, want)
		}
	}
	// 10 over 3 is 4, 3 and 3: one of 4 fits once, then two of 3.
	s := sharded(t, limit.PerMinute(1), 10, 3)
	for _, n := range []int{4, 3, 3} {
		if d := s.TakeAt(setStart, n); !d.OK {
			t.Errorf("%d: %+v", n, d)
		}
	}
}

func TestShardedRefuses(t *testing.T) {
	for _, c := range []struct {
		rate          limit.Rate
		burst, shards int
	}{
		{limit.Rate{}, 1, 1},
		{limit.Rate{Count: 1, Per: -1}, 1, 1},
		{limit.PerSecond(1), 0, 0},
		{limit.PerSecond(1), -3, 1},
		{limit.PerSecond(1), 3, 0},
		{limit.PerSecond(1), 3, -1},
		{limit.PerSecond(1), 10, 16},
		{limit.Every(1 << 60), 2, 2},
		{limit.Every(1 << 60), 16, 16},
		{limit.Rate{Count: math.MaxInt32, Per: 1 << 60}, 16, 16},
		{limit.Every(1 << 59), 3, 3},
		{limit.Every(1 << 50), math.MaxInt32, 2},
		{limit.Every(1 << 50), math.MaxInt32, math.MaxInt32},
		{limit.Every(1), math.MaxInt32, 1<<16 + 1},
		{limit.Every(1), math.MaxInt, math.MaxInt},
		{limit.Every(1), math.MaxInt>>3 + 1, math.MaxInt>>3 + 1},
	} {
		if s, err := limit.NewSharded(c.rate, c.burst, c.shards); s != nil || !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("NewSharded(%v, %d, %d): %v", c.rate, c.burst, c.shards, err)
		}
	}
}

// The largest parameters that are accepted.
func TestShardedAccepts(t *testing.T) {
	sharded(t, limit.Every(1<<59), 2, 2)
	sharded(t, limit.Every(1), 1<<16, 1<<16)
}

// Requests that charge nothing leave no trace in the clock of Allow, and it follows an
// instant that a caller named only until it has passed.
func TestShardedAllowBesideNamedInstants(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  func(s *limit.Sharded, at time.Time)
	}{
		{"AllowN, nothing", func(s *limit.Sharded, at time.Time) { s.AllowN(at, 0) }},
		{"AllowN, too many", func(s *limit.Sharded, at time.Time) { s.AllowN(at, 2) }},
		{"TakeAt, nothing", func(s *limit.Sharded, at time.Time) { s.TakeAt(at, 0) }},
		{"TakeAt, too many", func(s *limit.Sharded, at time.Time) { s.TakeAt(at, 2) }},
		{"HoldAt, nothing", func(s *limit.Sharded, at time.Time) { s.HoldAt(at, 0) }},
		{"HoldAt, too many", func(s *limit.Sharded, at time.Time) { s.HoldAt(at, 2) }},
		{"TakeAt of a key, nothing", func(s *limit.Sharded, at time.Time) { s.Shard("a").TakeAt(at, 0) }},
		{"TakeAt of a key, too many", func(s *limit.Sharded, at time.Time) { s.Shard("a").TakeAt(at, 2) }},
		{"HoldAt of a key, nothing", func(s *limit.Sharded, at time.Time) { s.Shard("a").HoldAt(at, 0) }},
		{"HoldAt of a key, too many", func(s *limit.Sharded, at time.Time) { s.Shard("a").HoldAt(at, 2) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sharded(t, limit.PerSecond(1), 1, 1)
			c.ask(s, time.Now().Add(time.Hour))
			first := s.Allow()
			time.Sleep(time.Second)
			if !first || !s.Allow() {
				t.Errorf("%s, an hour ahead: refused", c.name)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := sharded(t, limit.PerSecond(1), 1, 1)
		s.TakeAt(time.Now(), 1)
		time.Sleep(time.Second)
		if !s.Allow() {
			t.Error("a second after a named instant: refused")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := sharded(t, limit.Every(time.Hour), 4, 2)
		key := s.Shard("a")
		for _, ahead := range []time.Duration{time.Hour, 0} {
			if !key.TakeAt(time.Now().Add(ahead), 1).OK {
				t.Fatal("refused")
			}
		}
		passed := 0
		for range 2 {
			for s.Allow() {
				passed++
			}
			time.Sleep(time.Hour)
		}
		if passed != 2 {
			t.Errorf("%d passed beside 2 of an hour ahead, want 2", passed)
		}
	})
}

// A Sharded takes instants before it was made, and one of a refused Allow leaves no trace.
func TestShardedEarlierInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := limit.Decision{OK: true, ResetAfter: time.Second}
		s := sharded(t, limit.PerSecond(1), 1, 1)
		if d := s.TakeAt(time.Now().Add(-time.Hour), 1); d != want {
			t.Errorf("an hour before it was made: %+v, want %+v", d, want)
		}
		s = sharded(t, limit.PerSecond(1), 1, 1)
		hold, _ := s.HoldAt(time.Now(), 1)
		begin := time.Now()
		time.Sleep(10 * time.Second)
		if s.Allow() {
			t.Error("passed beside a hold")
		}
		hold.Cancel()
		if d := s.TakeAt(begin.Add(time.Second), 1); d != want {
			t.Errorf("before a refused Allow: %+v, want %+v", d, want)
		}
	})
}

// In any time t no more than burst + rate × t pass, and under demand no less: nothing of
// the rate is lost in the parts.
func TestShardedRate(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 4))
	for _, rate := range []limit.Rate{limit.PerSecond(1000), {Count: 7, Per: 50}, {Count: 3, Per: time.Millisecond + 1}} {
		const burst, shards = 10, 3
		s := sharded(t, rate, burst, shards)
		type pass struct{ at, n, sum int64 }
		var passes []pass
		at, sum := int64(0), int64(0)
		// a unit's time, so that the steps are about that
		unit := int64(rate.Per)/int64(rate.Count) + 1
		for range 3_000 {
			at += random.Int64N(unit)
			for range 3 {
				if n := 1 + random.Int64N(2); s.TakeAt(setStart.Add(time.Duration(at)), int(n)).OK {
					sum += n
					passes = append(passes, pass{at, n, sum})
				}
			}
		}
		for i := range passes {
			for k := i; k < len(passes); k++ {
				n, dt := passes[k].sum-passes[i].sum+passes[i].n, passes[k].at-passes[i].at
				if (n-burst)*int64(rate.Per) > dt*int64(rate.Count) {
					t.Fatalf("%v: %d in %d ns", rate, n, dt)
				}
			}
		}
		for s.TakeAt(setStart.Add(time.Duration(at)), 1).OK {
			sum++
		}
		// Each shard has less than a unit left now.
		if least := burst + at*int64(rate.Count)/int64(rate.Per) - shards; sum < least {
			t.Errorf("%v: %d in %d ns, want at least %d", rate, sum, at, least)
		}
	}
}

// A refusal is true, its RetryAfter exact, and the sums are those of the shards, which
// the model knows one by one through their keys.
func TestShardedOracle(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 5))
	const shards, burst, interval = 3, 10, 21 // a unit of a shard takes 21 ns
	s := sharded(t, limit.Every(interval/shards), burst, shards)
	keys := map[limit.Holder]*drainModel{}
	var model []*drainModel
	var parts []limit.Holder
	for i := 0; len(parts) < shards; i++ {
		p := s.Shard(fmt.Sprint(i))
		if p != s.Shard(fmt.Sprint(i)) {
			t.Fatal("a key has two shards")
		}
		if keys[p] == nil {
			capacity := int64(p.TakeAt(setStart, 0).Remaining)
			keys[p] = &drainModel{interval: interval, burst: capacity}
			model, parts = append(model, keys[p]), append(parts, p)
		}
	}
	at := int64(0)
	for i := range manyDecisions() {
		at += random.Int64N(20)
		now := setStart.Add(time.Duration(at))
		for _, m := range model {
			m.flow(at)
		}
		n := random.IntN(6)
		if random.IntN(3) == 0 { // by key
			k := random.IntN(shards)
			wait := model[k].wait(n)
			d := parts[k].TakeAt(now, n)
			if never := int64(n) > model[k].burst; d.OK != (wait == 0 && !never) || d.Never != never {
				t.Fatalf("decision %d, %d of shard %d: %+v", i, n, k, d)
			}
			if d.OK {
				model[k].level += int64(n) * interval
			}
			continue
		}
		want := limit.Decision{Never: true}
		shortest := int64(math.MaxInt64)
		for _, m := range model {
			if int64(n) <= m.burst {
				want.Never = false
				shortest = min(shortest, m.wait(n))
			}
		}
		want.OK = shortest == 0
		if !want.Never {
			want.RetryAfter = time.Duration(shortest)
		}
		var got limit.Decision
		var hold limit.Hold
		switch random.IntN(3) {
		case 0:
			got = s.TakeAt(now, n)
		case 1:
			got = want
			got.OK = s.AllowN(now, n)
		case 2:
			hold, got = s.HoldAt(now, n)
			hold.Commit()
		}
		if got.OK {
			// Which shard it was shows in what they have.
			found := false
			for k, p := range parts {
				if left := p.TakeAt(now, 0).Remaining; int64(left) != (model[k].burst*interval-model[k].level)/interval {
					model[k].level += int64(n) * interval
					found = true
				}
			}
			if n > 0 && !found {
				t.Fatalf("decision %d: nobody was charged", i)
			}
		}
		if hold == (limit.Hold{}) {
			for _, m := range model {
				want.Remaining += int((m.burst*interval - m.level) / interval)
				want.ResetAfter = max(want.ResetAfter, time.Duration(m.level))
			}
			if got.Remaining == 0 && got.ResetAfter == 0 { // AllowN tells nothing else
				got.Remaining, got.ResetAfter = want.Remaining, want.ResetAfter
			}
		} else {
			got.Remaining, got.ResetAfter = 0, 0
		}
		if got != want {
			t.Fatalf("decision %d, %d: %+v, want %+v", i, n, got, want)
		}
		if !got.OK && !got.Never && i%8 == 0 {
			if s.AllowN(now.Add(got.RetryAfter-1), n) {
				t.Fatalf("decision %d: passes too early", i)
			}
		}
	}
}

// A shard that was not charged since does not accept an earlier instant: its charge would
// drain until the clock is back. By any method, the units taken at an instant and at an
// earlier one sum to at most the burst.
func TestShardedClockGoesBack(t *testing.T) {
	commit := func(h limit.Hold, d limit.Decision) bool {
		h.Commit()
		return d.OK
	}
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"}
	ways := []struct {
		name string
		take func(s *limit.Sharded, at time.Time) bool
	}{
		{"Allow", func(s *limit.Sharded, _ time.Time) bool { return s.Allow() }},
		{"AllowN", func(s *limit.Sharded, at time.Time) bool { return s.AllowN(at, 1) }},
		{"TakeAt", func(s *limit.Sharded, at time.Time) bool { return s.TakeAt(at, 1).OK }},
		{"HoldAt", func(s *limit.Sharded, at time.Time) bool { return commit(s.HoldAt(at, 1)) }},
		{"TakeAt of keys", func(s *limit.Sharded, at time.Time) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return s.Shard(key).TakeAt(at, 1).OK })
		}},
		{"HoldAt of keys", func(s *limit.Sharded, at time.Time) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return commit(s.Shard(key).HoldAt(at, 1)) })
		}},
	}
	for _, late := range ways {
		for _, early := range ways {
			synctest.Test(t, func(t *testing.T) {
				s := sharded(t, limit.PerSecond(4), 8, 2)
				now := time.Now() // at which Allow decides
				before, after := now, now.Add(time.Second)
				if late.name == "Allow" {
					before, after = now.Add(-time.Second), now
				}
				passed := 0
				for late.take(s, after) {
					passed++
					for early.take(s, before) {
						passed++
					}
				}
				if passed != 8 {
					t.Errorf("%s, then %s earlier: %d passed, want 8", late.name, early.name, passed)
				}
				want := after.Sub(before) + 500*time.Millisecond
				for i, l := range []limit.Holder{s, s.Shard("a"), limit.All(s.Shard("a"))} {
					if d := l.TakeAt(before, 1); d.RetryAfter != want {
						t.Errorf("%s, then %s earlier: limiter %d: %+v, want to retry after %v", late.name, early.name, i, d, want)
					}
					if _, d := l.HoldAt(before, 1); d.RetryAfter != want {
						t.Errorf("%s, then %s earlier: limiter %d, to hold: %+v, want to retry after %v", late.name, early.name, i, d, want)
					}
				}
			})
		}
	}
}

// What is on hold in all shards is waited for; what drains in one of them is not.
func TestShardedHolds(t *testing.T) {
	s := sharded(t, limit.PerSecond(3), 3, 3)
	var holds []limit.Hold
	for range 3 {
		h, d := s.HoldAt(setStart, 1)
		if !d.OK {
			t.Fatalf("%+v", d)
		}
		holds = append(holds, h)
	}
	if d := s.TakeAt(setStart.Add(time.Hour), 1); d.OK || d.RetryAfter != 0 || d.Never {
		t.Errorf("all on hold: %+v", d)
	}
	holds[1].Commit()
	if d := s.TakeAt(setStart, 1); d.OK || d.RetryAfter != time.Second || d.ResetAfter != time.Second {
		t.Errorf("one committed: %+v", d)
	}
	holds[0].Cancel()
	holds[0].Commit()
	if d := s.TakeAt(setStart, 1); !d.OK || d.Remaining != 0 {
		t.Errorf("one cancelled: %+v", d)
	}
}

func TestShardedConcurrent(t *testing.T) {
	const burst = 2000
	s := sharded(t, limit.PerMinute(1), burst, 7)
	var taken atomic.Int64
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			key := s.Shard(fmt.Sprint(g))
			for i := range burst {
				var ok bool
				switch i % 4 {
				case 0:
					ok = s.TakeAt(setStart, 1).OK
				case 1:
					ok = s.AllowN(setStart, 1)
				case 2:
					ok = key.TakeAt(setStart, 1).OK
				case 3:
					hold, d := s.HoldAt(setStart, 1)
					ok = d.OK
					hold.Commit()
				}
				if ok {
					taken.Add(1)
				}
			}
		})
	}
	group.Wait()
	if taken.Load() != burst {
		t.Errorf("%d passed, want %d", taken.Load(), burst)
	}
}

func TestShardedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sharded(t, limit.PerSecond(2), 2, 2)
		for i := range 3 {
			if s.Allow() != (i < 2) {
				t.Error("burst")
			}
		}
		start := time.Now()
		if err := s.Wait(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Minute)
		// A Set of a key's shard is woken by the end of a hold of that shard.
		hold, _ := s.Shard("a").HoldAt(time.Now(), 1)
		start = time.Now()
		time.AfterFunc(time.Millisecond, hold.Cancel)
		if err := limit.All(s.Shard("a")).Wait(t.Context()); err != nil || time.Since(start) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestShardedDoesNotAllocate(t *testing.T) {
	s := sharded(t, limit.PerSecond(1), 9, 3)
	now := setStart
	if allocs := testing.AllocsPerRun(1000, func() {
		now = now.Add(700 * time.Millisecond)
		s.TakeAt(now, 1)
		s.AllowN(now, 1)
		s.Shard("key").TakeAt(now, 1)
	}); allocs != 0 {
		t.Errorf("%v allocations a decision", allocs)
	}
}

func FuzzSharded(f *testing.F) {
	f.Add(10, int64(time.Second), 10, 3, int64(0), int64(1), 1)
	f.Add(math.MaxInt, int64(math.MaxInt64), math.MaxInt, math.MaxInt, int64(math.MinInt64), int64(math.MaxInt64), math.MinInt)
	f.Add(1, int64(1)<<50, 700, 64, int64(-1)<<62, int64(1)<<62, 8)
	f.Add(math.MaxInt, int64(1), 1000, 7, int64(5), int64(4), 142)
	f.Fuzz(func(t *testing.T, count int, per int64, burst, shards int, first, then int64, n int) {
		if shards > 1<<12 && shards <= 1<<16 {
			shards = -shards // so many are tried by hand only
		}
		s, err := limit.NewSharded(limit.Rate{Count: count, Per: time.Duration(per)}, burst, shards)
		if err != nil {
			if s != nil || !errors.Is(err, limit.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		largest := (burst-1)/shards + 1
		for _, at := range []int64{first, then, first, then} {
			now := time.Unix(at/2, at)
			d := s.TakeAt(now, n)
			if d.Remaining < 0 || d.Remaining > burst || d.RetryAfter < 0 || d.ResetAfter < 0 ||
				d.Never != (n < 0 || n > largest) || d.OK && d.RetryAfter != 0 || n == 0 && !d.OK {
				t.Fatalf("%+v", d)
			}
			if !d.OK && !d.Never && d.RetryAfter < math.MaxInt64 { // that is, or longer
				if s.AllowN(now.Add(d.RetryAfter-1), n) || !s.AllowN(now.Add(d.RetryAfter), n) {
					t.Fatalf("not exact: %+v", d)
				}
			}
		}
	})
}

func BenchmarkSharded(b *testing.B) {
	for _, shards := range []int{1, 8} {
		b.Run(fmt.Sprintf("allow/shards=%d", shards), func(b *testing.B) {
			s := sharded(b, limit.PerSecond(1e9), math.MaxInt32, shards) // everything passes
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					s.Allow()
				}
			})
		})
	}
}
