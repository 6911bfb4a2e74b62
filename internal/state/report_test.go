package state

import (
	"math"
	"testing"
	"time"
)

func TestExternal(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report ReportedLimit
		limit  int
		counts ReportedCounts
		want   int
	}{
		{"the used part beyond what was counted", ReportedLimit{Remaining: 60}, 100, ReportedCounts{Now: 30}, 10},
		{"none where all was counted", ReportedLimit{Remaining: 60}, 100, ReportedCounts{Now: 50}, 0},
		{"what the provider may not have counted does not explain it", ReportedLimit{Remaining: 60}, 100, ReportedCounts{Now: 30, Uncounted: 10}, 20},
		{"no more than all is uncounted", ReportedLimit{Remaining: 60}, 100, ReportedCounts{Now: 30, Uncounted: 50}, 40},
		{"what was counted at the call explains it", ReportedLimit{Remaining: 60}, 100, ReportedCounts{Now: 5, AtCall: 40}, 0},
		{"half of the rounding may be left, too", ReportedLimit{Remaining: 60, Rounding: 10}, 100, ReportedCounts{}, 35},
		{"a negative rounding is none", ReportedLimit{Remaining: 60, Rounding: -10}, 100, ReportedCounts{}, 40},
		{"more left than the limit", ReportedLimit{Remaining: math.MaxInt, Rounding: math.MaxInt}, 100, ReportedCounts{}, 0},
		{"the largest numbers", ReportedLimit{}, math.MaxInt, ReportedCounts{Now: math.MaxInt, Uncounted: math.MaxInt}, math.MaxInt},
	} {
		if got := tt.report.External(tt.limit, tt.counts); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestSaysRemaining(t *testing.T) {
	for report, want := range map[ReportedLimit]bool{
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
		if got := (&ReportedLimit{Reset: reset}).Lasts(60); got != want {
			t.Errorf("until %d: %d, want %d", reset, got, want)
		}
	}
}

func TestCorrect(t *testing.T) {
	q := Quota{MaxRPM: 10, MaxTPM: 20, MaxInFlight: 3, DayZone: "UTC", Burst: time.Second}
	tests := []struct {
		name    string
		reports ReportedLimits
		most    Quota
		differ  bool
		want    func(*Quota)
	}{
		{"nothing is reported", ReportedLimits{}, Quota{}, false, func(*Quota) {}},
		{"the same is reported", ReportedLimits{RPM: {Limit: 10}}, Quota{MaxRPM: 5}, false, func(*Quota) {}},
		{"up, down, and where there was no limit",
			ReportedLimits{RPM: {Limit: 15}, TPM: {Limit: 5}, TPD: {Limit: 7}}, Quota{}, true,
			func(q *Quota) { q.MaxRPM, q.MaxTPM, q.MaxTPD = 15, 5, 7 }},
		{"up to what the program said", ReportedLimits{RPM: {Limit: 15}}, Quota{MaxRPM: 12}, true,
			func(q *Quota) { q.MaxRPM = 12 }},
		{"which may be what it is", ReportedLimits{RPM: {Limit: 15}}, Quota{MaxRPM: 10}, true, func(*Quota) {}},
		{"an impossible number", ReportedLimits{RPM: {Limit: -1}}, Quota{}, false, func(*Quota) {}},
	}
	if most := int64(1) << 40; most < math.MaxInt { // of what is believed
		tests = append(tests, tests[0], tests[0])
		largest, larger := &tests[len(tests)-2], &tests[len(tests)-1]
		largest.name, largest.reports, largest.differ = "the largest that is believed", ReportedLimits{TPM: {Limit: int(most)}}, true
		largest.want = func(q *Quota) { q.MaxTPM = int(most) }
		larger.name, larger.reports = "a larger one", ReportedLimits{TPM: {Limit: int(most) + 1}}
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
