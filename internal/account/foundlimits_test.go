package account

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

const (
	second = int64(time.Second)
	hour   = int64(time.Hour)

	thousand = int64(time.Second)*1000/60 + 1 // requests per minute, as a search has them
)

func rates(floor, ceiling int) SearchBounds {
	return SearchBounds{FloorRPM: floor, CeilingRPM: ceiling}
}
func slots(floor, ceiling int) SearchBounds {
	return SearchBounds{FloorSlots: floor, CeilingSlots: ceiling}
}

func TestSearchBoundsOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		q    state.Quota
		want SearchBounds
	}{
		{"a quota that searches for nothing", state.Quota{MaxRPM: 1, MaxInFlight: 1}, SearchBounds{}},
		{"a rate", state.Quota{AdaptiveFloorRPM: 2, AdaptiveCeilingRPM: 3}, rates(2, 3)},
		{"a rate without a ceiling", state.Quota{AdaptiveFloorRPM: 2}, rates(2, 1_000_000)},
		{"a rate without a floor", state.Quota{AdaptiveCeilingRPM: 3}, rates(1, 3)},
		{"calls in flight", state.Quota{AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 3}, slots(2, 3)},
		{"calls in flight without a ceiling", state.Quota{AdaptiveFloorInFlight: 2}, slots(2, 10_000)},
		{"an invalid one", state.Quota{AdaptiveFloorRPM: 2, AdaptiveFloorInFlight: -1}, SearchBounds{}},
		{"an invalid cap", state.Quota{AdaptiveFloorRPM: 2, MaxRPM: -1}, SearchBounds{}},
	} {
		if got := SearchBoundsOf(&tt.q); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestSearchBeginsAtTwiceTheFloor(t *testing.T) {
	for _, tt := range []struct {
		b          SearchBounds
		rpm, slots int
	}{
		{rates(60, 6000), 120, 0},
		{rates(60, 100), 100, 0},
		{rates(7, 1_000_000_000), 14, 0},
		{rates(1_000_000_000, 1_000_000_000), 1_000_000_000, 0},
		{slots(1, 1), 0, 1},
		{slots(3, 10), 0, 6},
		{SearchBounds{1, 9, 2, 9}, 2, 4},
	} {
		rpm, slots := newFoundLimits(tt.b, 0, 0).Found(0)
		if rpm != tt.rpm || slots != tt.slots {
			t.Errorf("%+v: %d a minute and %d in flight, want %d and %d", tt.b, rpm, slots, tt.rpm, tt.slots)
		}
	}
}

// Each request starts as late after it may as timers fire. What is no later than lateness is made
// up for, so that the rate is used up.
func TestRequestsAreSpaced(t *testing.T) {
	const gap = int64(500 * time.Millisecond) // at 120 a minute
	for _, tt := range []struct {
		name    string
		late    int64
		sharers int
		each    int64 // what each request adds
	}{
		{"in time", 0, 0, gap},
		{"as late as timers are", lateness, 1, gap},
		{"later", lateness + 1000, 1, gap + 1000},
		{"one of three that share", 0, 3, 3 * gap},
	} {
		l := newFoundLimits(rates(60, 6000), hour, 0)
		l.count(hour, 1, 1, tt.sharers)
		first := l.opens()
		for range 8 {
			at := l.opens() + tt.late
			l.count(at, 1, 1, tt.sharers)
		}
		if got := l.opens() - first; got != 8*tt.each {
			t.Errorf("%s: eight requests take %d, want %d", tt.name, got, 8*tt.each)
		}
	}
}

func TestUncountTakesTheRequestBack(t *testing.T) {
	l := newFoundLimits(rates(60, 6000), 0, 0)
	l.count(second, 1, 1, 0)
	l.count(second, 2, 3, 0)
	if got, want := l.opensAtBest(3), l.opens()-3*l.gap; got != want {
		t.Errorf("opens at %d without the calls in flight, want %d", got, want)
	}
	for range 3 {
		l.uncount(second)
	}
	if l.opens() > second {
		t.Errorf("opens at %d after all requests were taken back, want %d at most", l.opens(), second)
	}
	l.uncount(second)
	if l.opens() < second-lateness {
		t.Errorf("opens at %d: more was taken back than was counted", l.opens())
	}
}

// A rate that changes changes the gap behind the last request.
func TestGapFollowsTheRate(t *testing.T) {
	l := newFoundLimits(rates(60, 6000), 0, 0)
	l.count(hour, 4, 1, 0)
	base, gap := l.opens()-4*l.gap, l.gap
	if _, lowered := l.Refuse(ProviderRefusal{}, hour+second); !lowered || l.gap <= gap {
		t.Fatal("a refusal does not lower the rate")
	}
	if want := base + 4*l.gap; l.opens() != want {
		t.Errorf("opens at %d, want %d", l.opens(), want)
	}
	l.bind(rates(600, 600), hour+second, 1)
	if want := base + 4*l.gap; l.opens() != want {
		t.Errorf("with another quota: opens at %d, want %d", l.opens(), want)
	}
}

// What keeps others waiting is a minute, or a small batch, however much was charged.
func TestDebtIsBounded(t *testing.T) {
	for _, tt := range []struct {
		rpm, requests int
		want          int64
	}{
		{60, 30, 30 * second},
		{60, 5000, 62 * second},
		{1, 10, 600 * second},
		{1, 5000, 17*60*second + 1},
	} {
		l := newFoundLimits(rates(tt.rpm, tt.rpm), hour, 0)
		for range tt.requests {
			l.count(hour, 1, 1, 0)
		}
		if got := l.opens() - hour; got > tt.want+second || got < tt.want-2*second {
			t.Errorf("%d requests at %d a minute keep others waiting for %v, want %v", tt.requests, tt.rpm, time.Duration(got), time.Duration(tt.want))
		}
	}
	l := newFoundLimits(rates(60, 6000), hour, 0)
	l.Tell(true)
	l.count(hour, 50, 1, 0)
	if l.Tell(false); l.opens() > hour {
		t.Errorf("requests that the provider's own limits admitted keep others waiting for %v", time.Duration(l.opens()-hour))
	}
}

func TestProviderRefusals(t *testing.T) {
	both := SearchBounds{10, 1000, 4, 100}
	for _, tt := range []struct {
		name       string
		b          SearchBounds
		told       bool
		refusal    ProviderRefusal
		rpm, slots bool // whether it is lowered
		anew       int64
	}{
		{"of requests", both, false, ProviderRefusal{}, true, false, state.RateAnew},
		{"overload", both, false, ProviderRefusal{Overload: true}, false, true, state.RateAnew | state.SlotsAnew},
		{"of requests, without a rate", slots(4, 100), false, ProviderRefusal{}, false, false, 0},
		{"overload, without calls in flight", rates(10, 1000), false, ProviderRefusal{Overload: true}, false, false, state.RateAnew},
		{"of requests by a provider that says its limits", both, true, ProviderRefusal{}, false, false, 0},
		{"overload of a provider that says its limits", both, true, ProviderRefusal{Overload: true}, false, true, state.RateAnew | state.SlotsAnew},
		{"of a call of a second ago", both, false, ProviderRefusal{Took: second}, true, false, state.RateAnew},
	} {
		l := newFoundLimits(tt.b, hour, 0)
		l.Tell(tt.told)
		rpm, slots := l.Found(hour)
		anew, lowered := l.Refuse(tt.refusal, hour)
		isRPM, isSlots := l.Found(hour)
		if (isRPM < rpm) != tt.rpm || (isSlots < slots) != tt.slots || lowered != (tt.rpm || tt.slots) || anew != tt.anew {
			t.Errorf("%s: %d of %d a minute, %d of %d in flight, lowered %v, anew %d", tt.name, isRPM, rpm, isSlots, slots, lowered, anew)
		}
		if _, again := l.Refuse(tt.refusal, hour+second); again {
			t.Errorf("%s: lowered twice within the cool-down", tt.name)
		}
	}
}

// What was found loses half of its distance to the floor in an hour without requests.
func TestFoundAges(t *testing.T) {
	stored := state.Found{Rate: state.Search{Level: thousand}, Slots: state.Search{Level: 84_000}, At: 1}
	for _, tt := range []struct {
		name       string
		age        int64
		rpm, slots int
	}{
		{"at once", 0, 1000, 84},
		{"a minute", idleAfter, 1000, 84},
		{"an hour", hour, 510, 44},
		{"two hours", 2 * hour, 265, 24},
		{"a year", 365 * 24 * hour, 20, 4},
		{"the clock was set back", -hour, 1000, 84},
	} {
		l := storedFoundLimits(stored, 0)
		wall := 1 + tt.age
		l.bind(SearchBounds{20, 5000, 4, 500}, second, wall)
		if rpm, slots := l.Found(second); rpm != tt.rpm || slots != tt.slots {
			t.Errorf("%s: %d a minute and %d in flight, want %d and %d", tt.name, rpm, slots, tt.rpm, tt.slots)
		}
		if due := l.isDue(second); due != (tt.age > idleAfter) {
			t.Errorf("%s: is due: %v", tt.name, due)
		}
		l.goOn(second)
		l.count(second, 1, 1, 0)
		if rpm, slots := l.Found(second); rpm != tt.rpm || slots != tt.slots {
			t.Errorf("%s, after a request: %d a minute and %d in flight, want %d and %d", tt.name, rpm, slots, tt.rpm, tt.slots)
		}
	}
}

func TestStoredIsKeptUntilAQuotaSearches(t *testing.T) {
	stored := state.Found{Rate: state.Search{Level: 5, Knee: 6}, At: 7, Told: true}
	l := storedFoundLimits(stored, 0)
	l.count(second, 1, 1, 0) // of a quota that does not search
	if l.goOn(second); l.Present(second, hour) != stored {
		t.Errorf("%+v, want %+v", l.Present(second, hour), stored)
	}
	if rpm, slots := l.Found(second); rpm|slots != 0 || l.opens() != 0 || l.mostSlots(1, second) != 0 {
		t.Errorf("limits %d and %d, opens at %d", rpm, slots, l.opens())
	}
}

func TestBindBringsWhatWasFoundIntoTheBounds(t *testing.T) {
	for _, tt := range []struct {
		b          SearchBounds
		rpm, slots int
	}{
		{SearchBounds{1, 100, 1, 5}, 100, 5},
		{SearchBounds{2000, 3000, 90, 99}, 2000, 90},
		{SearchBounds{1, 3000, 1, 99}, 1000, 84},
		{rates(1, 3000), 1000, 0},
	} {
		l := storedFoundLimits(state.Found{Rate: state.Search{Level: thousand}, Slots: state.Search{Level: 84_000}, At: 1}, 0)
		l.bind(SearchBounds{1, 5000, 1, 500}, 0, 1)
		l.bind(tt.b, 0, 1)
		if rpm, slots := l.Found(0); rpm != tt.rpm || slots != tt.slots {
			t.Errorf("%+v: %d a minute and %d in flight, want %d and %d", tt.b, rpm, slots, tt.rpm, tt.slots)
		}
	}
}

func TestToldEndsTheSearchForTheRate(t *testing.T) {
	l := newFoundLimits(rates(10, 1000), 0, 0)
	l.count(second, 1, 1, 0)
	l.Tell(true)
	if rpm, _ := l.Found(second); rpm != 0 || l.opens() != 0 {
		t.Errorf("%d a minute, opens at %d", rpm, l.opens())
	}
	l.Tell(false)
	if rpm, _ := l.Found(second); rpm != 20 || l.opens() == 0 {
		t.Errorf("%d a minute, opens at %d", rpm, l.opens())
	}
}

// Nothing that is counted, however much, overflows.
func TestFoundAtExtremes(t *testing.T) {
	for _, b := range []SearchBounds{rates(1, 1), rates(1_000_000_000, 1_000_000_000), {1, 1, 1, 1_000_000}} {
		l := newFoundLimits(b, math.MinInt64, 0)
		for _, at := range []int64{0, second, math.MaxInt64 / 4, 1} {
			l.isDue(at)
			l.goOn(at)
			l.count(at, math.MaxInt, math.MaxInt, math.MaxInt)
			if opens := l.opens(); opens > at+2*farthestBatch && at > 1 || opens < 0 {
				t.Errorf("%+v: at %d opens at %d", b, at, opens)
			}
			l.opensAtBest(math.MaxInt)
			l.Refuse(ProviderRefusal{Took: math.MaxInt64}, at)
			l.Refuse(ProviderRefusal{Overload: true, Took: math.MaxInt64}, at)
			l.ended(at)
			l.uncount(at)
			l.bind(b, at, at)
		}
	}
}

func TestNilFoundSearchesForNothing(t *testing.T) {
	var l *FoundLimits
	if rpm, slots := l.Found(1); rpm|slots != 0 || l.opens() != 0 || l.opensAtBest(1) != 0 {
		t.Error("nil limits limit something")
	}
}

func TestFoundLimitsDoNotAllocate(t *testing.T) {
	l, at := newFoundLimits(SearchBounds{10, 1000, 4, 100}, 0, 0), int64(0)
	if n := testing.AllocsPerRun(100, func() {
		at = max(at+second, l.opens())
		if l.isDue(at) {
			l.goOn(at)
		}
		l.count(at, 1, l.mostSlots(1, second), 0)
		l.ended(at)
		l.Refuse(ProviderRefusal{Overload: true}, at)
		l.Found(at)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Requests of a process that was out of reach are told when it is back: they keep nobody waiting.
func TestRequestsThatAreToldLate(t *testing.T) {
	l := newFoundLimits(rates(60, 60), 0, 0)
	l.count(hour, 1, 1, 0)
	for _, tt := range []struct {
		late, adds int64
	}{
		{0, second}, {second, second}, {2 * second, second}, {2*second + 1, 0}, {30 * second, 0},
	} {
		c := *l
		c.count(hour-tt.late, 1, 1, 0)
		if got := c.opens() - l.opens(); got != tt.adds {
			t.Errorf("one of %v before adds %v, want %v", time.Duration(tt.late), time.Duration(got), time.Duration(tt.adds))
		}
	}
}
