package ring

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
)

func TestQueueAgreesWithSlice(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 3))
		var q Queue[int]
		var want []int
		pushed, at := 0, int64(0)
		for range 4000 {
			if random.IntN(10) < 7 {
				at += int64(random.IntN(3))
				q.Push(at, int(at))
				want = append(want, int(at))
				pushed++
			} else if n := random.IntN(min(len(want), 50) + 1); n > 0 {
				q.Drop(n)
				want = want[n:]
			}
			if !slices.Equal(q.Values(), want) {
				t.Fatalf("seed %d: live is %v, want %v", seed, q.Values(), want)
			}
			if q.total() != pushed {
				t.Fatalf("seed %d: total is %d, want %d", seed, q.total(), pushed)
			}
			if len(want) > 0 {
				k := random.IntN(len(want))
				if q.When(k) != int64(want[k]) {
					t.Fatalf("seed %d: when(%d) = %d, want %d", seed, k, q.When(k), want[k])
				}
				if n, _ := slices.BinarySearch(want, want[k]); q.Before(int64(want[k])) != n {
					t.Fatalf("seed %d: before(%d) = %d, want %d", seed, want[k], q.Before(int64(want[k])), n)
				}
			}
		}
	}
}

func TestQueueGivesStorageBack(t *testing.T) {
	var q Queue[int]
	for i := range 100_000 {
		q.Push(int64(i), i)
	}
	q.Drop(99_900)
	if c := cap(q.at); c > 1000 {
		t.Errorf("100 entries keep room for %d", c)
	}
	q.Drop(100)
	if cap(q.at) != 0 || cap(q.vals) != 0 {
		t.Errorf("an emptied queue keeps room for %d and %d", cap(q.at), cap(q.vals))
	}
}

func TestQueueSteadyStateDoesNotAllocate(t *testing.T) {
	var q Queue[int]
	at := int64(0)
	step := func() {
		q.Push(at, 0)
		at++
		if q.Len() > 100 {
			q.Drop(1)
		}
	}
	for range 1000 {
		step()
	}
	if n := testing.AllocsPerRun(10_000, step); n != 0 {
		t.Errorf("%v allocations per push and drop, want 0", n)
	}
}

// TestQueueCorrectsWhatIsStored changes a queue at random while it is
// stored now and then, and holds what the corrections make of the rows of a
// database against the queue.
func TestQueueCorrectsWhatIsStored(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 5))
		var q Queue[int]
		var want []int
		rows, left := make(map[int]int), make(map[int]bool)
		next, at := 0, int64(0)
		value := func() int { next++; return next }

		reading := new(atomic.Bool)
		var read, readWas []int
		var taken []Correction[int]
		start := func() {
			reading.Store(true)
			q.Pin(reading)
			read = q.SinceStored()
			readWas = slices.Clone(read)
			taken = q.BeginStoring()
		}
		end := func(ok bool) {
			if !slices.Equal(read, readWas) {
				t.Fatalf("seed %d: what is read without the lock has changed", seed)
			}
			reading.Store(false)
			q.EndStoring(ok, taken)
			if !ok {
				return
			}
			for _, c := range taken {
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
				q.Set(i, v)
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
			if !slices.IsSorted(q.at[q.head:]) {
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
