package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// board counts what the SDKs, the limiter and the provider do. It is the transport below the
// limiter's, too, where it sees the provider's answers. It is safe for concurrent use.
type board struct {
	cfg       config
	server    *fakeprovider.Server // nil with -real
	providers []provider
	began     time.Time

	mu      sync.Mutex
	refused int // answers of 429 by the providers
	rows    map[string]*row
}

// row is one SDK's part, by its model.
type row struct {
	answered, failed int
	sent             int // requests, as the limiter counts them
	tokens           int // as the limiter counts them
	firstError       error
}

func newBoard(cfg config, server *fakeprovider.Server, providers []provider) *board {
	b := &board{cfg: cfg, server: server, providers: providers, began: time.Now(), rows: make(map[string]*row)}
	for _, p := range providers {
		b.rows[p.model] = &row{}
	}
	return b
}

// RoundTrip sends a request to the provider.
func (b *board) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
	}
	return resp, err
}

// event counts what the limiter charges.
func (b *board) event(e llmhttp.Event) {
	if e.Kind != llmhttp.EventSettled {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.rows[e.Model]; r != nil {
		r.sent++
		r.tokens += e.Settled.PromptTokens + e.Settled.OutputTokens
	}
}

// ended counts the end of a call of an SDK.
func (b *board) ended(model string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rows[model]
	if err == nil {
		r.answered++
		return
	}
	r.failed++
	if r.firstError == nil {
		r.firstError = err
	}
}

func (b *board) introduce(out io.Writer) {
	fmt.Fprintf(out, "The SDKs of OpenAI, Anthropic and Google make %s each, all at once, to ", demo.Count(b.cfg.calls, "call"))
	if b.cfg.real {
		fmt.Fprintf(out, "the\nproviders whose keys are set, at %d requests a minute to each model.\n", b.cfg.rpm)
	} else {
		fmt.Fprintf(out, "a local\nserver. It allows %d requests a minute to each of their models, answers 429 to more, and counts.\n", b.cfg.rpm)
	}
	switch rest := b.cfg.calls - b.cfg.rpm; {
	case b.cfg.without:
		fmt.Fprint(out, "They do so without a limiter. What to look for: 429s, and calls that fail.\n\n")
	case rest > 0:
		fmt.Fprintf(out, "What to look for: %d calls of each go out at once, the other %d wait until the first are a\nminute old, and the 429s stay at 0.\n\n", b.cfg.rpm, rest)
	default:
		fmt.Fprint(out, "What to look for: all of them fit, and the 429s stay at 0.\n\n")
	}
}

// line is the present state.
func (b *board) line() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var line strings.Builder
	elapsed := time.Since(b.began)
	fmt.Fprintf(&line, "%3.0fs", elapsed.Seconds())
	open := 0
	for _, p := range b.providers {
		r := b.rows[p.model]
		if p.key == "" {
			fmt.Fprintf(&line, "  %s no key", p.name)
			continue
		}
		fmt.Fprintf(&line, "  %s %d/%d", p.name, r.answered, b.cfg.calls)
		open += b.cfg.calls - r.answered - r.failed
	}
	fmt.Fprintf(&line, "  open %d  429s %d", open, b.refused)
	return line.String()
}

// report writes the table and the verdict, which it returns as an error if it is bad.
func (b *board) report(out io.Writer, took time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := demo.NewTable(out)
	fmt.Fprintln(out)
	var errs []error
	for _, p := range b.providers {
		if p.key == "" {
			continue
		}
		r := b.rows[p.model]
		t.Row(p.name, "%d answered, %d failed", r.answered, r.failed)
		if r.firstError != nil {
			t.Row("", "the first failure: %.90s …", r.firstError)
			errs = append(errs, fmt.Errorf("%s: %d calls failed", p.name, r.failed))
		}
		if !b.cfg.without {
			t.Row("", "counted here: %s, %s (%s)", demo.Count(r.sent, "request"), demo.Count(r.tokens, "token"), p.counts)
		}
		if b.server == nil {
			continue
		}
		s := b.server.Stats(p.model)
		requests, tokens := s.Requests, s.Counted[fakeprovider.TPM]
		t.Row("", "the server's: %s, %s; used: %s prompt, %s output",
			demo.Count(requests, "request"), demo.Count(tokens, "token"), demo.Group(s.Used.Prompt), demo.Group(s.Used.Output))
		if !b.cfg.without && (requests != r.sent || tokens != r.tokens) {
			errs = append(errs, fmt.Errorf("%s: the server counts differently", p.name))
		}
	}
	t.Row("time", "%.1fs", took.Seconds())
	if b.server != nil {
		b.share(t)
	}
	t.Row("429s", "%d", b.refused)
	if b.refused > 0 {
		errs = append(errs, fmt.Errorf("%d answers of 429", b.refused))
	}
	wrong := errors.Join(errs...)
	switch {
	case wrong != nil && b.cfg.without:
		t.Row("verdict", "this is what a limiter is for: try it again without -without")
	case b.server == nil:
		t.Verdict("no 429", wrong)
	default:
		t.Verdict("no 429, and the server counts every request and token as we do", wrong)
	}
	t.Flush()
	return wrong
}

// share writes how much of the quota was used.
func (b *board) share(t *demo.Table) {
	fullest := 0
	for _, p := range b.providers {
		var times []time.Time
		for _, a := range b.server.Arrivals(p.model) {
			if a.Refused {
				continue
			}
			times = append(times, a.Time)
			for a.Time.Sub(times[0]) >= time.Minute {
				times = times[1:]
			}
			fullest = max(fullest, len(times))
		}
	}
	t.Row("fullest minute", "%s requests, the same for each model", demo.Share(fullest, b.cfg.rpm))
	if rest := b.cfg.calls - b.cfg.rpm; rest > 0 && !b.cfg.without {
		t.Row("", "(the second minute had only the other %d calls to make)", rest)
	}
}
