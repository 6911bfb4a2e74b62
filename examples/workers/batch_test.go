package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBatchIsWholeAfterTheKills runs a small batch in two processes, each of which is killed.
func TestBatchIsWholeAfterTheKills(t *testing.T) {
	var out bytes.Buffer
	cfg := batchConfig{
		db: filepath.Join(t.TempDir(), "quota.db"), prompts: 600, workers: 2, rpm: 10_000,
		kill: 300 * time.Millisecond, away: 50 * time.Millisecond,
	}
	if err := runBatch(t.Context(), cfg, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{
		"prompts         600 of 600 (100%) answered", "429s            0 in", "verdict         PASS",
		"killed          2 workers",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
}

// TestBatchGoesOn interrupts a batch, and lets the next run end it.
func TestBatchGoesOn(t *testing.T) {
	cfg := batchConfig{
		db: filepath.Join(t.TempDir(), "quota.db"), prompts: 300, workers: 1, rpm: 10_000,
		kill: time.Hour,
	}
	ctx, interrupt := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer interrupt()
	var out bytes.Buffer
	if err := runBatch(ctx, cfg, &out); !errors.Is(err, errInterrupted) {
		t.Fatalf("%v:\n%s", err, &out)
	}
	out.Reset()
	if err := runBatch(t.Context(), cfg, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "300 of 300 (100%) answered") {
		t.Errorf("output:\n%s", &out)
	}
}

func TestReadDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "done")
	if done, err := readDone(path); len(done) > 0 || err != nil {
		t.Errorf("no file: %v, %v", done, err)
	}
	if err := os.WriteFile(path, []byte("1\n22\n3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err := readDone(path); len(done) != 2 || !done[1] || !done[22] || err != nil {
		t.Errorf("%v, %v", done, err)
	}
}

func TestBatchFlags(t *testing.T) {
	for _, test := range []struct{ args, err string }{
		{"", ""},
		{"-prompts 10 -workers 3 -rpm 5 -tpm 0", ""},
		{"now", `unexpected argument "now"`},
		{"-prompts 0", "-prompts, -workers and -rpm must be at least 1"},
		{"-kill 0", "-tpm and -away must not be negative, and -kill must be more than 0"},
	} {
		var complaint strings.Builder
		_, err := parseBatchFlags(strings.Fields(test.args), &complaint)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != test.err || (err != nil) != (complaint.Len() > 0) {
			t.Errorf("%q: error %v, want %q; told %q", test.args, err, test.err, complaint.String())
		}
	}
}
