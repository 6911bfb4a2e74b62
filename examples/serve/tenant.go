package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// tenant is a customer of the gateway.
type tenant struct {
	name, apiKey string
	callers      int           // that call at the same time
	every        time.Duration // between the calls of a caller
	prompt       string

	mu    sync.Mutex
	c     counts
	took  []time.Duration // of answers
	wrong error           // the first failure
}

// counts is what a tenant has seen.
type counts struct {
	sent, answered, streamed int
	refused, byTokens        int // with 429, and how many of them for its tokens
	failed                   int
}

// newTenants returns the tenants, the one that floods first.
func newTenants() []*tenant {
	const question = "Why is the sky blue? "
	return []*tenant{
		{name: "flood", apiKey: "sk-flood", callers: 6, every: 20 * time.Millisecond, prompt: strings.Repeat(question, 150)},
		{name: "quiet-1", apiKey: "sk-quiet-1", callers: 1, every: time.Second, prompt: question},
		{name: "quiet-2", apiKey: "sk-quiet-2", callers: 1, every: time.Second, prompt: question},
	}
}

// quiet reports whether the tenant stays within its quota.
func (t *tenant) quiet() bool { return t.callers == 1 }

func (t *tenant) counts() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.c
}

// run calls the gateways in turn until ctx ends. A call that was begun is brought to its end.
func (t *tenant) run(ctx context.Context, gateways []string, caller int) {
	ticker := time.NewTicker(t.every)
	defer ticker.Stop()
	for i := caller; ctx.Err() == nil; i++ {
		t.call(context.WithoutCancel(ctx), gateways[i%len(gateways)], i%2 == 0)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// call makes one call and counts how it ended.
func (t *tenant) call(ctx context.Context, gateway string, stream bool) {
	t.mu.Lock()
	t.c.sent++
	t.mu.Unlock()
	began := time.Now()
	resp, body, err := t.ask(ctx, gateway, stream)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.c.failed++
		t.wrong = err
	case resp.StatusCode == http.StatusTooManyRequests:
		t.c.refused++
		if strings.HasPrefix(resp.Header.Get("RateLimit"), `"tokens"`) {
			t.c.byTokens++
		}
	case resp.StatusCode != http.StatusOK || stream != bytes.HasSuffix(body, []byte("[DONE]\n\n")):
		t.c.failed++
	default:
		t.c.answered++
		if stream {
			t.c.streamed++
		}
		t.took = append(t.took, time.Since(began))
	}
}

// ask asks the model a question.
func (t *tenant) ask(ctx context.Context, gateway string, stream bool) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	question, err := json.Marshal(map[string]any{
		"model": model, "stream": stream, "max_completion_tokens": maxAnswer,
		"messages": []map[string]string{{"role": "user", "content": t.prompt}},
	})
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/chat/completions", bytes.NewReader(question))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+t.apiKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// times returns the median and the longest time that answers took.
func (t *tenant) times() (median, longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return 0, 0
	}
	slices.Sort(t.took)
	return t.took[len(t.took)/2], t.took[len(t.took)-1]
}
