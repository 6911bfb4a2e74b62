package sqlitestate

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// What a day in memory adds to, or takes back from, the day in the file.
func TestMergeDay(t *testing.T) {
	now := time.Now().UnixNano()
	const hour = int64(time.Hour)
	at := func(hours, count, tokens, generation int64) state.DayUsage {
		return state.DayUsage{Start: now - hours*hour, Count: count, Tokens: tokens, Generation: generation}
	}
	fresh := func(day state.DayUsage) Change { return Change{Day: day} }
	more := func(day state.DayUsage) Change { return Change{Day: day, Continues: true} }
	forget := Change{Continues: true, Forget: true}
	tests := []struct {
		name         string
		change       Change
		memory, file state.DayUsage // as known
		found, want  state.DayUsage
	}{
		{"a new day", fresh(at(1, 2, 30, 0)), state.DayUsage{}, state.DayUsage{}, state.DayUsage{Generation: 4}, at(1, 2, 30, 5)},
		{"beside another's", fresh(at(1, 2, 30, 0)), state.DayUsage{}, state.DayUsage{}, at(2, 3, 40, 4), at(2, 5, 70, 4)},
		{"of an earlier start", fresh(at(2, 2, 30, 0)), state.DayUsage{}, state.DayUsage{}, at(1, 3, 40, 4), at(2, 5, 70, 4)},
		{"tokens without a request", fresh(at(1, 0, 30, 0)), state.DayUsage{}, state.DayUsage{}, at(1, 0, 40, 4), at(1, 0, 70, 4)},
		{"after one that is over", fresh(at(1, 2, 30, 0)), state.DayUsage{}, state.DayUsage{}, at(24, 3, 40, 4), at(1, 2, 30, 5)},
		{"that is over", fresh(at(24, 2, 30, 0)), state.DayUsage{}, state.DayUsage{}, at(1, 3, 40, 4), at(1, 3, 40, 4)},
		{"that grew", more(at(1, 3, 50, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 4), at(1, 8, 110, 4)},
		{"whose tokens alone grew", more(at(1, 2, 50, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 4), at(1, 7, 110, 4)},
		{"that shrunk", more(at(1, 1, 10, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 4), at(1, 6, 70, 4)},
		{"whose tokens shrunk", more(at(1, 3, 10, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 4), at(1, 8, 70, 4)},
		{"that shrunk to nothing", more(at(1, 0, 0, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 4), at(1, 5, 60, 4)},
		{"that shrunk to nothing, alone", more(at(1, 0, 0, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 2, 30, 4), at(1, 0, 0, 4)},
		{"that shrunk by more than there is", more(at(1, 1, 1, 0)), at(1, 5, 50, 0), at(1, 5, 50, 4), at(1, 2, 30, 4), at(1, 0, 0, 4)},
		{"that shrunk, but another took its place", more(at(1, 1, 10, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 5), at(1, 7, 90, 5)},
		{"that grew, and another took its place", more(at(1, 3, 10, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 5), at(1, 8, 90, 5)},
		{"that another process reset", more(at(1, 3, 50, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 0, 0, 5), at(1, 1, 20, 6)},
		{"that another process reset, and shrunk", more(at(1, 1, 10, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 0, 0, 5), at(1, 0, 0, 6)},
		{"that was given back, and begun anew", more(at(0, 1, 5, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 2, 30, 4), at(0, 1, 5, 4)},
		{"that was given back, begun anew and given back", more(at(0, 0, 0, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 2, 30, 4), at(0, 0, 0, 4)},
		{"that was given back twice beside another's", more(at(0, 0, 0, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 4), at(1, 5, 60, 4)},
		{"that was given back, but another took its place", more(at(0, 0, 0, 0)), at(1, 2, 30, 0), at(1, 2, 30, 4), at(1, 7, 90, 5), at(1, 7, 90, 5)},
		{"that is over, before another's", more(at(0, 0, 0, 0)), at(24, 2, 30, 0), at(24, 2, 30, 4), at(1, 7, 90, 5), at(1, 7, 90, 5)},
		{"that is reset", forget, at(1, 2, 30, 0), at(1, 5, 70, 4), at(1, 6, 90, 4), at(1, 1, 20, 5)},
		{"that is reset and had shrunk", forget, at(1, 2, 30, 0), at(1, 5, 70, 4), at(1, 4, 80, 4), at(1, 0, 10, 5)},
		{"that is reset, but another took its place", forget, at(1, 2, 30, 0), at(1, 5, 70, 4), at(1, 6, 90, 5), at(1, 6, 90, 5)},
		{"of the largest counts", fresh(at(1, math.MaxInt64, math.MaxInt64, 0)), state.DayUsage{}, state.DayUsage{},
			at(1, 1, math.MaxInt64, 4), at(1, math.MaxInt64, math.MaxInt64, 4)},
		{"of damaged counts", fresh(at(1, 2, 30, 0)), state.DayUsage{}, state.DayUsage{}, at(1, math.MinInt64, 40, 4), at(1, 0, 70, 4)},
	}
	for _, tt := range tests {
		if got := tt.change.mergeDay(knownDay{tt.memory, tt.file}, tt.found, now); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
