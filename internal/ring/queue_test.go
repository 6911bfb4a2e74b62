package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQueueAgreesWithSlice(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 3))
		var q Queue[int]
		var want []int
		at := int64(0)
		for range 4000 {
			if random.IntN(10) < 7 {
				at += int64(random.IntN(3))
				q.Push(at, int(at))
				want = append(want, int(at))
			} else if n := random.IntN(min(len(want), 50) + 1); n > 0 {
				q.Drop(n)
				want = want[n:]
			}
			if !slices.Equal(q.Values(), want) {
				t.Fatalf("seed %d: live is %v, want %v", seed, q.Values(), want)
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
	if c := cap(q.at.buf); c > 1000 {
		t.Errorf("100 entries keep room for %d", c)
	}
	q.Drop(100)
	if cap(q.at.buf) != 0 || cap(q.vals.buf) != 0 {
		t.Errorf("an emptied queue keeps room for %d and %d", cap(q.at.buf), cap(q.vals.buf))
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
