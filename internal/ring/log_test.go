package ring

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

func TestLogTellsWhetherTheStoreIsUpToDate(t *testing.T) {
	var q Queue[int]
	q.Push(1, 10)
	if l := q.Log(); l != nil || l.UpToDate() {
		t.Errorf("log %v of a queue without a store: up to date %t", l, l.UpToDate())
	}
	check := func(what string, upToDate bool) {
		t.Helper()
		if l := q.Log(); l.UpToDate() != upToDate {
			t.Errorf("%s: up to date %t; want %t", what, l.UpToDate(), upToDate)
		}
	}
	q.StartLog()
	check("nothing written", false)
	c := q.StartLog().Begin()
	check("being written", false)
	q.Log().End(false, c)
	check("not written", false)
	q.Log().End(true, q.Log().Begin())
	check("written", true)
	*q.Edit(0) = 11
	q.Edited(0)
	check("changed", false)
	q.Log().End(true, q.Log().Begin())
	q.Push(2, 12)
	check("one more", false)
	q.StartStoredLog()
	check("loaded", true)
}

// TestLogCorrectsWhatIsStored changes a queue at random while it is
// stored now and then, and holds what the corrections make of the rows of a
// database against the queue.
func TestLogCorrectsWhatIsStored(t *testing.T) {
	for seed := range uint64(max(20, 100/racetest.Factor)) {
		random := rand.New(rand.NewPCG(seed, 5))
		var q Queue[int]
		var want []int
		rows, left := make(map[int]int), make(map[int]bool)
		next, at := 0, int64(0)
		value := func() int { next++; return next }

		reading := new(atomic.Bool)
		var read, readWas []int
		var taken Changes[int]
		start := func() {
			reading.Store(true)
			q.Pin(reading)
			taken = q.StartLog().Begin()
			read = taken.Added
			readWas = slices.Clone(read)
		}
		end := func(ok bool) {
			if !slices.Equal(read, readWas) {
				t.Fatalf("seed %d: what is read without the lock has changed", seed)
			}
			reading.Store(false)
			q.Log().End(ok, taken)
			if !ok {
				return
			}
			for _, c := range taken.Corrected {
				if c.Added {
					rows[c.Value]++
				} else if rows[c.Value] > 0 {
					rows[c.Value]--
				}
			}
			for _, v := range read {
				rows[v]++
			}
		}
		for range 3000 {
			switch op := random.IntN(24); {
			case op < 10:
				at += int64(random.IntN(3))
				v := value()
				q.Push(at, v)
				want = append(want, v)
			case op < 11:
				n := random.IntN(min(len(want), 20) + 1)
				for _, v := range want[:n] {
					left[v] = true // by time: its row may stay
				}
				q.Drop(n)
				want = want[n:]
			case op < 13 && len(want) > 0:
				i, v := random.IntN(len(want)), value()
				*q.Edit(i) = v
				q.Edited(i)
				want[i] = v
			case op < 15 && len(want) > 0:
				i := random.IntN(len(want))
				q.Remove(i)
				want = slices.Delete(want, i, i+1)
			case op < 17:
				v, when := value(), at-int64(random.IntN(20))
				if len(want) > 0 {
					when = max(when, q.When(0))
				}
				i := q.Insert(when, v)
				want = slices.Insert(want, i, v)
				if found := q.Find(when, func(x *int) bool { return *x == v }); found != i {
					t.Fatalf("seed %d: Find says %d, want %d", seed, found, i)
				}
			case op < 20 && !reading.Load():
				start()
			case op < 22 && reading.Load():
				end(random.IntN(3) > 0)
			}
			if !slices.Equal(q.Values(), want) {
				t.Fatalf("seed %d: live is %v, want %v", seed, q.Values(), want)
			}
			if !slices.IsSorted(q.at.live()) {
				t.Fatalf("seed %d: out of order", seed)
			}
		}
		if reading.Load() {
			end(seed%2 == 0)
		}
		start()
		end(true)
		for _, v := range want {
			rows[v]--
		}
		for v, n := range rows {
			if n != 0 && !left[v] {
				t.Fatalf("seed %d: the database has %d of %d too many", seed, n, v)
			}
		}
	}
}
