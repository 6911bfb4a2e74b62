package notice

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Of ten with every third, the first, fourth, seventh and tenth are taken.
func TestTake(t *testing.T) {
	for every, want := range map[int]string{
		-1: "1 2+0 3+0 4+0 5+0 6+0 7+0 8+0 9+0 10+0", 0: "1 2+0 3+0 4+0 5+0 6+0 7+0 8+0 9+0 10+0",
		1: "1 2+0 3+0 4+0 5+0 6+0 7+0 8+0 9+0 10+0", 3: "1 4+2 7+2 10+2", 100: "1",
	} {
		s := NewSampler(every)
		var got []string
		for i := 1; i <= 10; i++ {
			take, leftOut := s.Take("m", "k")
			switch {
			case take && i == 1:
				got = append(got, "1")
			case take:
				got = append(got, fmt.Sprintf("%d+%d", i, leftOut))
			case leftOut != 0:
				t.Errorf("one that is not taken tells of %d", leftOut)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("every %d: %s, want %s", every, strings.Join(got, " "), want)
		}
	}
}

func TestSubjectsAndKindsCountByThemselves(t *testing.T) {
	s := NewSampler(100)
	for _, k := range []sampleKey{{"a", "x"}, {"a", "y"}, {"b", "x"}, {"", "x"}} {
		for i, want := range []bool{true, false} {
			if take, _ := s.Take(k.subject, k.kind); take != want {
				t.Errorf("%v, time %d: %t", k, i, take)
			}
		}
	}
}

// Names that only somebody else knows fill no memory.
func TestMemoryIsBounded(t *testing.T) {
	s, taken := NewSampler(100), 0
	for i := range 100_000 {
		if take, _ := s.Take(fmt.Sprint("model-", i), "x"); take {
			taken++
		}
	}
	for range 1000 {
		if take, _ := s.Take(strings.Repeat("m", mostBytes+1), "x"); take {
			taken++
		}
	}
	if want := mostKeys + (100_000-mostKeys+1000)/100; taken < want-2 || taken > want+2 {
		t.Errorf("%d were taken, want %d", taken, want)
	}
	if len(s.seen) > mostKeys+1 {
		t.Errorf("%d keys are known", len(s.seen))
	}
}

func TestTakeConcurrently(t *testing.T) {
	s := NewSampler(10)
	var mu sync.Mutex
	var all sync.WaitGroup
	taken, left := 0, 0
	for range 4 {
		all.Go(func() {
			for range 1000 {
				if take, leftOut := s.Take("m", "x"); take {
					mu.Lock()
					taken++
					left += leftOut
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if taken != 400 || left != 399*9 {
		t.Errorf("%d were taken and %d left out, want 400 and %d", taken, left, 399*9)
	}
}

// A known subject is looked up without memory of its own.
func TestTakeAllocatesNothing(t *testing.T) {
	s := NewSampler(100)
	s.Take("m", "x")
	if n := testing.AllocsPerRun(100, func() { s.Take("m", "x") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
