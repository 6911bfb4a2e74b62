// What origins said of quotas: its text, and quotas over others.

package state_test

import (
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

func TestSaidText(t *testing.T) {
	var said state.Said
	if !said.IsEmpty() || said.Text() != "{}" {
		t.Errorf("nothing is %s", said.Text())
	}
	said.Set(state.Account, state.Quota{MaxRPM: 1, DayZone: "UTC", Burst: time.Second})
	said.Set(state.Learned, state.Quota{MaxTPM: 2})
	again, err := state.ParseSaid(said.Text())
	if err != nil || again != said {
		t.Errorf("%s, %v, want %s", again.Text(), err, said.Text())
	}
	if q, ok := again.Get(state.Learned); !ok || q.MaxTPM != 2 || again.Has(state.Program) {
		t.Errorf("%+v, %t", q, ok)
	}
	if said.Drop(state.Learned); said == again || said != again.Only(state.Account, state.File) {
		t.Errorf("without what was learned: %s", said.Text())
	}
	if later, err := state.ParseSaid(`{"account":{"MaxRPM":1},"oracle":{"MaxRPM":2}}`); err != nil || later != state.SaidBy(state.Account, state.Quota{MaxRPM: 1}) {
		t.Errorf("with an origin of a later version: %s, %v", later.Text(), err)
	}
	for text, want := range map[string]string{
		"": "unexpected end", "[]": "array", `{"account":{"MaxRPM":-1}}`: "account: invalid quota: MaxRPM (max_rpm) is negative", `{"account":1}`: "number",
	} {
		if _, err := state.ParseSaid(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	bad := state.SaidBy(state.File, state.Quota{DayZone: "Mars/Base"})
	if err := bad.Validate("m"); err == nil {
		t.Error("an unknown zone is valid")
	}
}

// A quota over another: the limits that it leaves open are the other's.
func TestQuotaOver(t *testing.T) {
	below := state.Quota{MaxRPM: 9, MaxRPD: 8, MaxInFlight: 7, DayZone: "UTC", Burst: 6}
	for _, tt := range []struct{ q, want state.Quota }{
		{state.Quota{}, state.Quota{}},
		{state.Quota{DayZone: "Asia/Tokyo"}, state.Quota{DayZone: "Asia/Tokyo"}},
		{state.Quota{MaxRPM: 1}, state.Quota{MaxRPM: 1, MaxRPD: 8, MaxInFlight: 7, DayZone: "UTC"}},
		{state.Quota{MaxTPD: 1}, state.Quota{MaxRPM: 9, MaxRPD: 8, MaxTPD: 1, MaxInFlight: 7, Burst: 6}},
		{state.Quota{MaxInFlight: 1, Burst: 2, DayZone: "Asia/Tokyo"}, state.Quota{MaxRPM: 9, MaxRPD: 8, MaxInFlight: 1, DayZone: "Asia/Tokyo", Burst: 2}},
		{state.Quota{MaxRPM: -1}, state.Quota{MaxRPM: -1, MaxRPD: 8, MaxInFlight: 7, DayZone: "UTC"}},
	} {
		if got := tt.q.Over(&below); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.q, got, tt.want)
		}
	}
}
