package eviction

import (
	"maps"
	"math"
	"slices"
	"testing"
)

func lateAt(b *Bound[string], at int64) []string { return slices.Sorted(maps.Keys(b.Moved(at))) }

func TestBoundTellsWhenPlacesComeTooLate(t *testing.T) {
	var b Bound[string]
	if b.Most() != 0 || b.Moved(5) != nil {
		t.Error("there is a waiter in none")
	}
	b.Add("a", 1, 20)
	b.Add("b", 3, 10)
	if most := b.Most(); most != 3 {
		t.Errorf("%d places are needed, want 3", most)
	}
	for _, at := range []int64{math.MinInt64, 5, 10, 8, Never, 9} {
		if late := lateAt(&b, at); late != nil {
			t.Fatalf("%q are late for places at %d", late, at)
		}
	}
	if late := lateAt(&b, 11); !slices.Equal(late, []string{"a", "b"}) {
		t.Errorf("got %q, want all: any may need fewer places", late)
	}
	if b.Most() != 0 {
		t.Error("those that may be late stay")
	}
}

// Places that come as late as before make nobody late who was looked at then.
func TestBoundLooksAgainOnlyWherePlacesComeLater(t *testing.T) {
	var b Bound[string]
	b.Add("a", 1, 20)
	b.Moved(15)
	b.Add("b", 1, 12) // was decided upon, and comes too late for that only by another change
	for _, at := range []int64{15, 14, 13} {
		if late := lateAt(&b, at); late != nil {
			t.Errorf("%q are late for places at %d", late, at)
		}
	}
	if late := lateAt(&b, 14); len(late) != 2 {
		t.Errorf("%q are late, want both", late)
	}
}

// Those that need fewer places pass in time though their deadlines are before the most come. They
// stay, and are not returned without end.
func TestBoundReturnsWhoStaysOnce(t *testing.T) {
	var b Bound[string]
	b.Add("one", 1, 10)
	b.Add("two", 2, 30)
	for range 2 {
		if late := lateAt(&b, 20); len(late) != 2 {
			t.Fatalf("%q are late for places at 20, want both", late)
		}
		b.Add("one", 1, 10)
		b.Add("two", 2, 30)
		if late := lateAt(&b, 20); late != nil {
			t.Fatalf("%q are late again for the same places", late)
		}
		b.Remove("one")
		b.Remove("two")
		if b.Most() != 0 {
			t.Error("those that left need places")
		}
		b.Add("one", 1, 10) // which nobody has looked at
		b.Add("two", 2, 30)
	}
}

func TestBoundForgets(t *testing.T) {
	var b Bound[string]
	b.Remove("a")
	b.Add("a", 5, 10)
	b.Moved(9)
	b.Remove("a")
	if b.Most() != 0 {
		t.Error("a waiter that left needs places")
	}
	b.Add("b", 1, 20)
	if b.Most() != 1 || b.Moved(15) != nil {
		t.Error("the needs of one that left count")
	}
}
