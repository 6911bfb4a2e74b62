package yamlfile

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// everyField is a snapshot with every field set, in one of its models.
func everyField(now time.Time) *state.Snapshot {
	at := now.Add(-time.Second).Round(0)
	return &state.Snapshot{
		Quotas: map[string]state.Quota{
			"full": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3, MaxITPM: 4, MaxOTPM: 5, MaxTPD: 6, MaxInFlight: 7, DayZone: "America/Los_Angeles", Burst: 90 * time.Second,
				AdaptiveFloorRPM: 8, AdaptiveCeilingRPM: 9, AdaptiveFloorInFlight: 10, AdaptiveCeilingInFlight: 11},
			"old": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3},
			"odd": {DayZone: "Etc/GMT+5"},
		},
		Usage: map[string]*state.Usage{
			"full": {
				Requests: []time.Time{at, at},
				Tokens:   []state.Token{{Time: at, Count: 100, Input: 70}, {Time: at, Count: 5}, {Time: at, Count: 8, Input: 8}},
				DayStart: at, DayCount: 2, DayTokens: 113,
			},
			"old":     {Requests: []time.Time{at}, Tokens: []state.Token{{Time: at, Count: 1}}, DayStart: at, DayCount: 1},
			"largest": {Tokens: []state.Token{{Time: at, Count: math.MaxInt, Input: math.MaxInt}}, DayStart: at, DayCount: 1, DayTokens: math.MaxInt},
		},
		Cooldowns: map[string]state.Cooldown{
			"full":     {Until: now.Add(time.Hour).Round(0), Cause: "daily_quota"},
			"not used": {Until: now.Add(time.Minute + 1).Round(0)},
		},
		Answers: map[string]state.Answers{
			"full":    {Count: 40, Prompts: 39, Correction: 1234, Deviation: 56, Peak: 5, LastPeak: 6, Generation: 8, Errors: state.Row{7, 0, 99}},
			"nothing": {},
		},
		Found: map[string]state.Found{
			"full": {
				Rate:  state.Search{Level: state.MostLevel, Knee: 2, Step: 3, Raised: 4, Streak: 5, Lowered: 6},
				Slots: state.Search{Level: 7, Knee: 8, Step: 9, Raised: 10, Streak: 11, Lowered: 12}, At: -13, Told: true,
			},
			"nothing": {},
			"some":    {Rate: state.Search{Level: 1}, At: math.MaxInt64},
		},
	}
}

func TestYAMLWritesEveryField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now() // midnight of 2000-01-01
		s := everyField(now)
		delete(s.Usage, "largest")
		const want = firstLine + "\n" + `quotas:
    full:
        max_rpm: 1
        max_tpm: 2
        max_rpd: 3
        max_itpm: 4
        max_otpm: 5
        max_tpd: 6
        max_in_flight: 7
        day_zone: America/Los_Angeles
        burst: 1m30s
        adaptive_floor_rpm: 8
        adaptive_ceiling_rpm: 9
        adaptive_floor_in_flight: 10
        adaptive_ceiling_in_flight: 11
    odd:
        max_rpm: 0
        max_tpm: 0
        max_rpd: 0
        day_zone: Etc/GMT+5
    old:
        max_rpm: 1
        max_tpm: 2
        max_rpd: 3
state:
    full:
        requests:
            - 1999-12-31T23:59:59Z
            - 1999-12-31T23:59:59Z
        tokens:
            - time: 1999-12-31T23:59:59Z
              count: 100
              input: 70
            - time: 1999-12-31T23:59:59Z
              count: 5
            - time: 1999-12-31T23:59:59Z
              count: 8
              input: 8
        day_start: 1999-12-31T23:59:59Z
        day_count: 2
        day_tokens: 113
    old:
        requests:
            - 1999-12-31T23:59:59Z
        tokens:
            - time: 1999-12-31T23:59:59Z
              count: 1
        day_start: 1999-12-31T23:59:59Z
        day_count: 1
cooldowns:
    full:
        until: 2000-01-01T01:00:00Z
        cause: daily_quota
    not used:
        until: 2000-01-01T00:01:00.000000001Z
answers:
    full:
        count: 40
        prompts: 39
        correction: 1234
        deviation: 56
        peak: 5
        last_peak: 6
        generation: 8
        errors: 7 0 99
    nothing:
        count: 0
        prompts: 0
        correction: 0
        deviation: 0
        peak: 0
        last_peak: 0
        generation: 0
found:
    full:
        rate_level: 1152921504606846976
        rate_knee: 2
        rate_step: 3
        rate_raised: 4
        rate_streak: 5
        rate_lowered: 6
        slots_level: 7
        slots_knee: 8
        slots_step: 9
        slots_raised: 10
        slots_streak: 11
        slots_lowered: 12
        at: -13
        told: 1
    nothing:
        at: 0
    some:
        rate_level: 1
        at: 9223372036854775807
` + lastLine + "\n"
		var file bytes.Buffer
		if err := EncodeState(&file, s, now); err != nil {
			t.Fatal(err)
		}
		if got := file.String(); got != strings.Replace(want, "not used", `"not used"`, 1) {
			t.Errorf("wrote\n%s", got)
		}
	})
}

// Both readers read every field, in the layout of Persist and in others.
func TestYAMLReadsEveryField(t *testing.T) {
	s := everyField(time.Now())
	var file bytes.Buffer
	if err := EncodeState(&file, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	scanned, err := scan(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := differs(s, scanned); diff != "" {
		t.Errorf("scan: %s", diff)
	}
	layouts := map[string]string{
		"ours":        file.String(),
		"in quotes":   strings.ReplaceAll(file.String(), "America/Los_Angeles", "'America/Los_Angeles'"),
		"with spaces": strings.ReplaceAll(file.String(), "\n", " \n"),
	}
	for name, text := range layouts {
		parsed, err := parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := differs(s, parsed); diff != "" {
			t.Errorf("%s: parse: %s", name, diff)
		}
	}
}

// A program may have filled State by hand. What Load would refuse is not
// written.
func TestYAMLWritesWhatItReads(t *testing.T) {
	now := time.Now()
	s := state.NewSnapshot()
	s.Usage["m"] = &state.Usage{
		Tokens:    []state.Token{{Time: now, Count: 5, Input: 7}, {Time: now, Count: 5, Input: -7}, {Time: now, Count: -5, Input: 7}, {Time: now, Count: -5, Input: -7}},
		DayTokens: -1,
	}
	var file bytes.Buffer
	if err := EncodeState(&file, s, now); err != nil {
		t.Fatal(err)
	}
	got, err := scan(&file)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{5, 0, 0, 0} {
		if input := got.Usage["m"].Tokens[i].Input; input != want {
			t.Errorf("entry %d has %d input tokens, want %d", i, input, want)
		}
	}
	if got.Usage["m"].DayTokens != 0 {
		t.Errorf("tokens of the day: %d", got.Usage["m"].DayTokens)
	}
}

// What sets nothing new is written as before there was anything new.
func TestYAMLWithoutCooldownsIsAsBefore(t *testing.T) {
	s := state.NewSnapshot()
	s.Quotas["m"] = state.Quota{MaxRPM: 1}
	var file bytes.Buffer
	if err := EncodeState(&file, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	if want := firstLine + "\nquotas:\n    m:\n        max_rpm: 1\n        max_tpm: 0\n        max_rpd: 0\nstate: {}\n" + lastLine + "\n"; file.String() != want {
		t.Errorf("wrote\n%s", file.String())
	}
}
