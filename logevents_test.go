// LogEvents and LogValue: what the limiter does, in the records of log/slog, and its storms.

package ratelimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// logOf returns a logger that writes JSON without times, and what it has written.
func logOf(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &b
}

// Each row: an event, and the record of it.
func TestLogEvents(t *testing.T) {
	until := time.Date(2026, 2, 20, 3, 14, 15, 0, time.UTC)
	for _, tt := range []struct {
		e    ratelimit.Event
		want string
	}{
		{ratelimit.Event{
			Kind: ratelimit.EventQueued, ID: 7, Model: "gpt-4o", Requested: "fast", Provider: "openai",
			Estimated: ratelimit.Usage{PromptTokens: 5, OutputTokens: 6},
			Decision:  &ratelimit.Decision{Code: ratelimit.DecisionTPMLimit, Reason: "tokens per minute are used up", RetryAfter: time.Second, Stats: ratelimit.ModelStats{RPM: 1}},
		}, `{"level":"DEBUG","msg":"ratelimit: a call stands in line","event":"queued","call":7,"model":"gpt-4o","requested":"fast","provider":"openai","code":"tpm_exceeded","reason":"tokens per minute are used up","retry_after":1000000000,"estimated":{"prompt_tokens":5,"output_tokens":6}}`},
		{ratelimit.Event{Kind: ratelimit.EventAdmitted, ID: 7, Model: "m", Requested: "m", Estimated: ratelimit.Usage{PromptTokens: 5}, Wait: time.Second},
			`{"level":"DEBUG","msg":"ratelimit: a call was admitted","event":"admitted","call":7,"model":"m","estimated":{"prompt_tokens":5,"output_tokens":0},"wait":1000000000}`},
		{ratelimit.Event{Kind: ratelimit.EventPassed, ID: 7, Model: "m"}, `{"level":"DEBUG","msg":"ratelimit: a wait is over","event":"passed","call":7,"model":"m"}`},
		{ratelimit.Event{Kind: ratelimit.EventRefused, ID: 7, Model: "m", Decision: &ratelimit.Decision{Code: "cooldown", Never: true, Cause: "overloaded"}, Err: ratelimit.ErrQueueFull},
			`{"level":"WARN","msg":"ratelimit: a call was refused","event":"refused","call":7,"model":"m","code":"cooldown","never":true,"cause":"overloaded","error":"the queue is full"}`},
		{ratelimit.Event{Kind: ratelimit.EventSettled, ID: 7, Model: "m", Settled: ratelimit.Usage{OutputTokens: 2}, Held: time.Minute},
			`{"level":"DEBUG","msg":"ratelimit: a call was settled","event":"settled","call":7,"model":"m","settled":{"prompt_tokens":0,"output_tokens":2},"held":60000000000}`},
		{ratelimit.Event{Kind: ratelimit.EventReleased, ID: 7, Model: "m"}, `{"level":"DEBUG","msg":"ratelimit: a reservation was released","event":"released","call":7,"model":"m"}`},
		{ratelimit.Event{Kind: ratelimit.EventExpired, ID: 7, Model: "m"}, `{"level":"WARN","msg":"ratelimit: a reservation was never settled","event":"expired","call":7,"model":"m"}`},
		{ratelimit.Event{Kind: ratelimit.EventRecorded, Model: "m"}, `{"level":"DEBUG","msg":"ratelimit: usage was recorded","event":"recorded","model":"m"}`},
		{ratelimit.Event{Kind: ratelimit.EventCooldownBegan, Model: "m", Cause: ratelimit.CauseDailyQuota, Until: until},
			`{"level":"WARN","msg":"ratelimit: a cooldown began","event":"cooldown_began","model":"m","cause":"daily_quota","until":"2026-02-20T03:14:15Z"}`},
		{ratelimit.Event{Kind: ratelimit.EventCooldownEnded, Model: "m", Cause: "own"}, `{"level":"INFO","msg":"ratelimit: a cooldown ended","event":"cooldown_ended","model":"m","cause":"own"}`},
		{ratelimit.Event{Kind: ratelimit.EventQuotaChanged, Model: "m", By: "header", Quota: &ratelimit.ModelQuota{MaxRPM: 5, MaxTPD: 6, DayZone: "UTC", Burst: time.Second}},
			`{"level":"INFO","msg":"ratelimit: a quota changed","event":"quota_changed","model":"m","quota":{"max_rpm":5,"max_tpd":6,"day_zone":"UTC","burst":1000000000},"by":"header"}`},
		{ratelimit.Event{Kind: ratelimit.EventQuotaChanged, Model: "m", By: "program", Quota: &ratelimit.ModelQuota{}},
			`{"level":"INFO","msg":"ratelimit: a quota changed","event":"quota_changed","model":"m","quota":{"unlimited":true},"by":"program"}`},
		{ratelimit.Event{Kind: ratelimit.EventProviderRefused, Model: "m", Status: 429, Problem: "rate_limited", RetryAfter: time.Second},
			`{"level":"WARN","msg":"ratelimit: the provider refused a call","event":"provider_refused","model":"m","status":429,"problem":"rate_limited","retry_after":1000000000}`},
		{ratelimit.Event{Kind: ratelimit.EventUnknownModel, Model: "gtp", Nearest: "gpt"}, `{"level":"WARN","msg":"ratelimit: a model has no quota","event":"unknown_model","model":"gtp","nearest":"gpt"}`},
		{ratelimit.Event{Kind: ratelimit.EventUncounted, Model: "m", Requested: "m", Path: "/v1/p", Err: errors.New("why")}, `{"level":"WARN","msg":"ratelimit: nothing counts a call","event":"uncounted","model":"m","path":"/v1/p","error":"why"}`},
		{ratelimit.Event{Kind: ratelimit.EventEvicted, Model: "m"}, `{"level":"DEBUG","msg":"ratelimit: a model was forgotten","event":"evicted","model":"m"}`},
		{ratelimit.Event{Kind: ratelimit.EventStoreDown, System: "redis", Err: errors.New("append: connection refused")},
			`{"level":"ERROR","msg":"ratelimit: the store cannot be used","event":"store_down","system":"redis","error":"append: connection refused"}`},
		{ratelimit.Event{Kind: ratelimit.EventStoreUp, System: "redis"}, `{"level":"INFO","msg":"ratelimit: the store can be used again","event":"store_up","system":"redis"}`},
		{ratelimit.Event{Kind: ratelimit.EventSaved, System: "yaml", Operation: "save", Took: time.Millisecond},
			`{"level":"DEBUG","msg":"ratelimit: the state was saved","event":"saved","system":"yaml","operation":"save","took":1000000}`},
		{ratelimit.Event{Kind: ratelimit.EventSaved, System: "yaml", Operation: "save", Err: errors.New("disk full")},
			`{"level":"ERROR","msg":"ratelimit: the state could not be saved","event":"saved","system":"yaml","operation":"save","error":"disk full"}`},
		{ratelimit.Event{Kind: "later", Model: "m"}, `{"level":"DEBUG","msg":"ratelimit: an event","event":"later","model":"m"}`},
	} {
		logger, written := logOf(slog.LevelDebug)
		ratelimit.LogEvents(logger, ratelimit.LogOptions{}).HandleEvent(context.Background(), &tt.e)
		if got := strings.TrimSpace(written.String()); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.e.Kind, got, tt.want)
		}
	}
}

// A level of the options wins, also over that of a kind that is written otherwise.
func TestLogLevels(t *testing.T) {
	logger, written := logOf(slog.LevelInfo)
	levels := map[ratelimit.EventKind]slog.Level{
		ratelimit.EventAdmitted: slog.LevelError, ratelimit.EventRefused: slog.LevelDebug, ratelimit.EventStoreDown: slog.LevelWarn, "later": slog.LevelInfo,
	}
	h := ratelimit.LogEvents(logger, ratelimit.LogOptions{Levels: levels})
	clear(levels) // which is the caller's
	for _, e := range []ratelimit.Event{
		{Kind: ratelimit.EventAdmitted}, {Kind: ratelimit.EventRefused}, {Kind: ratelimit.EventStoreDown}, {Kind: "later"},
		{Kind: ratelimit.EventSaved, Err: errors.New("disk full")}, {Kind: ratelimit.EventSettled}, {Kind: ratelimit.EventStoreUp},
	} {
		h.HandleEvent(context.Background(), &e)
	}
	var got []string
	for line := range strings.Lines(written.String()) {
		var record struct{ Level, Event string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Level+" "+record.Event)
	}
	if want := []string{"ERROR admitted", "WARN store_down", "INFO later", "WARN saved", "INFO store_up"}; !reflect.DeepEqual(got, want) {
		t.Errorf("written are %q, want %q", got, want)
	}
}

// Of the refusals of a model and code the first is written and then one of so many, with the number
// of those between.
func TestLogSamplesDenials(t *testing.T) {
	refused := func(model string, code ratelimit.DecisionCode) *ratelimit.Event {
		return &ratelimit.Event{Kind: ratelimit.EventRefused, Model: model, Decision: &ratelimit.Decision{Code: code}}
	}
	for _, tt := range []struct{ every, want, leftOut int }{{0, 10, 9 * 99}, {1, 1000, 0}, {500, 2, 499}, {-1, 0, 0}} {
		logger, written := logOf(slog.LevelInfo)
		h := ratelimit.LogEvents(logger, ratelimit.LogOptions{DenialsEvery: tt.every})
		for range 1000 {
			h.HandleEvent(context.Background(), refused("m", ratelimit.DecisionRPMLimit))
		}
		lines, leftOut := 0, 0
		for line := range strings.Lines(written.String()) {
			var record struct {
				LeftOut int `json:"left_out"`
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			lines++
			leftOut += record.LeftOut
		}
		if lines != tt.want || leftOut != tt.leftOut {
			t.Errorf("every %d: %d records tell of %d more, want %d and %d", tt.every, lines, leftOut, tt.want, tt.leftOut)
		}
	}
	logger, written := logOf(slog.LevelInfo)
	h := ratelimit.LogEvents(logger, ratelimit.LogOptions{})
	for range 50 {
		h.HandleEvent(context.Background(), refused("m", ratelimit.DecisionRPMLimit))
		h.HandleEvent(context.Background(), refused("m", ratelimit.DecisionTPMLimit))
		h.HandleEvent(context.Background(), refused("other", ratelimit.DecisionRPMLimit))
		h.HandleEvent(context.Background(), &ratelimit.Event{Kind: ratelimit.EventRefused, Model: "m", Err: ratelimit.ErrClosed})
	}
	if got := strings.Count(written.String(), "\n"); got != 4 {
		t.Errorf("%d records, want the first of each model and code:\n%s", got, written)
	}
}

type secretError struct{ prompt string }

func (e *secretError) Error() string { return "the prompt was " + e.prompt }

// The cause of a caller's context is the caller's, and nobody knows what it says.
func TestLogHidesErrorsOfOthers(t *testing.T) {
	secret := &secretError{"my key is sk-123"}
	limited := &ratelimit.LimitError{Model: "m", Err: fmt.Errorf("%w: %w", secret, context.DeadlineExceeded)}
	for want, err := range map[string]error{
		`"error":"*ratelimit_test.secretError"`:      secret,
		`"error":"context deadline exceeded"`:        limited,
		`"error":"context canceled"`:                 context.Canceled,
		`"error":"limiter is closed"`:                fmt.Errorf("acquire: %w", ratelimit.ErrClosed),
		`"error":"request never fits its quota"`:     &ratelimit.LimitError{Decision: ratelimit.Decision{Never: true}},
		`"error":"invalid tokens"`:                   fmt.Errorf("%w: -1", ratelimit.ErrInvalidTokens),
		`"error":"maximum wait exceeded"`:            &ratelimit.LimitError{Err: ratelimit.ErrMaxWait},
		`"error":"*ratelimit.LimitError"`:            &ratelimit.LimitError{Err: secret},
		`"error":"*fmt.wrapError"`:                   fmt.Errorf("of the program: %w", secret),
		`"call":3,"error":"*errors.errorString"`:     errors.New("sk-123"),
		`"requested":"m","error":"*errors.joinError`: errors.Join(secret),
	} {
		e := &ratelimit.Event{Kind: ratelimit.EventRefused, Err: err}
		if strings.HasPrefix(want, `"call"`) {
			e.Kind, e.ID = "later", 3
		}
		if strings.HasPrefix(want, `"requested"`) {
			e.Requested = "m"
		}
		logger, written := logOf(slog.LevelDebug)
		ratelimit.LogEvents(logger, ratelimit.LogOptions{}).HandleEvent(context.Background(), e)
		if got := written.String(); !strings.Contains(got, want) || strings.Contains(got, "sk-123") {
			t.Errorf("%T is written as %s, want %s", err, got, want)
		}
	}
}

type loggedKey struct{}

// traceHandler adds what it finds in the context.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if trace, ok := ctx.Value(loggedKey{}).(string); ok {
		r.AddAttrs(slog.String("trace_id", trace))
	}
	return h.Handler.Handle(ctx, r)
}

// The logger gets the context of the call; without a logger it is the default one of the moment.
func TestLogEventsContextAndDefaultLogger(t *testing.T) {
	h := ratelimit.LogEvents(nil, ratelimit.LogOptions{})
	logger, written := logOf(slog.LevelDebug)
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(traceHandler{logger.Handler()}))
	h.HandleEvent(context.WithValue(context.Background(), loggedKey{}, "4bf9"), &ratelimit.Event{Kind: ratelimit.EventAdmitted, ID: 1, Model: "m"})
	if got := written.String(); !strings.Contains(got, `"trace_id":"4bf9"`) {
		t.Errorf("written is %q", got)
	}
}

// Events whose level is off cost nothing, and neither do refusals that are left out.
func TestLogEventsOffAllocatesNothing(t *testing.T) {
	refused := &ratelimit.Event{Kind: ratelimit.EventRefused, ID: 1, Model: "m", Decision: &ratelimit.Decision{Code: "x"}, Err: ratelimit.ErrClosed}
	for _, tt := range []struct {
		level  slog.Level
		events []*ratelimit.Event
	}{
		{slog.LevelError, []*ratelimit.Event{
			{Kind: ratelimit.EventAdmitted, ID: 1, Model: "m", Estimated: ratelimit.Usage{PromptTokens: 1}}, refused, {Kind: ratelimit.EventSaved, System: "yaml"},
		}},
		{slog.LevelInfo, []*ratelimit.Event{refused}},
	} {
		logger, written := logOf(tt.level)
		h := ratelimit.LogEvents(logger, ratelimit.LogOptions{DenialsEvery: 1 << 30})
		h.HandleEvent(context.Background(), refused) // is written where the level is on
		before := written.Len()
		if n := testing.AllocsPerRun(100, func() {
			for _, e := range tt.events {
				h.HandleEvent(context.Background(), e)
			}
		}); n != 0 || written.Len() > before {
			t.Errorf("%v: %v allocations, written is %q", tt.level, n, written)
		}
	}
}

func TestLogEventsConcurrently(t *testing.T) {
	logger, written := logOf(slog.LevelInfo)
	h := ratelimit.LogEvents(logger, ratelimit.LogOptions{DenialsEvery: 10})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				h.HandleEvent(context.Background(), &ratelimit.Event{Kind: ratelimit.EventRefused, Model: "m", Decision: &ratelimit.Decision{Code: "x"}})
			}
		})
	}
	all.Wait()
	if got := strings.Count(written.String(), "\n"); got != 40 {
		t.Errorf("%d records, want 40", got)
	}
}

// setFields sets every field of a struct to something that is not zero.
func setFields(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case int, int64, time.Duration, money.Amount:
			f.SetInt(int64(i + 1))
		case time.Time:
			f.Set(reflect.ValueOf(time.Unix(int64(i+1), 0).UTC()))
		case bool:
			f.SetBool(true)
		case ratelimit.ModelStats:
			setFields(f)
		default:
			f.SetString(fmt.Sprint("text ", i))
		}
	}
}

// A decision and stats have the keys of JSON, and nothing where they are zero.
func TestLogValueHasTheKeysOfJSON(t *testing.T) {
	var d ratelimit.Decision
	setFields(reflect.ValueOf(&d).Elem())
	var s ratelimit.ModelStats
	setFields(reflect.ValueOf(&s).Elem())
	for _, tt := range []struct {
		value any
		none  string
	}{{d, `{"allowed":false}`}, {s, ""}} {
		logger, written := logOf(slog.LevelInfo)
		logger.Info("", "x", tt.value)
		var record, fields map[string]any
		if err := json.Unmarshal(written.Bytes(), &record); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(jsonOf(t, tt.value)), &fields); err != nil {
			t.Fatal(err)
		}
		logged := record["x"].(map[string]any)
		if _, ok := fields["retry_after"]; ok {
			fields["retry_after"], logged["retry_after"] = 0, 0 // a text in JSON
		}
		if !reflect.DeepEqual(logged, fields) {
			t.Errorf("%T: logged %v\nJSON %v", tt.value, logged, fields)
		}
		written.Reset()
		logger.Info("", "x", reflect.Zero(reflect.TypeOf(tt.value)).Interface())
		if want := `"x":` + tt.none; tt.none != "" && !strings.Contains(written.String(), want) || tt.none == "" && strings.Contains(written.String(), `"x"`) {
			t.Errorf("the zero %T is logged as %s, want %s", tt.value, written, want)
		}
	}
}

// An event may be logged by itself, as a pointer and as a copy.
func TestLogValueOfEvent(t *testing.T) {
	e := &ratelimit.Event{Kind: ratelimit.EventAdmitted, ID: 3, Model: "m", Wait: time.Second}
	for _, value := range []any{e, *e} {
		logger, written := logOf(slog.LevelInfo)
		logger.Info("seen", "e", value)
		if got, want := written.String(), `"e":{"event":"admitted","call":3,"model":"m","wait":1000000000}`; !strings.Contains(got, want) {
			t.Errorf("%T: %s lacks %s", value, got, want)
		}
	}
}

// Each kind that is written by default: 10,000 of one model and of as many names make few records,
// which tell of the others; the first of each model is there.
func TestLogSamplesStorms(t *testing.T) {
	for _, e := range []ratelimit.Event{
		{Kind: ratelimit.EventRefused, Decision: &ratelimit.Decision{Code: ratelimit.DecisionUnknownModel}},
		{Kind: ratelimit.EventExpired}, {Kind: ratelimit.EventCooldownBegan}, {Kind: ratelimit.EventCooldownEnded},
		{Kind: ratelimit.EventQuotaChanged}, {Kind: ratelimit.EventProviderRefused, Status: 429}, {Kind: ratelimit.EventUnknownModel}, {Kind: ratelimit.EventUncounted, Path: "/p"},
		{Kind: ratelimit.EventStoreDown}, {Kind: ratelimit.EventStoreUp}, {Kind: ratelimit.EventSaved, Err: context.Canceled},
	} {
		for _, names := range []int{1, 20, 10_000} {
			t.Run(fmt.Sprint(e.Kind, names), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					logger, written := logOf(slog.LevelInfo)
					h := ratelimit.LogEvents(logger, ratelimit.LogOptions{})
					for i := range 10_000 {
						e.Model = fmt.Sprint("m", i%names)
						h.HandleEvent(t.Context(), &e)
					}
					lines, told := 0, 0
					seen := make(map[string]bool)
					for line := range strings.Lines(written.String()) {
						var record struct {
							Model   string
							LeftOut int `json:"left_out"`
						}
						if err := json.Unmarshal([]byte(line), &record); err != nil {
							t.Fatal(err)
						}
						if lines++; seen[record.Model] == false && names < 100 && record.LeftOut != 0 {
							t.Errorf("the first of %s tells of %d more", record.Model, record.LeftOut)
						}
						seen[record.Model] = true
						told += record.LeftOut
					}
					most := 300
					if e.Kind == ratelimit.EventRefused {
						most = 1200 // each model and code is written once, up to 1,024
					}
					if lines > most || lines+told < 10_000-100*names && names < 100 || names == 20 && len(seen) != 20 {
						t.Errorf("%d records of %d models tell of %d more", lines, len(seen), told)
					}
				})
			})
		}
	}
}

// What comes now and then is all written, as are calls, whose kinds are for those who look for
// something; and 1 switches the samples off.
func TestLogKeepsWhatIsNoStorm(t *testing.T) {
	for _, tt := range []struct {
		kind  ratelimit.EventKind
		every int
		gap   time.Duration
	}{
		{ratelimit.EventCooldownBegan, 0, 7 * time.Second},
		{ratelimit.EventStoreDown, 0, 7 * time.Second},
		{ratelimit.EventAdmitted, 0, 0},
		{ratelimit.EventCooldownBegan, 1, 0},
		{ratelimit.EventUnknownModel, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			logger, written := logOf(slog.LevelDebug)
			h := ratelimit.LogEvents(logger, ratelimit.LogOptions{DenialsEvery: tt.every})
			for range 1000 {
				h.HandleEvent(t.Context(), &ratelimit.Event{Kind: tt.kind, Model: "m"})
				time.Sleep(tt.gap)
			}
			if n := strings.Count(written.String(), "\n"); n != 1000 || strings.Contains(written.String(), "left_out") {
				t.Errorf("%+v: %d of 1000 are written", tt, n)
			}
		})
	}
}
