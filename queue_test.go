package ratelimit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTimedQueueAgreesWithSlice(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 3))
		var q timedQueue[int]
		var want []int
		pushed, at := 0, int64(0)
		for range 4000 {
			if random.IntN(10) < 7 {
				at += int64(random.IntN(3))
				q.push(at, int(at))
				want = append(want, int(at))
				pushed++
			} else if n := random.IntN(min(len(want), 50) + 1); n > 0 {
				q.drop(n)
				want = want[n:]
			}
			if !slices.Equal(q.live(), want) {
				t.Fatalf("seed %d: live is %v, want %v", seed, q.live(), want)
			}
			if q.total() != pushed {
				t.Fatalf("seed %d: total is %d, want %d", seed, q.total(), pushed)
			}
			if len(want) > 0 {
				k := random.IntN(len(want))
				if q.when(k) != int64(want[k]) {
					t.Fatalf("seed %d: when(%d) = %d, want %d", seed, k, q.when(k), want[k])
				}
				if n, _ := slices.BinarySearch(want, want[k]); q.before(int64(want[k])) != n {
					t.Fatalf("seed %d: before(%d) = %d, want %d", seed, want[k], q.before(int64(want[k])), n)
				}
				if since := q.since(q.total() - k); !slices.Equal(since, want[len(want)-k:]) {
					t.Fatalf("seed %d: since the last %d is %v, want %v", seed, k, since, want[len(want)-k:])
				}
			}
		}
	}
}

func TestTimedQueueGivesStorageBack(t *testing.T) {
	var q timedQueue[int]
	for i := range 100_000 {
		q.push(int64(i), i)
	}
	q.drop(99_900)
	if c := cap(q.at); c > 1000 {
		t.Errorf("100 entries keep room for %d", c)
	}
	q.drop(100)
	if cap(q.at) != 0 || cap(q.vals) != 0 {
		t.Errorf("an emptied queue keeps room for %d and %d", cap(q.at), cap(q.vals))
	}
}

func TestTimedQueueSteadyStateDoesNotAllocate(t *testing.T) {
	var q timedQueue[int]
	at := int64(0)
	step := func() {
		q.push(at, 0)
		at++
		if q.len() > 100 {
			q.drop(1)
		}
	}
	for range 1000 {
		step()
	}
	if n := testing.AllocsPerRun(10_000, step); n != 0 {
		t.Errorf("%v allocations per push and drop, want 0", n)
	}
}
