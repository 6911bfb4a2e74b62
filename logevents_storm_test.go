// LogEvents: a storm of any kind fills no log.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

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
