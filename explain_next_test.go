// Explain and events with classes: who is served next, and whose call ended.

package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
)

// Each row: calls in the order of their arrival. The first of the line is always the one that is
// served when a call ends.
func TestExplainNext(t *testing.T) {
	for name, tt := range map[string]struct {
		classes map[string]ratelimit.Class
		shared  bool
		calls   []ratelimit.Request
	}{
		"arrival": {nil, false, []ratelimit.Request{{PromptTokens: 5}, {PromptTokens: 4}, {PromptTokens: 3}}},
		"ahead": {map[string]ratelimit.Class{"batch": {}, "people": {Ahead: true}}, false, []ratelimit.Request{
			{PromptTokens: 5, Class: "batch"}, {PromptTokens: 4, Class: "batch"}, {PromptTokens: 3, Class: "people"}, {PromptTokens: 2, Class: "people"},
		}},
		"ahead, shared": {map[string]ratelimit.Class{"batch": {}, "people": {Ahead: true}}, true, []ratelimit.Request{
			{PromptTokens: 5, Class: "batch"}, {PromptTokens: 4, Class: "batch"}, {PromptTokens: 3, Class: "people"}, {PromptTokens: 2, Class: "people"},
		}},
		"weights": {map[string]ratelimit.Class{"light": {}, "heavy": {Weight: 3}}, false, []ratelimit.Request{
			{PromptTokens: 9, Class: "light"}, {PromptTokens: 8, Class: "light"}, {PromptTokens: 7, Class: "light"},
			{PromptTokens: 6, Class: "heavy"}, {PromptTokens: 5, Class: "heavy"}, {PromptTokens: 4, Class: "heavy"}, {PromptTokens: 3, Class: "heavy"},
		}},
		"flows": {nil, false, []ratelimit.Request{
			{PromptTokens: 9, Flow: "a"}, {PromptTokens: 8, Flow: "a"}, {PromptTokens: 7, Flow: "a"}, {PromptTokens: 6, Flow: "b"}, {PromptTokens: 5, Flow: "c"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}, Classes: tt.classes}
				l := &line{T: t, rl: sharedOrNot(t, tt.shared, cfg)}
				defer l.rl.Close()
				held, _ := l.rl.Reserve("m", 1, 0)
				for _, req := range tt.calls {
					req.Model = "m"
					l.comes(fmt.Sprint(req.PromptTokens), req)
				}
				var want []string
				for left := len(tt.calls); left > 0; left-- {
					e := l.rl.Explain("m")
					if len(e.Line) != left {
						t.Fatalf("%d in line, want %d", len(e.Line), left)
					}
					first := fmt.Sprint(e.Line[0].PromptTokens)
					if text := "; the first asks for " + first + " input tokens"; !strings.Contains(e.String(), text) {
						t.Errorf("%s\nlacks %q", e, text)
					}
					want = append(want, first)
					held.Commit(1, 0)
					l.expect(strings.Join(want, " "))
					held = l.kept[len(l.kept)-1]
				}
				held.Cancel()
			})
		})
	}
}

// A call whose context ended before it began has its class.
func TestClassOfEndedCall(t *testing.T) {
	ctx, cancel := context.WithCancel(ratelimit.WithClass(context.Background(), "people"))
	cancel()
	req := ratelimit.Request{Model: "m", PromptTokens: 1}
	named := ratelimit.Request{Model: "m", PromptTokens: 1, Class: "batch"}
	for _, shared := range []bool{false, true} {
		for name, call := range map[string]func(rl *ratelimit.RateLimiter, req ratelimit.Request) error{
			"Acquire": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
				_, err := rl.Acquire(ratelimit.WithClass(ctx, classOr(req, "people")), req.Model, req.PromptTokens, 0)
				return err
			},
			"AcquireAll": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
				_, err := rl.AcquireAll(ctx, req)
				return err
			},
			"AcquireAny": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
				_, err := rl.AcquireAny(ctx, ratelimit.AnyOptions{}, req)
				return err
			},
			"WaitForCapacity": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
				return rl.WaitForCapacity(ratelimit.WithClass(ctx, classOr(req, "people")), req.Model, req.PromptTokens)
			},
			"Do": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
				return rl.Do(ctx, req, func(context.Context) (ratelimit.Usage, error) {
					return ratelimit.Usage{}, nil
				})
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				rl := sharedOrNot(t, shared, ratelimit.Config{
					Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}},
					Classes: map[string]ratelimit.Class{"batch": {}, "people": {Ahead: true}},
					Events: handling(func(_ context.Context, e *ratelimit.Event) {
						if e.Kind == ratelimit.EventRefused {
							got = append(got, e.Class)
						}
					}),
				})
				defer rl.Close()
				for _, req := range []ratelimit.Request{req, named} {
					if err := call(rl, req); err == nil {
						t.Errorf("%s was served", name)
					}
				}
				if want := "people batch"; strings.Join(got, " ") != want {
					t.Errorf("shared %t, %s: the classes are %q, want %q", shared, name, got, want)
				}
			})
		}
	}
}

func classOr(req ratelimit.Request, class string) string {
	if req.Class != "" {
		return req.Class
	}
	return class
}
