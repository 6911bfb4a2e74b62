package batch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Status is how a run goes, as its JSON tells it.
type Status struct {
	Lines      int     `json:"lines"`
	Done       int     `json:"done"` // with those that OUT had before
	Failed     int     `json:"failed"`
	InFlight   int     `json:"in_flight"`
	Requests   int     `json:"requests_per_minute"` // of the model that is nearest to its limits
	MaxRequest int     `json:"max_requests_per_minute,omitempty"`
	Tokens     int     `json:"tokens_per_minute"`
	MaxTokens  int     `json:"max_tokens_per_minute,omitempty"`
	Dollars    float64 `json:"dollars"`
	DollarsEnd float64 `json:"dollars_at_end"`
	Seconds    float64 `json:"seconds_left"` // -1 where that is not known yet
}

// Status returns how the run goes. It may be called while it runs.
func (b *Batch) Status() Status {
	spent, flying := b.room.costs()
	done, failed := int(b.count.done.Load()), int(b.count.failed.Load())
	s := Status{
		Lines: b.survey.lines, Done: b.survey.finished + done, Failed: failed, InFlight: flying,
		Dollars: b.survey.state.Spent.Add(spent).Dollars(), Seconds: -1,
	}
	left := s.Lines - s.Done - failed
	s.DollarsEnd = s.Dollars
	if ended := done + failed; ended > 0 {
		s.DollarsEnd += spent.Dollars() / float64(ended) * float64(left)
	}
	tokens := 0
	if done > 0 {
		tokens = int(b.count.prompt.Load()+b.count.output.Load()) / done
	}
	b.fillRates(&s, left, tokens)
	return s
}

// fillRates sets the use of the limits, and the time that they leave: what is left at the rate of
// the scarcest limit, or without one at that of the run so far.
func (b *Batch) fillRates(s *Status, left, tokens int) {
	b.mu.Lock()
	names := make([]string, 0, len(b.models))
	for _, name := range b.models {
		names = append(names, name)
	}
	began := b.began
	b.mu.Unlock()
	nearest := -1.0
	for _, name := range names {
		for _, of := range limitsOf(b.limiter, name) {
			use := max(share(of.RPM, of.MaxRPM), share(of.TPM, of.MaxTPM))
			if use > nearest {
				nearest = use
				s.Requests, s.MaxRequest, s.Tokens, s.MaxTokens = of.RPM, of.MaxRPM, of.TPM, of.MaxTPM
			}
		}
	}
	if left == 0 {
		s.Seconds = 0
		return
	}
	if len(names) == 1 && (s.MaxRequest > 0 || s.MaxTokens > 0 && tokens > 0) {
		s.Seconds = 60 * max(share(left, s.MaxRequest), float64(tokens)*share(left, s.MaxTokens))
		return
	}
	if ended := s.Done - b.survey.finished + s.Failed; ended > 0 && !began.IsZero() {
		s.Seconds = time.Since(began).Seconds() / float64(ended) * float64(left)
	}
}

func share(n, limit int) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(n) / float64(limit)
}

// String returns the status in one line for a person.
func (s Status) String() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%d of %d done", s.Done, s.Lines)
	if s.Failed > 0 {
		fmt.Fprintf(&t, ", %d failed", s.Failed)
	}
	fmt.Fprintf(&t, ", %d in flight", s.InFlight)
	if s.Seconds >= 0 {
		fmt.Fprintf(&t, ", %v left", time.Duration(s.Seconds)*time.Second)
	}
	rate := func(n, limit int, what string) {
		fmt.Fprintf(&t, " | %d", n)
		if limit > 0 {
			fmt.Fprintf(&t, "/%d", limit)
		}
		t.WriteString(what)
	}
	rate(s.Requests, s.MaxRequest, " rpm")
	rate(s.Tokens, s.MaxTokens, " tpm")
	if s.DollarsEnd > 0 {
		fmt.Fprintf(&t, " | $%.4f, $%.4f at the end", s.Dollars, s.DollarsEnd)
	}
	return t.String()
}

// fit cuts a line to the width of the terminal, where it could not be written over.
func fit(text string, terminal io.Writer) string {
	f, ok := terminal.(*os.File)
	if !ok {
		return text
	}
	return cut(text, columnsOf(f)-1)
}

// cut returns the first so many bytes of a text; all for a number that no width is.
func cut(text string, n int) string {
	if n <= 0 || len(text) <= n {
		return text
	}
	return text[:n]
}

// Form is how progress is shown.
type Form string

// The forms.
const (
	Live  Form = "live"  // one line that is written over and over, for a terminal
	Plain Form = "plain" // a line every ten seconds
	JSON  Form = "json"  // a line of JSON every second
	None  Form = "none"
)

// every is how often each form is written.
var every = map[Form]time.Duration{Live: 200 * time.Millisecond, Plain: 10 * time.Second, JSON: time.Second}

// Show writes the status of a run in a form, until the function that it returns is called, which
// writes it for the last time.
func Show(to io.Writer, form Form, status func() Status) (stop func()) {
	if every[form] == 0 {
		return func() {}
	}
	width := 0
	show := func() {
		s := status()
		switch form {
		case JSON:
			json.NewEncoder(to).Encode(s) //nolint:errcheck // nobody reads it then
		case Plain:
			fmt.Fprintln(to, s)
		case Live: // spaces clear the rest, because some terminals know no escape sequences
			text := fit(s.String(), to)
			fmt.Fprint(to, "\r", text, strings.Repeat(" ", max(width-len(text), 0)))
			width = len(text)
		}
	}
	show()
	quit := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(every[form])
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				show()
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		ended.Wait()
		show()
		if form == Live {
			fmt.Fprintln(to)
		}
	}
}
