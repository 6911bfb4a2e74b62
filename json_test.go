// JSON: quotas, decisions and stats, and stats as a value; and the layout of the types that the
// root shows in place of internal ones.

package ratelimit_test

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/money"
)

var (
	jsonQuota = ratelimit.ModelQuota{
		MaxRPM: 1, MaxTPM: 2, MaxRPD: 3, MaxITPM: 4, MaxOTPM: 5, MaxTPD: 6, MaxInFlight: 7, DayZone: "Asia/Tokyo", Burst: 10 * time.Second,
		AdaptiveFloorRPM: 8, AdaptiveCeilingRPM: 9, AdaptiveFloorInFlight: 10, AdaptiveCeilingInFlight: 11,
		MaxSpendPerDay: 1250 * money.Cent, MaxSpendPerMonth: 13 * money.Micro, MaxSpendPerTenMinutes: 15 * money.Dollar, MaxTokensPerMonth: 14,
	}
	jsonStats = ratelimit.ModelStats{
		RPM: 1, MaxRPM: 2, TPM: 3, MaxTPM: 4, RPD: 5, MaxRPD: 6, DayStart: time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC),
		ITPM: 7, MaxITPM: 8, OTPM: 9, MaxOTPM: 10, TPD: 11, MaxTPD: 12, InFlight: 13, MaxInFlight: 14, Waiting: 15,
		CooldownUntil: time.Date(2026, 2, 20, 14, 30, 0, 500, time.UTC),
		ExternalRPM:   16, ExternalTPM: 17, ExternalITPM: 18, ExternalOTPM: 19, ExternalRPD: 20, ExternalTPD: 21,
		AdaptiveRPM: 22, AdaptiveInFlight: 23,
		SpendDay: 24 * money.Dollar, MaxSpendPerDay: 25 * money.Dollar, SpendMonth: 26 * money.Cent, MaxSpendPerMonth: 27 * money.Dollar,
		SpendTenMinutes: 30 * money.Cent, MaxSpendPerTenMinutes: 31 * money.Dollar, TokensMonth: 28, MaxTokensPerMonth: 29,
	}
	jsonDecision = ratelimit.Decision{
		Allowed: true, Code: "c", Reason: "r", RetryAfter: 1500 * time.Millisecond, Stats: jsonStats, Never: true, Model: "m", Cause: "caller", OverBudget: true, Pool: "p",
	}
)

// Each value is written as it stands here, and read back as it was.
func TestJSON(t *testing.T) {
	const stats = `{"rpm":1,"max_rpm":2,"tpm":3,"max_tpm":4,"rpd":5,"max_rpd":6,"day_start":"2026-02-20T00:00:00Z",` +
		`"itpm":7,"max_itpm":8,"otpm":9,"max_otpm":10,"tpd":11,"max_tpd":12,"in_flight":13,"max_in_flight":14,"waiting":15,` +
		`"cooldown_until":"2026-02-20T14:30:00.0000005Z",` +
		`"external_rpm":16,"external_tpm":17,"external_itpm":18,"external_otpm":19,"external_rpd":20,"external_tpd":21,"adaptive_rpm":22,"adaptive_in_flight":23,` +
		`"spend_day":"$24.00","max_spend_per_day":"$25.00","spend_month":"$0.26","max_spend_per_month":"$27.00",` +
		`"spend_ten_minutes":"$0.30","max_spend_per_ten_minutes":"$31.00","tokens_month":28,"max_tokens_per_month":29}`
	for _, tt := range []struct {
		value any
		want  string
	}{
		{ratelimit.ModelQuota{}, `{}`},
		{ratelimit.ModelQuota{MaxRPM: 60, Burst: 10 * time.Second}, `{"max_rpm":60,"burst":"10s"}`},
		{ratelimit.ModelQuota{MaxRPM: -1, Burst: -time.Second}, `{"max_rpm":-1,"burst":"-1s"}`},
		{jsonQuota, `{"max_rpm":1,"max_tpm":2,"max_rpd":3,"max_itpm":4,"max_otpm":5,"max_tpd":6,"max_in_flight":7,"day_zone":"Asia/Tokyo",` +
			`"adaptive_floor_rpm":8,"adaptive_ceiling_rpm":9,"adaptive_floor_in_flight":10,"adaptive_ceiling_in_flight":11,` +
			`"max_spend_per_day":"$12.50","max_spend_per_month":"$0.000013","max_spend_per_ten_minutes":"$15.00","max_tokens_per_month":14,"burst":"10s"}`},
		{map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1}}, `{"m":{"max_tpm":1}}`},
		{ratelimit.ModelStats{}, `{"rpm":0,"tpm":0,"rpd":0}`},
		{jsonStats, stats},
		{ratelimit.Decision{}, `{"allowed":false,"code":"","reason":"","stats":{"rpm":0,"tpm":0,"rpd":0}}`},
		{jsonDecision, `{"allowed":true,"code":"c","reason":"r","stats":` + stats + `,"never":true,"model":"m","cause":"caller","over_budget":true,"pool":"p","retry_after":"1.5s"}`},
	} {
		if got := jsonOf(t, tt.value); got != tt.want {
			t.Errorf("wrote %s\nwant  %s", got, tt.want)
		}
		again := reflect.New(reflect.TypeOf(tt.value))
		if err := json.Unmarshal([]byte(tt.want), again.Interface()); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		} else if got := again.Elem().Interface(); !reflect.DeepEqual(got, tt.value) {
			t.Errorf("read %+v\nwant %+v", got, tt.value)
		}
	}
}

// No field is forgotten: each of the samples above has all fields, and each field a key of its own.
func TestJSONHasEveryField(t *testing.T) {
	for _, sample := range []any{jsonQuota, jsonStats, jsonDecision} {
		v, keys := reflect.ValueOf(sample), make(map[string]bool)
		for i := range v.NumField() {
			field := v.Type().Field(i)
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if v.Field(i).IsZero() || key == "" || keys[key] || !strings.Contains(jsonOf(t, sample), `"`+key+`":`) {
				t.Errorf("%s.%s: key %q, value %v", v.Type(), field.Name, key, v.Field(i))
			}
			if yaml, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); yaml != "" && yaml != key {
				t.Errorf("%s.%s is %q in JSON and %q in YAML", v.Type(), field.Name, key, yaml)
			}
			keys[key] = true
		}
	}
}

func TestJSONReads(t *testing.T) {
	is := ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 2, Burst: time.Second}
	for _, tt := range []struct {
		text string
		want ratelimit.ModelQuota
		err  string
	}{
		{`{}`, is, ""},
		{`null`, is, ""},
		{`{"max_rpm":5}`, ratelimit.ModelQuota{MaxRPM: 5, MaxTPM: 2, Burst: time.Second}, ""},
		{`{"burst":"1m30s"}`, ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 2, Burst: 90 * time.Second}, ""},
		{`{"burst":"0s","max_tpm":0}`, ratelimit.ModelQuota{MaxRPM: 1}, ""},
		{`{"burst":""}`, ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 2}, ""},
		{`{"burst":null}`, is, ""},
		{`{"unknown":[1]}`, is, ""},
		{`{"max_rpm":5,"burst":"10"}`, is, `decode quota: burst: "10" is not a duration with its unit`},
		{`{"max_rpm":5,"burst":10}`, is, "burst"},
		{`{"max_rpm":5,"max_tpm":"many"}`, is, "max_tpm"},
		{`{"max_rpm":1.5}`, is, "max_rpm"},
		{`[]`, is, "decode quota: "},
	} {
		q := is
		err := json.Unmarshal([]byte(tt.text), &q)
		if q != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", tt.text, q, err, tt.want, tt.err)
		}
	}
	d := jsonDecision
	for text, want := range map[string]string{
		`{"retry_after":1}`:                       "retry_after",
		`{"retry_after":"soon","allowed":false}`:  `decode decision: retry_after: "soon"`,
		`{"allowed":"no"}`:                        "allowed",
		`{"allowed":false,"stats":{"rpm":"one"}}`: "rpm",
	} {
		if err := json.Unmarshal([]byte(text), &d); err == nil || !strings.Contains(err.Error(), want) || d != jsonDecision {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}

// What can be read is written so that the same is read again.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `{"max_rpm":60,"burst":"10s"}`, `{"burst":"1h1m1.000000001s","day_zone":"UTC"}`, `{"burst":10}`, `{"burst":"-9223372036854775808ns"}`,
		`{"max_tpd":9223372036854775807,"Burst":"µs"}`, `{"allowed":true,"code":"ok","retry_after":"1.5s","stats":{"rpm":1,"day_start":"2026-02-20T00:00:00+01:00"}}`,
		`{"retry_after":".5m","cause":"caller","never":true,"stats":null}`, `{"burst":"1s","BURST":"2s","bursT":3}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		jsonAgain[ratelimit.ModelQuota](t, text)
		jsonAgain[ratelimit.Decision](t, text)
	})
}

func jsonAgain[T any](t *testing.T, text string) {
	t.Helper()
	var first, again T
	if json.Unmarshal([]byte(text), &first) != nil {
		if !reflect.ValueOf(first).IsZero() {
			t.Errorf("%q is refused, and leaves %+v", text, first)
		}
		return
	}
	written := jsonOf(t, first)
	if err := json.Unmarshal([]byte(written), &again); err != nil {
		t.Fatalf("%q: wrote %s: %v", text, written, err)
	}
	if rewritten := jsonOf(t, again); rewritten != written {
		t.Errorf("%q: wrote %s, and then %s", text, written, rewritten)
	}
}

func TestModelStatsCompareEqualAfterPersistAndLoad(t *testing.T) {
	for _, backend := range backends {
		for _, zone := range []string{"", "UTC", "America/New_York"} {
			t.Run(backend+" "+zone, func(t *testing.T) {
				cfg := ratelimit.Config{
					Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"),
					Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPD: 9, DayZone: zone}},
				}
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiterWith(t, cfg)
					defer rl.Close()
					time.Sleep(1234567891 * time.Nanosecond)
					rl.RecordUsage("m", 3, 4)
					rl.Cooldown("m", time.Now().Add(time.Hour))
					before := rl.Stats("m")
					if before.DayStart.IsZero() || before.CooldownUntil.IsZero() {
						t.Fatalf("stats are %+v", before)
					}
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
					other := newLimiterWith(t, cfg)
					defer other.Close()
					for name, limiter := range map[string]*ratelimit.RateLimiter{"the same": rl, "another": other} {
						if err := limiter.Load(); err != nil {
							t.Fatal(err)
						}
						if after := limiter.Stats("m"); after != before {
							t.Errorf("%s: stats are\n%#v after Load, before\n%#v", name, after, before)
						}
					}
				})
			})
		}
	}
}

func TestModelStatsDayStartOfAnUnusedDayIsZero(t *testing.T) {
	for _, zone := range []string{"", "America/New_York"} {
		for name, use := range map[string]func(rl *ratelimit.RateLimiter){
			"never used": func(*ratelimit.RateLimiter) {},
			"cancelled": func(rl *ratelimit.RateLimiter) {
				r, _ := rl.Reserve("m", 1, 1)
				r.Cancel()
			},
			"nothing since midnight": func(rl *ratelimit.RateLimiter) {
				time.Sleep(24*time.Hour - 10*time.Second) // the bubble begins at midnight, UTC
				rl.RecordUsage("m", 1, 1)
				time.Sleep(20 * time.Second)
			},
		} {
			t.Run(zone+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if zone != "" {
						time.Sleep(5 * time.Hour) // midnight in New York
					}
					rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 5, DayZone: zone})
					use(rl)
					s := rl.Stats("m")
					if s.DayStart.IsZero() != (s.RPD == 0 && s.TPD == 0) {
						t.Errorf("the day of %d requests began at %v", s.RPD, s.DayStart)
					}
					if d := rl.Decide("m", 1); d.Stats.DayStart != s.DayStart {
						t.Errorf("Decide says that the day began at %v", d.Stats.DayStart)
					}
				})
			})
		}
	}
}

func TestLayout(t *testing.T) {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[ratelimit.UsageStats](), reflect.TypeFor[account.Usage]()},
		{reflect.TypeFor[ratelimit.PoolState](), reflect.TypeFor[verdict.Pool]()},
		{reflect.TypeFor[ratelimit.Waiter](), reflect.TypeFor[verdict.Waiter]()},
	} {
		shown, is := layoutOf(pair[0], "", 0), layoutOf(pair[1], "", 0)
		for i := range max(len(shown), len(is)) {
			if i >= len(shown) || i >= len(is) || shown[i] != is[i] {
				t.Errorf("%v has the fields %v\n%v has %v", pair[0], shown, pair[1], is)
				break
			}
		}
	}
}

// shownAs has the fields that have other names in the root.
var shownAs = map[string]string{"Owner": "account", "Name": "Pool"}

// layout is a field in memory, or a type that one points to.
type layout struct {
	name   string
	offset uintptr
	kind   reflect.Kind
}

// layoutOf returns all fields of a type, and of those that it holds.
func layoutOf(of reflect.Type, name string, offset uintptr) (fields []layout) {
	switch {
	case of.Kind() == reflect.Struct && of.PkgPath() != "time":
		for i := range of.NumField() {
			f := of.Field(i)
			fields = append(fields, layoutOf(f.Type, cmp.Or(shownAs[f.Name], f.Name), offset+f.Offset)...)
		}
		if name != "" { // embedded
			return fields
		}
		name, offset = "the end", offset+of.Size()
	case of.Kind() == reflect.Slice:
		fields = layoutOf(of.Elem(), "", 0)
	case of.Kind() == reflect.Pointer && of != reflect.TypeFor[*account.Account]():
		fields = layoutOf(of.Elem(), "", 0)
	}
	return append(fields, layout{name, offset, of.Kind()})
}
