// The bounds of the limits that are found, and what was found, as it is stored.

package state_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Each row is complete, and the bounds are the fields of Quota before the limits of spend.
func TestAdaptiveIsTheTableOfFieldsOfQuota(t *testing.T) {
	quota := reflect.TypeFor[state.Quota]()
	first := quota.NumField() - len(state.Budgets) - len(state.Adaptive)
	for i, f := range state.Adaptive {
		if name := quota.Field(first + i).Name; name != f.Field {
			t.Errorf("row %d is %s, the field of Quota %s", i, f.Field, name)
		}
		named := f.Field + " (" + f.Key + ")"
		for _, reason := range []string{f.Negative, f.TooLarge} {
			if !strings.HasPrefix(reason, "invalid quota: "+named) {
				t.Errorf("row %s has the reason %q", f.Field, reason)
			}
		}
		if floor := i%2 == 0; floor != strings.Contains(f.Crossed, named) {
			t.Errorf("row %s has the reason %q", f.Field, f.Crossed)
		}
		var q state.Quota
		*f.Of(&q) = 7
		if got := reflect.ValueOf(q).Field(first + i).Int(); got != 7 {
			t.Errorf("Of of %s is another field", f.Field)
		}
		if found, ok := state.AdaptiveOf(f.Key); !ok || found.Field != f.Field {
			t.Errorf("AdaptiveOf(%q) = %v, %v", f.Key, found, ok)
		}
		if q.IsUnlimited() || !(q.AdaptsRate() != q.AdaptsSlots()) || q.AdaptsRate() != strings.HasSuffix(f.Key, "_rpm") {
			t.Errorf("%s: unlimited %t, rate %t, slots %t", f.Field, q.IsUnlimited(), q.AdaptsRate(), q.AdaptsSlots())
		}
	}
	if f, ok := state.AdaptiveOf("max_rpm"); ok {
		t.Errorf("max_rpm is %v", f)
	}
}

// What is out of range is refused in the same words by Validate, with the value, and by Invalid.
func TestAdaptiveOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		quota          state.Quota
		valid, invalid string // "" for none
	}{
		{state.Quota{AdaptiveFloorRPM: 1_000_000_000}, "", ""},
		{state.Quota{AdaptiveCeilingRPM: 1}, "", ""},
		{state.Quota{AdaptiveFloorRPM: 5, AdaptiveCeilingRPM: 5, AdaptiveFloorInFlight: 1_000_000}, "", ""},
		{state.Quota{AdaptiveFloorRPM: -1}, "AdaptiveFloorRPM (adaptive_floor_rpm) is -1, want 0 to 1000000000",
			"AdaptiveFloorRPM (adaptive_floor_rpm) is negative"},
		{state.Quota{AdaptiveCeilingRPM: 1_000_000_001}, "AdaptiveCeilingRPM (adaptive_ceiling_rpm) is 1000000001, want 0 to 1000000000",
			"AdaptiveCeilingRPM (adaptive_ceiling_rpm) is above 1000000000"},
		{state.Quota{AdaptiveFloorRPM: 6, AdaptiveCeilingRPM: 5}, "AdaptiveFloorRPM (adaptive_floor_rpm) is 6, want at most the ceiling, 5",
			"AdaptiveFloorRPM (adaptive_floor_rpm) is above AdaptiveCeilingRPM (adaptive_ceiling_rpm)"},
		{state.Quota{AdaptiveFloorInFlight: 1_000_001}, "AdaptiveFloorInFlight (adaptive_floor_in_flight) is 1000001, want 0 to 1000000",
			"AdaptiveFloorInFlight (adaptive_floor_in_flight) is above 1000000"},
		{state.Quota{AdaptiveCeilingInFlight: -5, AdaptiveFloorInFlight: 9}, "AdaptiveCeilingInFlight (adaptive_ceiling_in_flight) is -5, want 0 to 1000000",
			"AdaptiveCeilingInFlight (adaptive_ceiling_in_flight) is negative"},
		{state.Quota{AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 1}, "AdaptiveFloorInFlight (adaptive_floor_in_flight) is 2, want at most the ceiling, 1",
			"AdaptiveFloorInFlight (adaptive_floor_in_flight) is above AdaptiveCeilingInFlight (adaptive_ceiling_in_flight)"},
	} {
		err := tt.quota.Validate("m")
		if tt.valid == "" && err != nil || tt.valid != "" && (!errors.Is(err, state.ErrInvalidQuota) || err.Error() != `invalid quota: model "m": `+tt.valid) {
			t.Errorf("%+v: %v, want %s", tt.quota, err, tt.valid)
		}
		reason, bad := tt.quota.Invalid()
		if want := "invalid quota: " + tt.invalid; bad != (tt.invalid != "") || bad && reason != want {
			t.Errorf("%+v: %q, %t, want %s", tt.quota, reason, bad, want)
		}
	}
}

func TestAdaptiveBounds(t *testing.T) {
	for _, tt := range []struct {
		quota       state.Quota
		rate, slots [2]int
	}{
		{state.Quota{AdaptiveFloorRPM: 7, AdaptiveFloorInFlight: 8}, [2]int{7, 1_000_000}, [2]int{8, 10_000}},
		{state.Quota{AdaptiveCeilingRPM: 7, AdaptiveCeilingInFlight: 8}, [2]int{1, 7}, [2]int{1, 8}},
		{state.Quota{AdaptiveFloorRPM: 2_000_000, AdaptiveFloorInFlight: 20_000}, [2]int{2_000_000, 2_000_000}, [2]int{20_000, 20_000}},
		{state.Quota{AdaptiveFloorRPM: 2, AdaptiveCeilingRPM: 3, AdaptiveFloorInFlight: 4, AdaptiveCeilingInFlight: 5}, [2]int{2, 3}, [2]int{4, 5}},
	} {
		var rate, slots [2]int
		rate[0], rate[1] = tt.quota.RateBounds()
		slots[0], slots[1] = tt.quota.SlotBounds()
		if rate != tt.rate || slots != tt.slots {
			t.Errorf("%+v: %v and %v, want %v and %v", tt.quota, rate, slots, tt.rate, tt.slots)
		}
	}
}

// Both bounds of a limit that is found come from one quota.
func TestAdaptiveOver(t *testing.T) {
	below := state.Quota{AdaptiveFloorRPM: 5, AdaptiveCeilingRPM: 6, AdaptiveCeilingInFlight: 7}
	for _, tt := range []struct{ q, want state.Quota }{
		{state.Quota{}, state.Quota{}},
		{state.Quota{MaxRPM: 1}, state.Quota{MaxRPM: 1, AdaptiveFloorRPM: 5, AdaptiveCeilingRPM: 6, AdaptiveCeilingInFlight: 7}},
		{state.Quota{AdaptiveFloorRPM: 9}, state.Quota{AdaptiveFloorRPM: 9, AdaptiveCeilingInFlight: 7}},
		{state.Quota{AdaptiveCeilingRPM: 9}, state.Quota{AdaptiveCeilingRPM: 9, AdaptiveCeilingInFlight: 7}},
		{state.Quota{AdaptiveFloorInFlight: 9}, state.Quota{AdaptiveFloorRPM: 5, AdaptiveCeilingRPM: 6, AdaptiveFloorInFlight: 9}},
	} {
		if got := tt.q.Over(&below); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.q, got, tt.want)
		}
	}
}

// The text of a quota without bounds is the one of all versions.
func TestAdaptiveInSaid(t *testing.T) {
	said := state.SaidBy(state.Account, state.Quota{MaxRPM: 1})
	if text := said.Text(); strings.Contains(text, "Adaptive") {
		t.Errorf("%s", text)
	}
	said = state.SaidBy(state.Account, state.Quota{AdaptiveFloorRPM: 2, AdaptiveCeilingInFlight: 3})
	if again, err := state.ParseSaid(said.Text()); err != nil || again != said {
		t.Errorf("%s, %v, want %s", again.Text(), err, said.Text())
	}
	for text, want := range map[string]string{
		`{"account":{"AdaptiveFloorRPM":-1}}`:                       "account: invalid quota: AdaptiveFloorRPM (adaptive_floor_rpm) is negative",
		`{"account":{"AdaptiveFloorRPM":2,"AdaptiveCeilingRPM":1}}`: "is above AdaptiveCeilingRPM",
		`{"account":{"MaxRPM":1,"MinRPM":2}}`:                       `unknown field "MinRPM"`,
	} {
		if said, err := state.ParseSaid(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %s", text, said.Text(), err, want)
		}
	}
}

var someFound = state.Found{
	Rate:  state.Search{Level: state.MostLevel, Knee: 2, Step: 3, Raised: 4, Streak: 5, Lowered: 6},
	Slots: state.Search{Level: 7, Knee: 8, Step: 9, Raised: 10, Streak: state.MostStreak, Lowered: state.MostLowered},
	At:    1_700_000_000_000_000_000, Told: true,
}

func TestFoundText(t *testing.T) {
	for text, found := range map[string]state.Found{
		`{"at":0}`: {},
		`{"rate":{"level":1152921504606846976,"knee":2,"step":3,"raised":4,"streak":5,"lowered":6},` +
			`"slots":{"level":7,"knee":8,"step":9,"raised":10,"streak":2147483647,"lowered":2305843009213693952},` +
			`"at":1700000000000000000,"told":true}`: someFound,
		`{"slots":{"level":1},"at":-5}`: {Slots: state.Search{Level: 1}, At: -5},
	} {
		if got := state.FoundText(found); got != text {
			t.Errorf("%s, want %s", got, text)
		}
		if got, err := state.ParseFound(text); err != nil || got != found {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "EOF", "[]": "array", `{"at":1.5}`: "1.5", `{"at":99999999999999999999}`: "99999999999999999999",
		`{"at":1} {}`: "more than one value", `{"at":1}x`: "more than one value",
		`{"at":1,"until":2}`: `unknown field "until"`, `{"rate":{"level":1,"slope":2}}`: `unknown field "slope"`,
		`{"at":1,"anew":4}`: "anew is 4, want 0 to 3", `{"rate":{"level":-1}}`: "rate_level is -1, want 0 to", `{"slots":{"streak":2147483648}}`: "slots_streak is 2147483648, want 0 to 2147483647",
		`{"slots":{"level":2305843009213693952}}`: "slots_level is 2305843009213693952, want 0 to",
	} {
		if got, err := state.ParseFound(text); err == nil || !strings.Contains(err.Error(), want) || got != (state.Found{}) {
			t.Errorf("%q: %+v, %v, want %s", text, got, err, want)
		}
	}
}

// The fields of a file are those of the type.
func TestFoundFieldsAreAllFields(t *testing.T) {
	var f state.Found
	for i, field := range state.FoundFields {
		*field.Of(&f) = int64(i + 1)
	}
	want := state.Found{
		Rate:  state.Search{Level: 1, Knee: 2, Step: 3, Raised: 4, Streak: 5, Lowered: 6},
		Slots: state.Search{Level: 7, Knee: 8, Step: 9, Raised: 10, Streak: 11, Lowered: 12}, At: 13,
	}
	if f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	if n := 2*reflect.TypeFor[state.Search]().NumField() + 1; n != len(state.FoundFields) || reflect.TypeFor[state.Found]().NumField() != 5 { // with At, Told and Anew
		t.Errorf("%d fields, want %d", len(state.FoundFields), n)
	}
}

func TestFoundAge(t *testing.T) {
	for _, tt := range []struct {
		at, now int64
		want    time.Duration
	}{
		{5, 5, 0}, {5, 4, 0}, {5, 7, 2}, {-5, 5, 10}, {math.MinInt64, math.MaxInt64, math.MaxInt64}, {math.MaxInt64, math.MinInt64, 0},
	} {
		if got := (&state.Found{At: tt.at}).Age(tt.now); got != tt.want {
			t.Errorf("at %d, of %d: %v, want %v", tt.now, tt.at, got, tt.want)
		}
	}
}

func FuzzParseFound(f *testing.F) {
	f.Add(state.FoundText(someFound))
	f.Add(`{"at":1,"rate":{"level":-1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		found, err := state.ParseFound(text)
		if err != nil {
			if found != (state.Found{}) {
				t.Errorf("%q: %+v beside %v", text, found, err)
			}
			return
		}
		if again, err := state.ParseFound(state.FoundText(found)); err != nil || again != found {
			t.Errorf("%q: %+v, then %+v, %v", text, found, again, err)
		}
	})
}
