package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"github.com/openai/openai-go/v3/option"
)

// TestDemo runs the first burst, as a user would.
func TestDemo(t *testing.T) {
	folder := t.TempDir()
	var out bytes.Buffer
	if err := runDemo(t.Context(), folder, true, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{
		" 0 in the provider's log", "verdict         PASS", "60 of 60 (100%) requests", "140 by the service",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
	records, err := fakeprovider.ReadJournal(filepath.Join(folder, "demo", "provider.jsonl.last"))
	if err != nil || len(records) != 60 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// TestDemoGoesOn interrupts a run, whose usage the next one must respect.
func TestDemoGoesOn(t *testing.T) {
	folder := t.TempDir()
	ctx, interrupt := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer interrupt()
	var out bytes.Buffer
	if err := runDemo(ctx, folder, true, &out); !errors.Is(err, errInterrupted) {
		t.Fatalf("error %v:\n%s", err, &out)
	}
	records, err := fakeprovider.ReadJournal(filepath.Join(folder, "demo", "provider.jsonl"))
	if err != nil || len(records) == 0 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	out.Reset()
	if err := runDemo(t.Context(), folder, true, &out); err != nil {
		t.Errorf("%v:\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "An earlier run was interrupted: its ") {
		t.Errorf("output:\n%s", &out)
	}
}

// TestVerdict has logs that do not agree with the service.
func TestVerdict(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	record := func(seconds int, refused bool) fakeprovider.Record {
		return fakeprovider.Record{
			At: began.Add(time.Duration(seconds) * time.Second), Refused: refused,
			Charge: map[fakeprovider.Dimension]int{fakeprovider.RPM: 1, fakeprovider.TPM: 100},
		}
	}
	for _, test := range []struct {
		name    string
		records []fakeprovider.Record
		cut     int
		err     string
	}{
		{"equal", []fakeprovider.Record{record(-1, true), record(0, false), record(61, false)}, 0, ""},
		{"a 429", []fakeprovider.Record{record(0, false), record(61, true)}, 0, "refused 1 call with 429"},
		{"a call too few", []fakeprovider.Record{record(0, false)}, 0, "count differently"},
		{"cut", []fakeprovider.Record{record(0, false), record(0, false)}, 1, "1 answers were cut"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			d := &showcase{
				out: &out, began: began, load: newLoad("", 1, 1),
				booked: &booked{calls: 2, tokens: 200},
			}
			d.load.c.cut = test.cut
			err := d.report(test.records, "log")
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if pass := strings.Contains(out.String(), "PASS"); pass != (test.err == "") {
				t.Errorf("output:\n%s", &out)
			}
		})
	}
}

// TestAnswersToCallers has providers that fail.
func TestAnswersToCallers(t *testing.T) {
	for _, test := range []struct {
		name, path string
		status     int // of the provider
		want       int
		retryAfter string
	}{
		{"no question", "/ask", 200, 400, ""},
		{"too long", "/ask?q=" + strings.Repeat("x", maxPrompt+1), 200, 400, ""},
		{"wrong key", "/ask?q=hi", 401, 502, ""},
		{"overloaded", "/ask?q=hi", 503, 503, "7"},
		{"no text", "/ask?q=hi", 200, 200, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(test.status)
				w.Write([]byte("data: [DONE]\n\n"))
			}))
			defer provider.Close()
			s, err := newService(t.TempDir(), func(llmhttp.Event) {},
				option.WithBaseURL(provider.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			w := httptest.NewRecorder()
			s.ask(w, httptest.NewRequest(http.MethodGet, test.path, nil))
			if w.Code != test.want || w.Header().Get("Retry-After") != test.retryAfter {
				t.Errorf("%d, Retry-After %q, want %d, %q", w.Code, w.Header().Get("Retry-After"), test.want, test.retryAfter)
			}
		})
	}
}

func TestRunNeedsAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), "", file, true, io.Discard); err == nil {
		t.Error("no error")
	}
}
