package sharedlog

import (
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The texts are stored: what an older or newer program wrote is to be read.
func TestTexts(t *testing.T) {
	requests := []Request{{Model: "a", PromptTokens: 1, OutputTokens: 2}, {Model: "\"b\n"}}
	for name, texts := range map[string][2]string{
		"requests":    {RequestsText(requests), `[{"Model":"a","PromptTokens":1,"OutputTokens":2},{"Model":"\"b\n","PromptTokens":0,"OutputTokens":0}]`},
		"no requests": {RequestsText(nil), "null"},
		"numbers":     {NumbersText([]int64{1, -5, 1 << 62}), "[1,-5,4611686018427387904]"},
		"no numbers":  {NumbersText(nil), "null"},
	} {
		if texts[0] != texts[1] {
			t.Errorf("%s: %s, want %s", name, texts[0], texts[1])
		}
	}
	if got, err := ParseRequests(RequestsText(requests)); err != nil || !slices.Equal(got, requests) {
		t.Errorf("requests: %+v, %v", got, err)
	}
	if got, err := ParseNumbers("[1,-5,4611686018427387904]"); err != nil || !slices.Equal(got, []int64{1, -5, 1 << 62}) {
		t.Errorf("numbers: %v, %v", got, err)
	}
	for _, q := range []state.Quota{
		{MaxRPM: 5, DayZone: "Europe/Berlin", Burst: 7},
		{AdaptiveFloorRPM: 1, AdaptiveCeilingRPM: 2, AdaptiveFloorInFlight: 3, AdaptiveCeilingInFlight: 4},
	} {
		if got, err := ParseQuota(QuotaText(q)); err != nil || got != q {
			t.Errorf("quota: %+v, %v, want %+v", got, err, q)
		}
	}
}

func TestTextsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "x", "{}", `[{"Model":1}]`, "[1.5]", `["a"]`, "[99999999999999999999]"} {
		if requests, err := ParseRequests(text); err == nil {
			t.Errorf("%q: requests %+v", text, requests)
		}
		if numbers, err := ParseNumbers(text); err == nil {
			t.Errorf("%q: numbers %v", text, numbers)
		}
	}
	for _, text := range []string{
		"", "x", "[]", `{"MaxRPM":-1}`, `{"Burst":-1}`, `{"MaxRPM":"a"}`, `{"MaxRPM":1}{}`, `{"MaxRPM":1,"MinRPM":2}`,
		`{"AdaptiveFloorRPM":-1}`, `{"AdaptiveFloorRPM":2,"AdaptiveCeilingRPM":1}`,
	} {
		if q, err := ParseQuota(text); err == nil || q != (state.Quota{}) {
			t.Errorf("%q: quota %+v, %v", text, q, err)
		}
	}
}

// A Saying is stored; this version takes the quotas of one that does not know origins for those of
// the program.
func TestSayings(t *testing.T) {
	program, account := state.Quota{MaxRPM: 1}, state.Quota{MaxTPM: 2}
	both := state.Quota{MaxRPM: 1, MaxTPM: 2}
	var said state.Said
	said.Set(state.Account, account)
	for _, tt := range []struct {
		saying Saying
		text   string
		after  state.Said
	}{
		{Saying{Holds: program, Is: program}, QuotaText(program), func() (s state.Said) { s.Set(state.Account, account); s.Set(state.Program, program); return s }()},
		{Saying{Holds: both, Is: program}, QuotaText(both)[:len(QuotaText(both))-1] + `,"Origin":"program","Is":` + QuotaText(program) + "}",
			func() (s state.Said) { s.Set(state.Account, account); s.Set(state.Program, program); return s }()},
		{Saying{Holds: both, Origin: state.Account, Is: account}, QuotaText(both)[:len(QuotaText(both))-1] + `,"Origin":"account","Is":` + QuotaText(account) + "}",
			said},
		{Saying{Holds: program, Origin: state.Account, Gone: true}, QuotaText(program)[:len(QuotaText(program))-1] + `,"Origin":"account"}`, state.Said{}},
	} {
		if got := tt.saying.Text(); got != tt.text {
			t.Errorf("%s, want %s", got, tt.text)
		}
		got, err := ParseSaying(tt.text)
		if err != nil || got != tt.saying {
			t.Errorf("%+v, %v, want %+v", got, err, tt.saying)
		}
		if after := got.After(said); after != tt.after {
			t.Errorf("after it %s, want %s", after.Text(), tt.after.Text())
		}
	}
	for _, text := range []string{
		"", "{", `{"MaxRPM":-1}`, `{"Origin":"file"}`, `{"Origin":"nobody"}`, `{"Origin":5}`,
		`{"Origin":"account","Is":{"MaxRPM":-1}}`, `{"Origin":"account","Is":5}`,
		`{"MaxRPM":1,"MinRPM":2}`, `{"Origin":"account","Is":{"MaxRPM":1,"MinRPM":2}}`, `{"MaxRPM":1}{}`, `{"AdaptiveFloorInFlight":-1}`,
	} {
		if got, err := ParseSaying(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
