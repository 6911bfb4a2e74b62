// Names that are odd.

package otelratelimit_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// No name that a caller gives a model, a class, a pool or a provider keeps an export from being
// encoded: Protocol Buffers fail at a string that is not UTF-8, and OTLP sends all series of a
// process, or a batch of its spans, in one message.
func TestHostileNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracers, spans := newTracers(t)
		h, reader := newHandler(t, otelratelimit.WithTracerProvider(tracers), otelratelimit.WithGenAIMetrics(""))
		long := strings.Repeat("x", 1<<20)
		names := []string{"model\xff", "model\xfe", long + "1", long + "2", long + "\xff", "\xff" + long}
		config := ratelimit.Config{
			Events: h, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}, Pools: map[string]ratelimit.Pool{},
			Classes: map[string]ratelimit.Class{"c": {}},
		}
		for _, name := range names {
			config.Pools[name] = ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 100}}
		}
		rl := newLimiter(t, config)
		if _, err := h.Observe(rl); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for range 2 { // the second one waits
				r, err := rl.Acquire(ratelimit.WithClass(t.Context(), "c"), name, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				r.Commit(1, 1)
			}
			rl.CooldownFor(name, time.Minute, ratelimit.Cause(name))
		}
		d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Reason: "\xff", Pool: "p\xff", Cause: "c\xff"}
		for _, e := range []ratelimit.Event{
			{Kind: ratelimit.EventRefused, Model: "m", Provider: "p\xff", Class: "d\xff", Wait: 1, Decision: &d},
			{Kind: ratelimit.EventProviderRefused, Model: "m", Problem: "p\xff"},
			{Kind: ratelimit.EventSaved, System: "s\xff", Operation: "save"},
		} {
			h.HandleEvent(t.Context(), &e)
		}

		var texts []string
		models := make(map[string]bool)
		all := collect(t, reader)
		for _, line := range lines(all, "") {
			texts = append(texts, line)
			if after, ok := strings.CutPrefix(line, "ratelimit.lease.duration{gen_ai.request.model="); ok {
				models[after] = true
			}
		}
		if len(models) != len(names) {
			t.Errorf("%d series, want one for each of %d models", len(models), len(names))
		}
		waits := spans.GetSpans()
		if len(waits) != len(names)+1 {
			t.Errorf("%d spans, want %d", len(waits), len(names)+1)
		}
		for _, s := range waits {
			texts = append(texts, s.Name, s.Status.Description)
			for _, a := range s.Attributes {
				texts = append(texts, a.Value.String())
			}
		}
		for _, text := range texts {
			if !utf8.ValidString(text) || len(text) > 2000 {
				t.Errorf("%d bytes: %.300q", len(text), text)
			}
		}
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, `model=model\xff`) }) {
			t.Error(`no series has the model model\xff`)
		}
	})
}

// Two names that are one as attributes are counted together.
func TestNamesThatBecomeOne(t *testing.T) {
	h, reader := newHandler(t)
	for _, model := range []string{"a\xff", `a\xff`} {
		tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: model, Estimated: usage(2, 0)})
	}
	equalLines(t, lines(collect(t, reader), "ratelimit."),
		`ratelimit.requests{gen_ai.request.model=a\xff,ratelimit.code=ok,ratelimit.result=admitted} 2`,
		`ratelimit.tokens{gen_ai.request.model=a\xff,gen_ai.token.type=input,ratelimit.kind=reserved} 4`)
}
