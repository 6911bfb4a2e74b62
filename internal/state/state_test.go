// The table of the limits, quotas that are refused, days as databases store them.

package state_test

import (
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Is looks at each field.
func TestIsComparesAllFieldsOfQuota(t *testing.T) {
	fields := reflect.TypeFor[state.Quota]()
	for i := range fields.NumField() {
		var q, other state.Quota
		if field := reflect.ValueOf(&q).Elem().Field(i); field.Kind() == reflect.String {
			field.SetString("UTC")
		} else {
			field.SetInt(7)
		}
		if same := q; !q.Is(&same) || q.Is(&other) || other.Is(&q) {
			t.Errorf("field %s", fields.Field(i).Name)
		}
	}
}

// Each row of the table is complete, in the order of the fields of Quota, and no key, code or
// field stands in two rows.
func TestLimitsIsTheTableOfTheFieldsOfQuota(t *testing.T) {
	quota := reflect.TypeFor[state.Quota]()
	seen := make(map[string]bool)
	for of, limit := range state.Limits {
		if quota.Field(of).Name != limit.Field {
			t.Errorf("row %d is %s, the field of Quota %s", of, limit.Field, quota.Field(of).Name)
		}
		for _, name := range []string{limit.Field, limit.Key, limit.Code} {
			if name == "" || seen[name] {
				t.Errorf("row %s has %q, which is empty or in another row", limit.Field, name)
			}
			seen[name] = true
		}
		if limit.UsedUp == "" || limit.TooLarge == "" || !strings.Contains(limit.Invalid, limit.Field+" ("+limit.Key+")") {
			t.Errorf("row %s lacks a reason: %+v", limit.Field, limit)
		}
		if (limit.External != "") != (limit.Window != state.Settled) || (limit.Pace != "") != (limit.Window == state.Minute) {
			t.Errorf("row %s has a reason too many or too few: %+v", limit.Field, limit)
		}
		var q state.Quota
		*q.Limit(state.Dimension(of)) = 7
		if got := reflect.ValueOf(q).Field(of).Int(); got != 7 {
			t.Errorf("Limit(%s) is another field", limit.Field)
		}
		if found, ok := state.DimensionOf(limit.Key); !ok || found != state.Dimension(of) {
			t.Errorf("DimensionOf(%q) = %v, %v", limit.Key, found, ok)
		}
	}
	if _, ok := state.DimensionOf("day_zone"); ok {
		t.Error("day_zone is no limit")
	}
}

func TestValidateNamesFieldAndValue(t *testing.T) {
	for _, tt := range []struct {
		quota state.Quota
		want  string // "" for none
	}{
		{state.Quota{}, ""},
		{state.Quota{MaxRPM: math.MaxInt, MaxInFlight: 1, DayZone: "America/Los_Angeles", Burst: time.Second}, ""},
		{state.Quota{MaxITPM: -3}, `invalid quota: model "m": MaxITPM (max_itpm) is -3, want 0 or more`},
		{state.Quota{MaxTPD: -1, MaxTPM: -2}, `invalid quota: model "m": MaxTPM (max_tpm) is -2, want 0 or more`},
		{state.Quota{Burst: -time.Second}, `invalid quota: model "m": Burst (burst) is -1s, want 0 or more`},
		{state.Quota{DayZone: "Mars/Base"}, `invalid quota: model "m": DayZone (day_zone): `},
	} {
		err := tt.quota.Validate("m")
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want) || !errors.Is(err, state.ErrInvalidQuota)) {
			t.Errorf("%+v: %v, want %s", tt.quota, err, tt.want)
		}
	}
}

func TestInvalid(t *testing.T) {
	for quota, want := range map[state.Quota]string{
		{MaxRPM: 1, DayZone: "Mars/Base"}:               "",
		{MaxInFlight: -1}:                               "invalid quota: MaxInFlight (max_in_flight) is negative",
		{MaxTPM: 5, MaxTPD: -1, MaxITPM: -2, Burst: -3}: "invalid quota: MaxITPM (max_itpm) is negative",
		{Burst: -1}: "invalid quota: Burst (burst) is negative",
	} {
		if reason, bad := quota.Invalid(); reason != want || bad != (want != "") {
			t.Errorf("%+v: %q, %v, want %q", quota, reason, bad, want)
		}
	}
}

func TestDayUsage(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := state.DayUsage{Start: start.UnixNano(), Count: 2, Tokens: 10}
	hours := func(n int) int64 { return start.Add(time.Duration(n) * time.Hour).UnixNano() }
	for _, tt := range []struct {
		name string
		zone *time.Location
		at   int64
		want bool
	}{
		{"24 hours last", nil, hours(24) - 1, true},
		{"and end", nil, hours(24), false},
		{"a zone's day lasts until midnight", time.UTC, hours(12) - 1, true},
		{"and ends there", time.UTC, hours(12), false},
	} {
		if got := day.CurrentIn(tt.zone, tt.at); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if (state.DayUsage{Start: day.Start}).CurrentIn(nil, hours(1)) {
		t.Error("a day without anything is current")
	}
	if got := day.Plus(-5, 7); got.Count != 0 || got.Tokens != 17 {
		t.Errorf("Plus: %+v", got)
	}
	if got := day.Plus(math.MaxInt64, 0); got.Count != math.MaxInt64 {
		t.Errorf("Plus does not saturate: %+v", got)
	}
	other := day
	if other.Generation++; !day.Same(other) {
		t.Error("the generation tells days apart")
	}
}

// The text of a corrupt file is short and valid, whatever the file holds.
func TestCorrupt(t *testing.T) {
	err := state.Corrupt(strings.Repeat("p", 5000), errors.Join(io.EOF, errors.New(strings.Repeat("\xff", 5000))))
	if !errors.Is(err, state.ErrCorrupt) || !errors.Is(err, io.EOF) || len(err.Error()) > 1024 {
		t.Errorf("%d bytes: %v", len(err.Error()), err)
	}
}
