package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// tally is what the agents and their client have counted. It is safe for concurrent use.
type tally struct {
	limiter *ratelimit.RateLimiter
	began   time.Time

	mu         sync.Mutex
	steps      map[string]int // by the model that answered
	failed     int
	err        error // the first one
	calls      map[string]int
	tokens     map[string]int
	refused    int // calls that did not get room in time, and were not sent
	overloaded int
}

func newTally(rl *ratelimit.RateLimiter) *tally {
	return &tally{
		limiter: rl, began: time.Now(),
		steps: make(map[string]int), calls: make(map[string]int), tokens: make(map[string]int),
	}
}

// event counts what the client does.
func (t *tally) event(e llmhttp.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case llmhttp.EventRefused:
		t.refused++
	case llmhttp.EventProblem:
		t.overloaded++
	case llmhttp.EventSettled:
		t.calls[e.Model]++
		t.tokens[e.Model] += e.Settled.PromptTokens + e.Settled.OutputTokens
	}
}

// step counts a step of an agent.
func (t *tally) step(model string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed++
		t.err = errors.Join(t.err, err)
		return
	}
	t.steps[model]++
}

func introduce(out io.Writer) {
	fmt.Fprintf(out, `%d agents take %d steps each with %s (%d requests a minute), and with %s (%d) where there is
no room for it within %v. The server answers 429 to more, is overloaded once, and keeps a log.
What to look for: the better model's quota is used up, no step fails, and there is no 429.

`, agents, steps, better, quotas[better].MaxRPM, cheaper, quotas[cheaper].MaxRPM, patience)
}

func (t *tally) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%3.0fs  steps %d/%d: %d by %s, %d by %s", time.Since(t.began).Seconds(),
		t.steps[better]+t.steps[cheaper], agents*steps, t.steps[better], better, t.steps[cheaper], cheaper)
}

// report writes the table and the verdict, which it returns as an error if it is bad.
func (t *tally) report(out io.Writer, records []fakeprovider.Record, journal string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls, tokens := make(map[string]int), make(map[string]int)
	early, refused := 0, 0
	for _, r := range records {
		switch {
		case r.Refused:
			refused++
			continue
		case r.At.Before(t.began):
			continue
		case r.At.Sub(t.began) <= 2*time.Second:
			early++
		}
		calls[r.Model]++
		tokens[r.Model] += r.Charge[fakeprovider.TPM]
	}
	var errs []error
	table := demo.NewTable(out)
	fmt.Fprintln(out)
	table.Row("steps", "%s: %d by %s, %d by %s, %d failed", demo.Share(t.steps[better]+t.steps[cheaper], agents*steps),
		t.steps[better], better, t.steps[cheaper], cheaper, t.failed)
	table.Row("fell back", "%s found no room in %v, %s met an overloaded server",
		demo.Count(t.refused, "call"), patience, demo.Count(t.overloaded, "call"))
	table.Row("429s", "%d in the server's log", refused)
	table.Row("first 2s", "%s admitted", demo.Count(early, "call"))
	for _, model := range []string{better, cheaper} {
		table.Row(model, "%s requests, %s tokens", demo.Share(calls[model], quotas[model].MaxRPM), demo.Share(tokens[model], quotas[model].MaxTPM))
		table.Row("", "counted here: %s, %s tokens; by the server: %s, %s tokens",
			demo.Count(t.calls[model], "call"), demo.Group(t.tokens[model]),
			demo.Count(calls[model], "call"), demo.Group(tokens[model]))
		if calls[model] != t.calls[model] || tokens[model] != t.tokens[model] {
			errs = append(errs, fmt.Errorf("%s: the server counts differently", model))
		}
	}
	table.Row("server's log", "%s", journal)
	if refused > 0 {
		errs = append(errs, fmt.Errorf("the server refused %s", demo.Count(refused, "call")))
	}
	if t.failed > 0 {
		errs = append(errs, fmt.Errorf("%s failed: %w", demo.Count(t.failed, "step"), t.err))
	}
	wrong := errors.Join(errs...)
	table.Verdict("every step has its answer, no 429, and both sides count the same", wrong)
	table.Flush()
	return wrong
}
