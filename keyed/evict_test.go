package keyed_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
)

// request is one unit of a key at a limit of 10 a minute.
func request(key string) keyed.Request {
	return keyed.Request{Namespace: "n", Key: key, Limit: 10, Window: time.Minute, Cost: 1}
}

func numbered(i int) keyed.Request { return request(fmt.Sprint("key-", i)) }

// A key that was evicted while it counted is refused until its charges have no weight.
func TestEvictedKeyIsNotFresh(t *testing.T) {
	for _, size := range []int{1, 2, 10, 100, 5000 / racetest.Factor} {
		lim := newLimiter(t, keyed.Options{MaxKeys: size})
		used := request("used up")
		used.Cost = used.Limit
		if d := takeAfter(t, lim, 0, used); !d.OK {
			t.Fatalf("%+v", d)
		}
		for i := range 4 * size {
			takeAfter(t, lim, time.Second, numbered(i))
			if n := lim.Len(); n > size {
				t.Fatalf("%d counters, want %d at most", n, size)
			}
		}
		used.Cost = 1
		d := takeAfter(t, lim, 30*time.Second, used)
		if d.OK || d.RetryAfter <= 0 || d.Never {
			t.Fatalf("MaxKeys %d: %+v, want a refusal with a wait", size, d)
		}
		if early := takeAfter(t, lim, 30*time.Second+d.RetryAfter-1, used); early.OK {
			t.Errorf("MaxKeys %d: passes 1 ns before %v", size, d.RetryAfter)
		}
		if late := takeAfter(t, lim, 30*time.Second+d.RetryAfter, used); !late.OK {
			t.Errorf("MaxKeys %d: does not pass after %v: %+v", size, d.RetryAfter, late)
		}
	}
}

// With room for one counter, the second key evicts the first, and all others are refused until the
// first has no weight.
func TestShardRefusesStrangers(t *testing.T) {
	lim := newLimiter(t, keyed.Options{MaxKeys: 1})
	takeAfter(t, lim, 0, request("a"))
	if d := takeAfter(t, lim, 0, request("b")); !d.OK {
		t.Fatalf("b: %+v", d)
	}
	for _, key := range []string{"a", "c"} {
		r := request(key)
		wait := time.Minute + 1 // one unit of a weighs 1 at the beginning of the next cell alone
		if d := takeAfter(t, lim, 0, r); d.OK || d.RetryAfter != wait || d.ResetAfter != wait || d.Remaining != 0 {
			t.Errorf("%s: %+v", key, d)
		}
		if d, err := lim.PeekAt(background, epoch, r); err != nil || d.OK || d.RetryAfter != wait || d.Remaining != 0 {
			t.Errorf("%s, peek: %+v, %v", key, d, err)
		}
		r.Cost = keyed.Free
		if d := takeAfter(t, lim, 0, r); !d.OK || d.Remaining != 0 || d.ResetAfter != wait {
			t.Errorf("%s, free: %+v", key, d)
		}
		r.Cost = 11
		if d := takeAfter(t, lim, 0, r); !d.Never || d.RetryAfter != 0 {
			t.Errorf("%s, cost above the limit: %+v", key, d)
		}
	}
	if d := takeAfter(t, lim, 0, request("b")); !d.OK || d.Remaining != 8 {
		t.Errorf("b again: %+v", d)
	}
}

func TestEvictionSparesWhatIsUsed(t *testing.T) {
	const size = 1000
	lim := newLimiter(t, keyed.Options{MaxKeys: size})
	for i := range size {
		takeAfter(t, lim, 0, numbered(i))
	}
	for k := range 100 {
		free := numbered(k)
		free.Cost = keyed.Free
		takeAfter(t, lim, 0, free)
	}
	evicted := 0
	for i := range 50 { // of the new keys, and 100 others are used in between
		takeAfter(t, lim, time.Second, numbered(size+i))
		for k := range 100 {
			if d := takeAfter(t, lim, time.Second, numbered(k)); d.OK != (i < 9) {
				evicted++
			}
		}
	}
	if evicted > 0 {
		t.Errorf("of the 100 counters in use %d were evicted", evicted)
	}
}

// What has expired goes before what counts, so it blocks nobody.
func TestExpiredCountersGoFirst(t *testing.T) {
	lim := newLimiter(t, keyed.Options{MaxKeys: 10})
	for i := range 10 {
		takeAfter(t, lim, 0, numbered(i))
	}
	for i := range 10 {
		if d := takeAfter(t, lim, 2*time.Minute, numbered(10+i)); !d.OK {
			t.Errorf("key %d: %+v", i, d)
		}
	}
}

// Counters with open Holds stay. If there are no others, a new key is refused, and only the end of
// a Hold helps.
func TestHoldsAreNotEvicted(t *testing.T) {
	const size = 40
	lim := newLimiter(t, keyed.Options{MaxKeys: size})
	var holds []keyed.Hold
	for i := range size {
		h, d, err := lim.HoldAt(background, epoch, numbered(i))
		if err != nil || !d.OK || d.ResetAfter != 0 {
			t.Fatalf("%+v, %v", d, err)
		}
		holds = append(holds, h)
	}
	for after := range 5 {
		d := takeAfter(t, lim, time.Duration(after)*time.Hour, request("new"))
		if d.OK || d.Never || d.RetryAfter != 0 {
			t.Fatalf("%+v, want a refusal that only the end of a Hold changes", d)
		}
	}
	if ds, err := lim.TakeAllAt(background, epoch, numbered(0), request("new")); err != nil || !ds[0].OK || ds[1].OK {
		t.Errorf("%+v, %v", ds, err)
	}
	if n := lim.Len(); n != size {
		t.Errorf("%d counters, want %d", n, size)
	}
	holds[7].Cancel()
	if d := takeAfter(t, lim, 4*time.Hour, request("new")); !d.OK {
		t.Errorf("after a Cancel: %+v", d)
	}
}

// A batch of more counters than there is room for is refused, and leaves the others alone.
func TestBatchLargerThanRoom(t *testing.T) {
	lim := newLimiter(t, keyed.Options{MaxKeys: 2})
	ds, err := lim.TakeAllAt(background, epoch, numbered(1), numbered(2), numbered(3))
	if err != nil || ds[0].OK && ds[1].OK && ds[2].OK {
		t.Fatalf("%+v, %v", ds, err)
	}
	if ds, err = lim.TakeAllAt(background, epoch, numbered(1), numbered(2)); err != nil || !ds[0].OK || !ds[1].OK || ds[0].Remaining != 9 {
		t.Errorf("%+v, %v", ds, err)
	}
}

// An idle counter is gone three windows after its last use, whatever its window is.
func TestResidency(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	for i := range 10_000 {
		r := numbered(i)
		r.Window = []time.Duration{time.Millisecond, time.Second, time.Minute}[i%3]
		takeAfter(t, lim, time.Duration(i)*time.Microsecond, r)
	}
	for _, test := range []struct {
		after time.Duration
		left  int
	}{{3*time.Millisecond + 10*time.Millisecond, 6666}, {3*time.Second + 10*time.Millisecond, 3333}, {3*time.Minute + 10*time.Millisecond, 0}} {
		r := request("other")
		r.Window = 24 * time.Hour
		takeAfter(t, lim, test.after, r)
		if n := lim.Len() - 1; n != test.left {
			t.Errorf("after %v %d counters are left, want %d", test.after, n, test.left)
		}
	}
}

// Requests for one key alone give back the memory of all others.
func TestRequestsForOneKeyRemoveOthers(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	for i := range 50_000 {
		takeAfter(t, lim, 0, numbered(i))
	}
	before := liveBytes()
	for i := range 30_000 {
		takeAfter(t, lim, 2*time.Minute+time.Duration(i)*time.Millisecond, request("other"))
	}
	if after := liveBytes(); after > before/3 {
		t.Errorf("%d bytes are live after 50,000 keys expired, %d before", after, before)
	}
	runtime.KeepAlive(lim)
}

func liveBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Keys come and go for 30 simulated days: memory stays that of the keys of three windows.
func TestNoLeak(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	const perHour = 1000 / racetest.Factor
	var early uint64
	for hour := range 30 * 24 {
		for i := range perHour {
			r := keyed.Request{
				Namespace: fmt.Sprint("day ", hour/24), Key: fmt.Sprint(hour, "-", i), Limit: 10, Window: time.Hour, Cost: 1,
			}
			takeAfter(t, lim, time.Duration(hour)*time.Hour+time.Duration(i)*time.Hour/perHour, r)
		}
		if n := lim.Len(); n > 3*perHour {
			t.Fatalf("hour %d: %d counters, want those of three hours, %d, at most", hour, n, 3*perHour)
		}
		if hour == 24 {
			early = liveBytes()
		}
	}
	if late := liveBytes(); late > early+early/4+1<<20 {
		t.Errorf("%d bytes are live after 30 days, %d after one", late, early)
	}
	runtime.KeepAlive(lim)
}

// A clock that goes back finds no counter as new that it has used before.
func TestBackwardTimeCreatesNothing(t *testing.T) {
	lim := newLimiter(t, keyed.Options{MaxKeys: 1}) // one shard
	passed := 0
	for range 50 {
		for _, after := range []time.Duration{0, time.Hour, time.Minute, 30 * time.Second} {
			for range 20 {
				if takeAfter(t, lim, after, request("k")).OK {
					passed++
				}
			}
		}
		takeAfter(t, lim, 3*time.Hour, request("other")) // removes what expired
	}
	if passed > 40 { // at 0, at an hour, at the three hours, and what evictions of other leave
		t.Errorf("%d units passed", passed)
	}
}
