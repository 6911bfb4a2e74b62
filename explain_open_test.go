// Explain: the provider, the line, the open calls, the last refusal.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// The line is in its order, with the age of each waiter and what it asks of the model.
func TestExplainLine(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		rl := p.open(t, ratelimit.Config{
			Aliases: map[string]string{"fast": "m"}, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 2}, "other": {MaxRPM: 5}},
		})
		held, _ := rl.ReserveAll(ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "m"})
		ctx, cancel := context.WithCancel(context.Background())
		acquire := func(reqs ...ratelimit.Request) {
			go rl.AcquireAll(ctx, reqs...)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		acquire(ratelimit.Request{Model: "fast", PromptTokens: 90_000, OutputTokens: 800})
		acquire(ratelimit.Request{Model: "m", PromptTokens: 1}, ratelimit.Request{Model: "other", PromptTokens: 50}, ratelimit.Request{Model: "m", OutputTokens: 2})
		for range 16 {
			acquire(ratelimit.Request{Model: "m", PromptTokens: 3})
		}
		e := explained(rl, "m")
		want := []ratelimit.Waiter{
			{Waited: 18 * time.Second, PromptTokens: 90_000, OutputTokens: 800}, {Waited: 17 * time.Second, PromptTokens: 1, OutputTokens: 2},
		}
		for i := range 14 {
			want = append(want, ratelimit.Waiter{Waited: time.Duration(16-i) * time.Second, PromptTokens: 3})
		}
		if e.Waiting != 18 || !reflect.DeepEqual(e.Line, want) {
			t.Errorf("%d wait, the first of them are %+v\nwant %+v", e.Waiting, e.Line, want)
		}
		if want := "in line: 18 callers, for 18s, 17s, 16s, 15s, 14s, …; the first asks for 90000 input tokens and 800 output tokens"; !strings.Contains(e.String(), want) {
			t.Errorf("%s\nlacks %s", e, want)
		}
		if e := rl.Explain("other"); len(e.Line) != 1 || e.Line[0] != (ratelimit.Waiter{Waited: 17 * time.Second, PromptTokens: 50}) {
			t.Errorf("for the other model wait %+v", e.Line)
		}
		cancel()
		synctest.Wait()
		held.Cancel()
		if e := rl.Explain("m"); e.Line != nil {
			t.Errorf("nobody waits, and the line is %+v", e.Line)
		}
	})
}

// A waiter keeps its age when the quotas change the name under which it waits.
func TestExplainLineAfterARename(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"m-0613": {MaxInFlight: 1}, "x": {}}})
		defer rl.Close()
		rl.SetQuota("m", ratelimit.ModelQuota{MaxInFlight: 1})
		rl.Reserve("m", 1, 1)
		rl.Reserve("m-0613", 1, 1)
		go rl.Acquire(context.Background(), "m-0613", 1, 1)
		synctest.Wait()
		time.Sleep(7 * time.Second)
		rl.RemoveQuota("m-0613")
		time.Sleep(time.Second)
		if e := rl.Explain("m"); len(e.Line) != 1 || e.Line[0].Waited != 8*time.Second {
			t.Errorf("%+v", e.Line)
		}
	})
}

// The age of the oldest open call, and how many are older than a minute, whatever else is called.
func TestExplainOldestOpen(t *testing.T) {
	for _, busy := range []bool{false, true} {
		onKinds(t, func(t *testing.T, p *place) {
			rl := p.open(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1_000_000}}})
			var leaked []*ratelimit.Reservation
			for range 3 {
				r, _ := rl.Reserve("m", 1, 1)
				leaked = append(leaked, r)
			}
			for second := range 150 {
				e := rl.Explain("m")
				age, least := time.Duration(second)*time.Second, time.Duration(second-5)*time.Second
				if age > time.Minute {
					least = min(least, time.Minute)
				}
				over := e.OpenOverMinute == 3
				if e.OldestOpen > age || e.OldestOpen < least || over != (second > 65) && (second < 60 || second > 65) || !over && e.OpenOverMinute != 0 {
					t.Fatalf("busy %t: after %v the oldest is %v old, and %d are old", busy, age, e.OldestOpen, e.OpenOverMinute)
				}
				if busy {
					r, _ := rl.Reserve("m", 5, 5)
					time.Sleep(time.Second)
					r.Commit(4, 4)
				} else {
					time.Sleep(time.Second)
				}
			}
			if e := rl.Explain("m"); !strings.Contains(e.String(), "; 3 calls are open for more than a minute") {
				t.Errorf("%s", e)
			}
			leaked[0].Commit(1, 1)
			leaked[1].Cancel()
			if e := rl.Explain("m"); e.OpenOverMinute != 1 || !strings.Contains(e.String(), "; 1 call is open for more than a minute") {
				t.Errorf("%s", e)
			}
			leaked[2].Commit(1, 1)
			if e := rl.Explain("m"); e.OldestOpen != 0 || e.OpenOverMinute != 0 || strings.Contains(e.String(), "oldest") {
				t.Errorf("busy %t: no call is open: %s", busy, e)
			}
		})
	}
}

// Calls that are open over a Reset or a day have lost their charge, and are open still.
func TestExplainOldestOpenAfterReset(t *testing.T) {
	for name, lose := range map[string]func(*ratelimit.RateLimiter){
		"Reset":     func(rl *ratelimit.RateLimiter) { rl.Reset("m") },
		"Reset all": func(rl *ratelimit.RateLimiter) { rl.Reset("") },
		"a day":     func(*ratelimit.RateLimiter) { time.Sleep(25 * time.Hour) },
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}})
			defer rl.Close()
			time.Sleep(time.Second)
			r, _ := rl.Reserve("m", 1, 1)
			time.Sleep(10 * time.Second)
			lose(rl)
			rl.Stats("m")
			time.Sleep(50 * time.Second)
			if e := rl.Explain("m"); e.OpenOverMinute != 0 && name != "a day" || e.OldestOpen < 50*time.Second {
				t.Errorf("soon after %s: %d are old, the oldest %v", name, e.OpenOverMinute, e.OldestOpen)
			}
			time.Sleep(70 * time.Second)
			young, _ := rl.Reserve("m", 1, 1)
			if e := rl.Explain("m"); e.InFlight != 2 || e.OpenOverMinute != 1 || e.OldestOpen < 2*time.Minute-5*time.Second {
				t.Errorf("after %s: %d open, %d of them old, the oldest %v", name, e.InFlight, e.OpenOverMinute, e.OldestOpen)
			}
			r.Commit(1, 1)
			young.Commit(1, 1)
			if e := rl.Explain("m"); e.InFlight != 0 || e.OpenOverMinute != 0 || e.OldestOpen != 0 {
				t.Errorf("after %s and their end: %+v", name, e)
			}
		})
	}
}

// What of the usage is of open calls, and may be given back.
func TestExplainOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100, MaxTPM: 1000, MaxITPM: 1000, MaxOTPM: 1000, MaxRPD: 100, MaxTPD: 10_000, MaxInFlight: 10}}})
		defer rl.Close()
		open := func() map[string][2]int {
			limits := make(map[string][2]int)
			for _, l := range rl.Explain("m").Limits {
				limits[strings.TrimPrefix(l.Limit, "max_")] = [2]int{l.Used, l.Open}
			}
			return limits
		}
		rl.RecordUsage("m", 100, 10)
		r, _ := rl.Reserve("m", 20, 3)
		want := map[string][2]int{
			"rpm": {2, 1}, "tpm": {133, 23}, "itpm": {120, 20}, "otpm": {13, 3}, "rpd": {2, 1}, "tpd": {133, 23}, "in_flight": {1, 1},
		}
		if got := open(); !reflect.DeepEqual(got, want) {
			t.Errorf("used and open are %v, want %v", got, want)
		}
		time.Sleep(2 * time.Minute)
		want = map[string][2]int{
			"rpm": {0, 0}, "tpm": {0, 0}, "itpm": {0, 0}, "otpm": {0, 0}, "rpd": {2, 1}, "tpd": {133, 23}, "in_flight": {1, 1},
		}
		if got := open(); !reflect.DeepEqual(got, want) {
			t.Errorf("after the minute they are %v, want %v", got, want)
		}
		r.Commit(20, 3)
		for limit, is := range open() {
			if is[1] != 0 {
				t.Errorf("no call is open, but of %s %v", limit, is)
			}
		}
	})
}

// Each row: a call that is refused, and what is told of it then.
func TestExplainLastRefusal(t *testing.T) {
	short := func() context.Context {
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(time.Second))
		_ = cancel
		return ctx
	}
	for _, tt := range []struct {
		name  string
		call  func(rl *ratelimit.RateLimiter)
		code  ratelimit.DecisionCode
		after time.Duration
	}{
		{"Reserve", func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1, 1) }, ratelimit.DecisionRPMLimit, time.Minute - 10*time.Second + 1},
		{"ReserveAll", func(rl *ratelimit.RateLimiter) {
			rl.ReserveAll(ratelimit.Request{Model: "x"}, ratelimit.Request{Model: "m", PromptTokens: 1})
		}, ratelimit.DecisionRPMLimit, time.Minute - 10*time.Second + 1},
		{"ReserveContext", func(rl *ratelimit.RateLimiter) {
			rl.ReserveContext(context.Background(), ratelimit.Request{Model: "m", PromptTokens: 1})
		}, ratelimit.DecisionRPMLimit, time.Minute - 10*time.Second + 1},
		{"never", func(rl *ratelimit.RateLimiter) { rl.Acquire(context.Background(), "m", 200, 1) }, ratelimit.DecisionRPMLimit, 0},
		{"too late", func(rl *ratelimit.RateLimiter) { rl.Acquire(short(), "m", 1, 1) }, ratelimit.DecisionRPMLimit, time.Minute - 10*time.Second + 1},
		{"a check", func(rl *ratelimit.RateLimiter) { rl.Decide("m", 1); rl.CanSend("m", 1); rl.Stats("m") }, "", 0},
		{"a wait that is served", func(rl *ratelimit.RateLimiter) { rl.Acquire(context.Background(), "m", 1, 1) }, "", 0},
	} {
		onKinds(t, func(t *testing.T, p *place) {
			rl := p.open(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1, MaxTPM: 100}, "x": {MaxRPM: 5}}})
			rl.RecordUsage("m", 1, 1)
			time.Sleep(10 * time.Second)
			at := time.Now()
			tt.call(rl)
			time.Sleep(3 * time.Second)
			e := rl.Explain("m")
			if tt.code == "" {
				if e.LastRefusal != nil {
					t.Errorf("%s: refused was %+v", tt.name, e.LastRefusal)
				}
				return
			}
			r := e.LastRefusal
			if r == nil {
				t.Fatalf("%s: nothing was refused", tt.name)
			}
			if !r.At.Equal(at) || r.Code != tt.code || r.Reason == "" || r.RetryAfter != tt.after {
				t.Errorf("%s: refused was %+v", tt.name, r)
			}
			if want := "last refusal: 3s ago, rpm_exceeded: "; !strings.Contains(e.String(), want) {
				t.Errorf("%s: %s\nlacks %s", tt.name, e, want)
			}
			if rl.Explain("x").LastRefusal != nil {
				t.Errorf("%s: of another model, too", tt.name)
			}
			if rl.Reset("m"); rl.Explain("m").LastRefusal != nil {
				t.Errorf("%s: it outlives the usage", tt.name)
			}
		})
	}
}

// What was refused before a Reset is forgotten, also where a call goes on.
func TestExplainLastRefusalAfterReset(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}})
	defer rl.Close()
	r, _ := rl.Reserve("m", 1, 1)
	rl.Reserve("m", 1, 1)
	before := rl.Explain("m").LastRefusal
	rl.Reset("m")
	if after := rl.Explain("m").LastRefusal; before == nil || after != nil {
		t.Errorf("before Reset %+v, after it %+v", before, after)
	}
	r.Commit(1, 1)
}

// A limiter knows since when the callers of another process wait, and that they have left.
func TestExplainLineOfOthers(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		one, other := p.pair(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}})
		held, _ := one.Reserve("m", 1, 1)
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go other.Acquire(ctx, "m", 7, 8)
		synctest.Wait()
		time.Sleep(9 * time.Second)
		for _, rl := range []*ratelimit.RateLimiter{one, other} {
			if line := rl.Explain("m").Line; !reflect.DeepEqual(line, []ratelimit.Waiter{{Waited: 9 * time.Second, PromptTokens: 7, OutputTokens: 8}}) {
				t.Errorf("in line are %+v", line)
			}
		}
		cancel()
		synctest.Wait()
		time.Sleep(time.Second)
		if e := one.Explain("m"); len(e.Line) != 0 {
			t.Errorf("the one that left is in line: %+v", e.Line)
		}
		held.Cancel()
		reserve(t, one, "m", 1, 1).Cancel()
	})
}

// A model of which everything was refused has no entry in State, and yet its last refusal is told.
func TestExplainLastRefusalNeedsNoState(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxTPM: 10}}})
	defer rl.Close()
	for i := range 100 {
		model := fmt.Sprint("m", i)
		if r, _ := rl.Reserve(model, 11, 0); r != nil || rl.Explain(model).LastRefusal == nil || len(rl.State) > 0 {
			t.Fatalf("%v, %+v", r, rl.Explain(model))
		}
	}
}

// The provider of a model, by what is loaded and by what is known of the name.
func TestExplainProvider(t *testing.T) {
	type providers = []ratelimit.Provider
	for _, tt := range []struct {
		loaded providers
		model  string
		want   ratelimit.Provider
	}{
		{providers{"openai"}, "gpt-4o", "openai"},
		{providers{"openai"}, "gpt-6-luna-2026-10-08", "openai"}, // by a pattern
		{providers{"openai"}, "claude-opus-5", "anthropic"},      // not loaded, but known
		{providers{"gemini"}, "models/gemini-2.5-pro", "gemini"},
		{providers{"groq", "cerebras"}, "openai/gpt-oss-120b", "groq"},
		{providers{"cerebras"}, "gpt-oss-120b", "cerebras"},
		{providers{"openrouter"}, "openai/gpt-oss-120b:free", "openrouter"},
		{providers{"azure"}, "our-deployment", "azure"}, // whose profile names none
		{providers{"azure"}, "gpt-4o", "azure"},
		{providers{"azure", "openai"}, "our-deployment", ""},
		{nil, "gpt-4o", "openai"},
		{nil, "gpt-4o-2024-08-06", "openai"},
		{nil, "bedrock/anthropic.claude-opus-5", "bedrock"},
		{nil, "openai/gpt-4o", "openai"},
		{nil, "vendor/model", ""},
		{nil, "own", ""},
		{nil, "", ""},
	} {
		rl := newLimiterWith(t, ratelimit.Config{Providers: tt.loaded, Quotas: map[string]ratelimit.ModelQuota{"own": {MaxRPM: 1}}})
		for range 2 {
			if got := rl.Explain(tt.model).Provider; got != tt.want {
				t.Errorf("with %q, %q is of %q, want %q", tt.loaded, tt.model, got, tt.want)
			}
			rl.RecordUsage(tt.model, 1, 1)
		}
		rl.Close()
	}
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"our-deployment": {MaxRPM: 1}}})
	defer rl.Close()
	before := rl.Explain("our-deployment").Provider
	rl.AddProvider("azure")
	if after := rl.Explain("our-deployment").Provider; before != "" || after != "azure" {
		t.Errorf("before AddProvider it is of %q, after it of %q", before, after)
	}
}

// The day on which a quota was read is told as long as that quota holds.
func TestExplainProfileReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)))
		profile := ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI]
		same := profile.Models["gpt-4-turbo"]
		rl := newLimiterWith(t, ratelimit.Config{Providers: []ratelimit.Provider{"openai"}, Quotas: map[string]ratelimit.ModelQuota{"gpt-4-turbo": same, "own": {MaxRPM: 1}}})
		defer rl.Close()
		e := explained(rl, "gpt-4o")
		if want := profile.Sources["gpt-4o"].ReadOn; e.ProfileReadOn.IsZero() || !e.ProfileReadOn.Equal(want) {
			t.Errorf("read on %v, want %v", e.ProfileReadOn, want)
		}
		days := int(time.Since(e.ProfileReadOn) / (24 * time.Hour))
		if want := fmt.Sprintf("quota: its own, of the profile of openai, read on %s, %d days ago", e.ProfileReadOn.Format(time.DateOnly), days); !strings.Contains(e.String(), want) {
			t.Errorf("%s\nlacks %s", e, want)
		}
		for _, model := range []string{"gpt-4-turbo", "own", "none"} {
			if e := rl.Explain(model); !e.ProfileReadOn.IsZero() {
				t.Errorf("%s, whose quota is of no profile, was read on %v", model, e.ProfileReadOn)
			}
		}
		rl.SetQuota("gpt-4o", ratelimit.ModelQuota{MaxRPM: 1})
		if e := rl.Explain("gpt-4o"); !e.ProfileReadOn.IsZero() || e.Provider != "openai" {
			t.Errorf("with a quota of the program: %s", e)
		}
		rl.RemoveQuota("gpt-4o")
		if rl.Explain("gpt-4o").ProfileReadOn.IsZero() {
			t.Error("the quota of the profile is back, but not its day")
		}
	})
}

// JSON has all of it, with durations as texts, and leaves out what is not there.
func TestExplainJSONOfOpenCalls(t *testing.T) {
	e := ratelimit.Explanation{
		Model: "m", Counted: "m", Provider: "openai", ProfileReadOn: time.Date(2026, 2, 14, 0, 0, 0, 0, time.UTC),
		Line: []ratelimit.Waiter{{Waited: 1500 * time.Millisecond, PromptTokens: 5, OutputTokens: 6}, {}}, OldestOpen: 42 * time.Second, OpenOverMinute: 3,
		LastRefusal: &ratelimit.Refused{At: time.Date(2026, 2, 20, 3, 14, 15, 0, time.UTC), Code: "rpm_exceeded", Reason: "full", RetryAfter: time.Second},
		Limits:      []ratelimit.LimitState{{Limit: "max_rpm", Max: 5, Used: 4, Open: 3}},
	}
	text := jsonOf(t, e)
	for _, want := range []string{
		`"provider":"openai","profile_read_on":"2026-02-14T00:00:00Z"`, `"line":[{"prompt_tokens":5,"output_tokens":6,"waited":"1.5s"},{"prompt_tokens":0,"output_tokens":0}]`,
		`"oldest_open":"42s"`, `"open_over_minute":3`, `"last_refusal":{"at":"2026-02-20T03:14:15Z","code":"rpm_exceeded","reason":"full","retry_after":"1s"}`, `"open":3`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
	var again ratelimit.Explanation
	if err := json.Unmarshal([]byte(text), &again); err != nil || !reflect.DeepEqual(again, e) {
		t.Errorf("%v: got %+v, want %+v", err, again, e)
	}
	for _, bad := range []string{`{"oldest_open":"5 parsecs"}`, `{"oldest_open":5}`, `{"line":[{"waited":5}]}`, `{"last_refusal":{"retry_after":5}}`} {
		is := e
		if err := json.Unmarshal([]byte(bad), &is); err == nil || !strings.HasPrefix(err.Error(), "decode ") {
			t.Errorf("%s is read with %v", bad, err)
		}
	}
	if empty := jsonOf(t, ratelimit.Explanation{}); strings.Contains(empty, "oldest") || strings.Contains(empty, "line") || strings.Contains(empty, "refusal") || strings.Contains(empty, "read_on") {
		t.Error(empty)
	}
}
