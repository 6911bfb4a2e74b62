package observation_test

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/observation"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

func TestExternal(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report observation.Limit
		limit  int
		counts observation.Counts
		want   int
	}{
		{"the used part beyond what was counted", observation.Limit{Remaining: 60}, 100, observation.Counts{Now: 30}, 10},
		{"none where all was counted", observation.Limit{Remaining: 60}, 100, observation.Counts{Now: 50}, 0},
		{"what the provider may not have counted does not explain it", observation.Limit{Remaining: 60}, 100, observation.Counts{Now: 30, Uncounted: 10}, 20},
		{"no more than all is uncounted", observation.Limit{Remaining: 60}, 100, observation.Counts{Now: 30, Uncounted: 50}, 40},
		{"what was counted at the call explains it", observation.Limit{Remaining: 60}, 100, observation.Counts{Now: 5, AtCall: 40}, 0},
		{"half of the rounding may be left, too", observation.Limit{Remaining: 60, Rounding: 10}, 100, observation.Counts{}, 35},
		{"a negative rounding is none", observation.Limit{Remaining: 60, Rounding: -10}, 100, observation.Counts{}, 40},
		{"more left than the limit", observation.Limit{Remaining: math.MaxInt, Rounding: math.MaxInt}, 100, observation.Counts{}, 0},
		{"the largest numbers", observation.Limit{}, math.MaxInt, observation.Counts{Now: math.MaxInt, Uncounted: math.MaxInt}, math.MaxInt},
	} {
		if got := tt.report.External(tt.limit, tt.counts); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestSaysRemaining(t *testing.T) {
	for report, want := range map[observation.Limit]bool{
		{}:                                  false,
		{Remaining: 5}:                      false,
		{HasRemaining: true}:                true,
		{HasRemaining: true, Remaining: -1}: false,
	} {
		if got := report.SaysRemaining(); got != want {
			t.Errorf("%+v: %v", report, got)
		}
	}
}

func TestLasts(t *testing.T) {
	for reset, want := range map[time.Duration]int64{-1: 60, 0: 60, 1: 1, 59: 59, 60: 60, math.MaxInt64: 60} {
		if got := (&observation.Limit{Reset: reset}).Lasts(60); got != want {
			t.Errorf("until %d: %d, want %d", reset, got, want)
		}
	}
}

func TestCorrect(t *testing.T) {
	q := state.Quota{MaxRPM: 10, MaxTPM: 20, MaxInFlight: 3, DayZone: "UTC", Burst: time.Second}
	tests := []struct {
		name    string
		reports observation.Limits
		most    state.Quota
		differ  bool
		want    func(*state.Quota)
	}{
		{"nothing is reported", observation.Limits{}, state.Quota{}, false, func(*state.Quota) {}},
		{"the same is reported", observation.Limits{state.RPM: {Limit: 10}}, state.Quota{MaxRPM: 5}, false, func(*state.Quota) {}},
		{"up, down, and where there was no limit",
			observation.Limits{state.RPM: {Limit: 15}, state.TPM: {Limit: 5}, state.TPD: {Limit: 7}}, state.Quota{}, true,
			func(q *state.Quota) { q.MaxRPM, q.MaxTPM, q.MaxTPD = 15, 5, 7 }},
		{"up to what the program said", observation.Limits{state.RPM: {Limit: 15}}, state.Quota{MaxRPM: 12}, true,
			func(q *state.Quota) { q.MaxRPM = 12 }},
		{"which may be what it is", observation.Limits{state.RPM: {Limit: 15}}, state.Quota{MaxRPM: 10}, true, func(*state.Quota) {}},
		{"an impossible number", observation.Limits{state.RPM: {Limit: -1}}, state.Quota{}, false, func(*state.Quota) {}},
	}
	if most := int64(1) << 40; most < math.MaxInt { // of what is believed
		tests = append(tests, tests[0], tests[0])
		largest, larger := &tests[len(tests)-2], &tests[len(tests)-1]
		largest.name, largest.reports, largest.differ = "the largest that is believed", observation.Limits{state.TPM: {Limit: int(most)}}, true
		largest.want = func(q *state.Quota) { q.MaxTPM = int(most) }
		larger.name, larger.reports = "a larger one", observation.Limits{state.TPM: {Limit: int(most) + 1}}
	}
	for _, tt := range tests {
		want := q
		tt.want(&want)
		if got := tt.reports.Correct(&q, &tt.most); got != want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
		if got := tt.reports.Differ(&q); got != tt.differ {
			t.Errorf("%s: Differ is %v", tt.name, got)
		}
	}
}
