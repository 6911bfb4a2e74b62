package sharedlog

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

func TestDayAddedAt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		added DayAdded
		wall  int64
		want  DayAdded
	}{
		{"what came on top", DayAdded{1, 5, 100}, 100, DayAdded{1, 5, 100}},
		{"what came off the day", DayAdded{-1, -5, 100}, 99, DayAdded{-1, -5, 100}},
		{"what came off a day that is over", DayAdded{-1, -5, 100}, 100, DayAdded{}},
		{"tokens that did", DayAdded{0, -5, 100}, 100, DayAdded{}},
		{"nothing", DayAdded{}, 100, DayAdded{}},
	} {
		if got := tt.added.At(tt.wall); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestDayAddedAfter(t *testing.T) {
	day := func(start, count, tokens int64) state.DayUsage {
		return state.DayUsage{Start: start, Count: count, Tokens: tokens}
	}
	const full, short = int64(24 * time.Hour), int64(23 * time.Hour)
	for _, tt := range []struct {
		name          string
		added         DayAdded
		was, is, want state.DayUsage
	}{
		{"a charge", DayAdded{1, 5, 0}, day(10, 3, 30), day(10, 2, 25), day(10, 4, 35)},
		{"a settlement", DayAdded{0, -5, 0}, day(10, 3, 30), day(10, 2, 15), day(10, 3, 25)},
		{"no day before", DayAdded{1, 5, 0}, day(0, 0, 0), day(10, 1, 5), day(10, 1, 5)},
		{"the first charge of the next day", DayAdded{1, 5, 0}, day(10, 9, 90), day(10+full, 1, 5), day(10+full, 1, 5)},
		{"of one behind the change of summer time", DayAdded{1, 5, 0}, day(10, 9, 90), day(10+short, 1, 5), day(10+short, 1, 5)},
		{"a day that others have begun before", DayAdded{1, 5, 0}, day(10, 1, 7), day(11+short, 1, 5), day(10, 2, 12)},
		{"a day that others have begun behind", DayAdded{1, 5, 0}, day(20, 1, 7), day(10, 1, 5), day(20, 2, 12)},
		{"a charge, while others began the next day", DayAdded{1, 5, 0}, day(10+full, 1, 7), day(10, 10, 95), day(10+full, 2, 12)},
		{"a settlement of the day before", DayAdded{0, -5, 0}, day(10+full, 1, 7), day(10, 10, 85), day(10+full, 1, 7)},
		{"more than there is", DayAdded{-2, -50, 0}, day(10, 1, 30), day(10, 0, 0), day(10, 0, 0)},
		{"more than fits", DayAdded{1, math.MaxInt, 0}, day(10, 1, math.MaxInt64), day(10, 2, 0), day(10, 2, math.MaxInt64)},
	} {
		if got := tt.added.After(tt.was, tt.is); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
